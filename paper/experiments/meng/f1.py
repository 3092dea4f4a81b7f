"""Meng's F1 paragraph and Fig. 3a: does training on F1 help accuracy, who ends at "all positive", what is predicted?

Balanced data, half of the classes positive. Every method trains the same network with the same batches, steps and
rates. Each is read twice: with decisions at score 0, and with the threshold that validation data chose.

The paper's own program for F1 stands in an appendix that could not be had. Ours is the bound of `lp.ratio`: at the
threshold 0, and with threshold and scale as variables of the program (which only a solver answers). The paper's two
rivals, CVXPY-SCS and AP-Perf, train as well where their packages are installed (`f1_peers`).
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from aimfor import Accuracy, FBeta, MetricLoss
from aimfor.direct import DirectEngine
from aimfor.lp import LPEngine

from ...data.images import CLASSES, binary_parts
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.models import NETWORKS, network
from ...protocol.candidates import metric_loss
from ...protocol.choosing import best, scores_on_test, tuned_value
from ...protocol.protocol import Budget, Checkpoint, Contender, Contest, Loss, Split, cross_entropy, of_batches
from ...protocol.training import train_all
from ...report.figures import COLOURS, band, dots, drawing, tidy
from ...report.scoreboard import markdown
from ...report.statistics import Paired, paired
from ...rivals.f1_peers import AP_PERF, CVXPY, UNBOUND, peer_losses

F1, ACCURACY = FBeta(1.0), Accuracy()
TITLE = "F1 as the loss on balanced images, and predicted F1"
#: Accuracy in the paper's text, in percent: cross-entropy and the paper's own.
PAPER = {"cats_vs_dogs": (76.0, 77.8), "cifar10": (70.3, 72.6), "cifar100": (60.4, 63.4), "stl10": (71.8, 72.7)}
PLAIN = "cross-entropy"
WARM = ", warm"
PROGRAM, DIRECT, SOFT = "F1 program", "direct", "soft counts"
FREE = PROGRAM + UNBOUND
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


class Warm:
    """Cross-entropy for the first half of every ``steps`` steps, then another loss."""

    def __init__(self, loss: Loss, steps: int) -> None:
        self.loss, self.steps, self.step = loss, steps, 0

    def __call__(self, scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        early = self.step % self.steps < self.steps // 2
        self.step += 1
        return (cross_entropy if early else self.loss)(scores, targets, shares)


class Predicting:
    """A loss beside which a prediction of F1, one minus ``predict``, is kept with the true F1 of every batch.

    Args:
        predict: One minus it is the prediction.
        tuned: Whether it is for the batch's best threshold, or for threshold 0.
        loss: What is trained on; None: ``predict`` itself.
    """

    def __init__(self, predict: Loss, tuned: bool = False, loss: Loss | None = None) -> None:
        self.predict, self.tuned, self.loss = predict, tuned, loss
        self.pairs: list[tuple[float, float]] = []

    def __call__(self, scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        value = self.predict(scores, targets, shares)
        true, _ = tuned_value(F1, scores.detach(), Split(scores.detach(), targets), self.tuned)
        self.pairs.append((1.0 - float(value.detach()), true))
        return value if self.loss is None else self.loss(scores, targets, shares)


def engine_loss(engine: LPEngine | DirectEngine) -> Loss:
    return of_batches(MetricLoss(F1, engine))


def methods(steps: int) -> list[Contender]:
    """Made anew for each cell, because they count steps and keep what they see."""

    def f1_losses() -> dict[str, Loss]:
        return {
            PROGRAM: Predicting(engine_loss(LPEngine())),
            FREE: Predicting(engine_loss(LPEngine(threshold="free")), tuned=True),
            DIRECT: engine_loss(DirectEngine()),
            SOFT: Predicting(metric_loss(F1)),
        }

    def peers() -> dict[str, Loss]:
        return {name: Predicting(loss, name.endswith(UNBOUND)) for name, loss in peer_losses().items()}

    return [
        Contender(PLAIN, Predicting(engine_loss(LPEngine()), loss=cross_entropy)),
        *(Contender(name, loss) for name, loss in f1_losses().items()),
        *(Contender(name + WARM, Warm(loss, steps)) for name, loss in f1_losses().items()),
        *(Contender(name, loss) for name, loss in peers().items()),
        *(Contender(name + WARM, Warm(loss, steps)) for name, loss in peers().items()),
    ]


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in CLASSES]


def budget(options: Options) -> Budget:
    if options.full:
        return Budget(4000, 0, batch=128, rates=(3e-4, 1e-3, 3e-3), looks=8)
    return Budget(500, 0, batch=64, rates=(2e-3,), looks=6)


def run(cell: Cell, options: Options) -> Result:
    return measure(cell, options, methods(budget(options).steps))


def measure(cell: Cell, options: Options, every: list[Contender]) -> Result:
    """What came of these methods. Each starts from the same weights and sees the same batches, whoever else runs."""
    parts = binary_parts(data_folder(options), cell["set"], 0.5, cell["seed"], None)
    task = Contest(*parts, network(options))
    spent = budget(options)
    pools = train_all(task, every, spent, cell["seed"])
    return {method.name: _read(task, method, pools[method.name], spent) for method in every}


def _read(task: Contest, method: Contender, pool: list[Checkpoint], spent: Budget) -> Result:
    """Four readings (what validation chose), where the run at the rate chosen for F1 ended, and what was predicted."""
    found: Result = {}
    by_rate = [pool[at : at + spent.looks] for at in range(0, len(pool), spent.looks)]
    pool = [point for points in by_rate for point in points[spent.looks // 2 :]]
    for metric, name in ((ACCURACY, "accuracy"), (F1, "f1")):
        for tune in (False, True):
            point, value, shift = best(metric, pool, task.validation, tune)
            scores = scores_on_test(task, point) + shift
            found[name + (", tuned" if tune else "")] = {
                "validation": value,
                "test": float(metric.value(scores, task.test.y)),
                "positive": float((scores > 0).float().mean()),
            }
    rate = best(F1, pool, task.validation, tune=False)[0].rate
    last = [point for point in pool if point.rate == rate][-1]
    found["last"] = {"positive": float((scores_on_test(task, last) > 0).float().mean())}
    kept = method.loss.loss if isinstance(method.loss, Warm) else method.loss
    if isinstance(kept, Predicting):
        runs = np.array_split(np.array(kept.pairs), len(spent.rates))
        found["predicted"] = _followed(runs[spent.rates.index(rate)])
    return found


def _followed(pairs: Any) -> Result:
    """Correlation over the steps of one run, the mean gap, how often the prediction was too high, and both curves."""
    predicted, true = pairs.T
    windows = np.array_split(pairs, max(1, len(pairs) // WINDOW))
    curves = np.stack([window.mean(0) for window in windows])
    moving = min(true.std(), predicted.std()) > 1e-9
    return {
        "correlation": float(np.corrcoef(predicted, true)[0, 1]) if moving else None,
        "gap": float((true - predicted).mean()),
        "above": float((predicted > true + 1e-6).mean()),
        "curve": {"predicted": curves[:, 0].round(4).tolist(), "true": curves[:, 1].round(4).tolist()},
    }


# ---------------------------------------------------------------- what is read off the cells


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


EXPERIMENT = Experiment(
    "meng_f1", TITLE, "Meng 2021, §5 F1 and Fig. 3a", cells, run, report, seeds=3, networks=NETWORKS
)
