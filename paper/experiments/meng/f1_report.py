"""What is read off the cells of `meng_f1`: differences from cross-entropy, who is trapped, predictions; its report."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from ...report.figures import COLOURS, band, dots, drawing, tidy
from ...report.scoreboard import markdown
from ...report.statistics import Paired, paired

TITLE = "F1 as the loss on balanced images, and predicted F1"
#: Accuracy in the paper's text, in percent: cross-entropy and the paper's own.
PAPER = {"cats_vs_dogs": (76.0, 77.8), "cifar10": (70.3, 72.6), "cifar100": (60.4, 63.4), "stl10": (71.8, 72.7)}
PLAIN = "cross-entropy"
UNBOUND, WARM = ", free threshold", ", warm"
PROGRAM, DIRECT, SOFT = "F1 program", "direct", "soft counts"
FREE = PROGRAM + UNBOUND
CVXPY, AP_PERF = "CVXPY-SCS", "AP-Perf"
#: Its rivals by name: where they ended, in the paper's text.
RIVALS = {
    CVXPY: {**dict.fromkeys(PAPER, "all positive"), "cats_vs_dogs": "70.1"},
    AP_PERF: dict.fromkeys(PAPER, "all positive"),
}
READINGS = ("accuracy", "accuracy, tuned", "f1", "f1, tuned")
#: Decided positive by more than this share of test images: the all-positive answer.
ALL = 0.99
#: Steps averaged into one point of Fig. 3a.
WINDOW = 10
SETTING = (
    "Test accuracy and F1 on balanced data (half of the classes positive; all-positive has accuracy 0.5, F1 0.667). "
    "Images halved to 16 × 16, three strided convolutions, all images of the small copies of the sets, a quarter for "
    "validation, 500 AdamW steps of 64 images at rate 0.002 for every method (as the paper: one rate for all), 3 looks "
    "at validation data in the second half. The stopping point is chosen there by the value that is reported, decided "
    'at 0 or, where it says "tuned", at the threshold that is best there. "warm": the first half of the steps are '
    "cross-entropy's. The program with a free threshold has its own; its readings at 0 mean little. All positive: runs "
    "that decide more than 99 % of the test images positive, at 0 after the last step (free threshold: at the one that "
    "validation chose). CVXPY-SCS: the F1 program with only its solver replaced, by cvxpylayers (SCS at its default "
    'accuracy, derivative by diffcp\'s default, "lsqr"). AP-Perf: the package ap_perf, its F1, as documented. '
    "It takes 0.2 s and more for every step, so it may have fewer runs; its differences are over those. "
    "`--full`: ResNet-20, 4,000 steps, three rates."
)


def difference(results: list[dict[str, Any]], method: str, reading: str, rival_reading: str | None = None) -> Paired:
    """A method minus cross-entropy over all runs that have it; ``rival_reading`` reads cross-entropy in another way."""
    both = having(results, method)
    ours = [entry["result"][method][reading]["test"] for entry in both]
    theirs = [entry["result"][PLAIN][rival_reading or reading]["test"] for entry in both]
    return paired(ours, theirs)


def trapped(results: list[dict[str, Any]], method: str) -> int:
    """How many runs end with (nearly) everything decided positive.

    At threshold 0 after the last step; where the program has its own threshold, at the one that validation chose.
    """
    reading = "f1, tuned" if UNBOUND in method else "last"
    return sum(entry["result"][method][reading]["positive"] > ALL for entry in having(results, method))


def having(results: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """The runs that have this method: a rival may have been installed, or afforded, for some of them only."""
    return [entry for entry in results if method in entry["result"]]


def methods_of(results: list[dict[str, Any]]) -> list[str]:
    """Every method that a run has, in the order in which they come."""
    return list(dict.fromkeys(name for entry in results for name in entry["result"]))


def absent(results: list[dict[str, Any]]) -> str:
    """Which of the paper's rivals no run has, in a sentence; empty if none is missing."""
    missing = [name for name in RIVALS if not having(results, name)]
    return f"Not installed when these cells were run: {' and '.join(missing)}." if missing else ""


def label(results: list[dict[str, Any]], method: str) -> str:
    """The method's name, with the number of its runs where it has fewer than the others."""
    runs = len(having(results, method))
    return method if runs == len(results) else f"{method} ({runs} of {len(results)} runs)"


