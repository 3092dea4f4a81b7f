"""The table of `from_scratch`: every metric's default against cross-entropy, from cached cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aimfor.runs.compare.verdicts import Difference, holm, paired_difference

from .scoreboard import markdown

TITLE = "From scratch in a plain loop: MetricLoss(name) against cross-entropy with a tuned threshold"
SETTING = """A perceptron of 64 units, Adam at 0.001, 500 steps, batches of 64 and of 128 in turn, no schedule, no
sampler. Every seed draws up to 5,000 training rows of the data set anew: three fifths to train, one to choose
checkpoint and threshold (for the rivals as for ours, by the metric in question), one to judge. Metrics of one score:
three small tables (phoneme, wilt, page_blocks0), bank marketing, mammography, one digit against the rest (digits,
MNIST), cats against the rest (CIFAR-10); to metrics of lists a batch is one list, and those of the first places are
judged in lists of 100 rows, dealt 20 times. Metrics of classes: digits, MNIST, CIFAR-10, STL-10. Metrics of labels:
thirteen labels of digits, MNIST and CIFAR-10. Differences are in points, each problem's the mean over its seeds;
significance by the corrected paired t-test after Holm over all problems, metrics and rivals. On wilt 500 steps are
too few for plain cross-entropy: the large differences there are of speed."""
RIVALS = ("cross-entropy", "weighted")
#: One metric by one of its engines on one problem.
Key = tuple[str, str, str]


def gaps(results: Sequence[dict[str, Any]]) -> dict[Key, dict[str, list[float]]]:
    """(metric, engine, problem) to points per seed: ours − each rival, and our threshold 0 − our tuned one."""
    differences: dict[Key, dict[str, list[float]]] = {}
    for entry in results:
        cell = entry["cell"]
        for name, methods in entry["result"].items():
            for label, ours in methods.items():
                if label not in RIVALS and ours["tuned"] is not None:
                    key = name, label, cell["problem"]
                    rows = differences.setdefault(key, {name: [] for name in (*RIVALS, "at 0", "at 0, rival")})
                    for what, value in _differences(ours, methods):
                        rows[what].append(100 * value)
    return differences


def _differences(ours: dict[str, float], methods: dict[str, dict[str, float]]) -> Iterator[tuple[str, float]]:
    for rival in RIVALS:
        yield rival, ours["tuned"] - methods[rival]["tuned"]
    if "at 0" in ours:
        yield "at 0", ours["at 0"] - ours["tuned"]
        yield "at 0, rival", ours["at 0"] - methods[RIVALS[0]]["at 0"]


def tests(differences: dict[Key, dict[str, list[float]]]) -> dict[tuple[Key, str], tuple[Difference, float]]:
    """Every problem against both rivals: the difference, and its p-value after Holm."""
    pairs = {
        (key, rival): paired_difference(rows[rival], [0.0] * len(rows[rival]), test_share=1 / 3)
        for key, rows in differences.items()
        for rival in RIVALS
    }
    return dict(zip(pairs, zip(pairs.values(), holm([pair.p for pair in pairs.values()]), strict=True), strict=True))


def summary_lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each metric and engine."""
    differences = gaps(results)
    if not differences:
        return ["Not measured yet: `python -m paper from_scratch`."]
    tested = tests(differences)
    head = ("metric", "problems", "− cross-entropy: median", "range", "− weighted: median", "range",
            "surely worse / better", "threshold 0 − tuned: median", "worst", "at 0 − cross-entropy at 0")  # fmt: skip
    engines = list(dict.fromkeys(key[:2] for key in differences))
    rows = [
        _row(engine, {key: rows for key, rows in differences.items() if key[:2] == engine}, tested)
        for engine in engines
    ]
    worse = [f"{key[0]} on {key[2]} than {rival}" for (key, rival), (gap, p) in tested.items()
             if p < 0.05 and gap.mean < 0]  # fmt: skip
    runs = {(entry["cell"]["problem"], entry["cell"]["batch"], entry["cell"]["seed"]) for entry in results}
    tail = f"{len(runs)} runs. Surely worse after Holm: {', '.join(worse) or 'nowhere'}."
    return [markdown(head, rows), "", tail]


def _row(
    engine: tuple[str, str],
    mine: dict[Key, dict[str, list[float]]],
    tested: dict[tuple[Key, str], tuple[Difference, float]],
) -> tuple[str, ...]:
    means = {what: np.array([np.mean(rows[what]) for rows in mine.values() if rows[what]])
             for what in (*RIVALS, "at 0", "at 0, rival")}  # fmt: skip
    significant = [tested[key, rival][0].mean for key in mine for rival in RIVALS if tested[key, rival][1] < 0.05]
    decided = len(means["at 0"]) > 0
    return (
        engine[0] if engine[1] == "default" else f"{engine[0]}: {engine[1]}",
        str(len(mine)),
        *(text for rival in RIVALS for text in (f"{np.median(means[rival]):+.2f}", _range(means[rival]))),
        f"{sum(mean < 0 for mean in significant)} / {sum(mean > 0 for mean in significant)}",
        f"{np.median(means['at 0']):+.2f}" if decided else "",
        f"{means['at 0'].min():+.1f}" if decided else "",
        f"{np.median(means['at 0, rival']):+.1f}" if decided else "",
    )


def _range(values: Any) -> str:
    return f"{values.min():+.1f} to {values.max():+.1f}"