def report(results: list[dict[str, Any]], folder: Path) -> None:
    names = methods_of(results)
    text = [f"# {TITLE}", "", f"{SETTING} {absent(results)}".rstrip(), "", _overall(results, names), ""]
    for reading in ("accuracy", "f1, tuned"):
        gaps = [difference(results, name, reading) for name in names[1:]]
        path = folder / f"{reading.replace(', ', '_')}.svg"
        xlabel = "method − cross-entropy, with 95 % interval over runs"
        lows, highs = [gap.low for gap in gaps], [gap.high for gap in gaps]
        labels = [label(results, name) for name in names[1:]]
        dots(labels, [gap.mean for gap in gaps], lows, highs, path, f"{reading}, on test data", xlabel)
        text += [f"![{reading}: method − cross-entropy]({path.name})"]
    text += [
        "",
        "## Set by set",
        "",
        _by_set(results, names),
        "",
        "## Fig. 3a: predicted and true F1 of the batches",
        "",
    ]
    text += [_prediction(results), "", "![predicted and true F1 over training](predicted.svg)", ""]
    (folder / "table.md").write_text("\n".join(text), encoding="utf8")
    _predicted_figure(results, folder / "predicted.svg")


def _mean(results: list[dict[str, Any]], name: str, reading: str, key: str = "test") -> float:
    return statistics.fmean(entry["result"][name][reading][key] for entry in having(results, name))


def _overall(results: list[dict[str, Any]], names: list[str]) -> str:
    head = ["method", *READINGS, "accuracy − cross-entropy", "f1, tuned − cross-entropy"]
    rows = []
    for name in names:
        values = [f"{_mean(results, name, key):.4f}" for key in READINGS]
        gaps = [str(difference(results, name, key)) if name != PLAIN else "" for key in ("accuracy", "f1, tuned")]
        shares = [f"{_mean(results, name, reading, 'positive'):.2f}" for reading in ("last", "f1, tuned")]
        ends = f"{trapped(results, name)} of {len(having(results, name))}"
        rows.append([label(results, name), *values, *gaps, *shares, ends])
    return markdown(
        [*head, "share decided positive at 0, at the end", "at the F1-best threshold", "all positive"], rows
    )


def _by_set(results: list[dict[str, Any]], names: list[str]) -> str:
    rows = []
    for data in dict.fromkeys(entry["cell"]["set"] for entry in results):
        mine = [entry for entry in results if entry["cell"]["set"] == data]
        plain, theirs = PAPER[data]
        for name in (name for name in names if having(mine, name)):
            values = [f"{_mean(mine, name, key):.3f}" for key in READINGS]
            rivals = {rival: ended[data] for rival, ended in RIVALS.items()}
            paper = {PLAIN: f"{plain}", PROGRAM: f"{theirs}", **rivals}.get(name, "")
            rows.append([data, name, *values, f"{trapped(mine, name)} of {len(having(mine, name))}", paper])
    return markdown(["set", "method", *READINGS, "ends at all positive", "accuracy in the paper, %"], rows)


def predictions(results: list[dict[str, Any]], name: str, key: str) -> list[float]:
    """One number of `_followed` for every run in which it is defined."""
    found = [entry["result"][name]["predicted"][key] for entry in having(results, name)]
    return [value for value in found if value is not None]


def _predicting(results: list[dict[str, Any]]) -> list[str]:
    return [name for name in methods_of(results) if "predicted" in having(results, name)[0]["result"][name]]


def _prediction(results: list[dict[str, Any]]) -> str:
    rows = []
    for name in _predicting(results):
        correlations = predictions(results, name, "correlation")
        rows.append(
            [
                f"{name}, watched by the program" if name == PLAIN else label(results, name),
                "the batch's best threshold" if UNBOUND in name else "threshold 0",
                _range(correlations) if correlations else "not defined: one of the two does not move",
                f"{statistics.fmean(predictions(results, name, 'gap')):+.3f}",
                f"{statistics.fmean(predictions(results, name, 'above')):.1%}",
            ]
        )
    head = (
        "training",
        "true F1 at",
        "correlation over steps (range over runs)",
        "true − predicted",
        "predicted > true",
    )
    return markdown(head, rows)


def _range(values: list[float]) -> str:
    return f"{statistics.fmean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def _predicted_figure(results: list[dict[str, Any]], path: Path) -> None:
    names = _predicting(results)
    rows = math.ceil(len(names) / 4)
    with drawing(path, (11, 2.5 * rows)) as figure:
        panels = figure.subplots(rows, 4, sharey=True).flatten()
        for axes, name in zip(panels, names, strict=False):
            curves = [entry["result"][name]["predicted"]["curve"] for entry in having(results, name)]
            steps = [WINDOW * (place + 0.5) for place in range(len(curves[0]["true"]))]
            band(axes, steps, [curve["true"] for curve in curves], "true", COLOURS[0])
            # Early on the bound is far below zero and says nothing; the axis stops there.
            band(axes, steps, np.maximum([curve["predicted"] for curve in curves], -0.2), "predicted", COLOURS[1])
            tidy(axes, "step of this loss", "F1 of the batch", name)
            axes.legend(frameon=False, loc="lower right")
        for axes in panels[len(names) :]:
            axes.set_visible(False)
