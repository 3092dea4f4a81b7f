"""Tables about the committee: against the rival validation chose, against its own parts, and what was promised."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aimfor.runs.compare.verdicts import Difference, holm, paired_difference

from .pages import write_table
from .statistics import bootstrap_median, interval, signed_ranks

Values = dict[str, Any]
#: Test rows for each training row, for the corrected resampled t-test.
TEST_PER_TRAIN = 0.3 / 0.7


@dataclass(frozen=True)
class Cell:
    """One table and metric over its splits, in points."""

    table: str
    metric: str
    seeds: int
    committee: float
    rival: float
    chosen: str
    difference: Difference


def chosen_rival(values: Values) -> tuple[str, float]:
    """The rival with the best value on held-out rows, and its test value: with the cross-validated threshold if any."""
    name = max(values["rivals"], key=lambda rival: values["rivals"][rival]["validation"] or 0.0)
    judged = values["rivals"][name]
    return name, judged["test"] if judged["test_cv"] is None else judged["test_cv"]


def cells_of(
    results: list[dict[str, Any]],
    metric: str,
    other: Callable[[Values], float | None],
    test_per_train: float = TEST_PER_TRAIN,
) -> list[Cell]:
    """The committee above the other, table by table. Splits on which either is undefined are left out."""
    tables: dict[str, list[Values]] = {}
    for entry in sorted(results, key=lambda entry: (entry["cell"]["set"], entry["cell"]["seed"])):
        values = entry["result"]["metrics"][metric]
        if values["committee"] is not None and other(values) is not None:
            tables.setdefault(entry["cell"]["set"], []).append(values)
    made = []
    for table, of_table in tables.items():
        ours = [100 * values["committee"] for values in of_table]
        theirs = [100 * value for value in map(other, of_table) if value is not None]
        names = [chosen_rival(values)[0] for values in of_table]
        difference = paired_difference(ours, theirs, test_share=test_per_train)
        mean = statistics.mean
        made.append(Cell(table, metric, len(ours), mean(ours), mean(theirs), max(names, key=names.count), difference))
    return made


def score_line(metric: str, cells: Sequence[Cell]) -> str:
    gains = [cell.difference.mean for cell in cells]
    middle, low, high = bootstrap_median(gains)
    adjusted = holm([cell.difference.p for cell in cells])
    up, down = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    better = sum(cell.difference.low > 0 for cell in cells)
    worse = sum(cell.difference.high < 0 for cell in cells)
    sure_better = sum(p < 0.05 and cell.difference.mean > 0 for p, cell in zip(adjusted, cells, strict=True))
    sure_worse = sum(p < 0.05 and cell.difference.mean < 0 for p, cell in zip(adjusted, cells, strict=True))
    seeds = sorted({cell.seeds for cell in cells})
    return (
        f"| {metric} | {len(cells)} | {seeds[0]}–{seeds[-1]} | {interval(middle, low, high, 2)} | "
        f"{statistics.mean(gains):+.2f} | {up} / {down} | {signed_ranks(gains):.2g} | {visible(cells)} | "
        f"{better} / {worse} | {sure_better} / {sure_worse} |"
    )


def visible(cells: Sequence[Cell]) -> str:
    """The gain that a table must show to be significant on its own: half the width of its interval, in the median."""
    halves = [(cell.difference.high - cell.difference.low) / 2 for cell in cells]
    finite = [half for half in halves if math.isfinite(half)]
    return f"{statistics.median(finite):.1f}" if finite else ""


HEAD = [
    "| metric | tables | splits | median gain [95 %] | mean | up / down | p over tables | one table shows | "
    "significantly better / worse | after Holm |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def _without(name: str, values: Values) -> float | None:
    return _optional(values.get("without", {}).get(name))


#: Those that each are left out in turn.
MEMBERS = {
    "linear": "the linear member",
    "trees": "boosted trees",
    "extra_trees": "boosted trees with random splits",
    "network": "the network",
}
CONTRASTS: dict[str, Callable[[Values], float | None]] = {
    "the best rival, chosen on held-out training rows": lambda values: chosen_rival(values)[1],
    "LightGBM on all training rows": lambda values: _of(values, "LightGBM"),
    "the plain average of the same members": lambda values: _optional(values["rules"]["average"]),
    "the committee with a network trained further for the metric left out (it is no member any more)": (
        lambda values: _optional(values.get("without_metric_members"))
    ),
    **{f"the committee without {title}": partial(_without, name) for name, title in MEMBERS.items()},
}


def _optional(value: Any) -> float | None:
    return None if value is None else float(value)


def _of(values: Values, name: str) -> float | None:
    judged = values["rivals"][name]
    return _optional(judged["test"] if judged["test_cv"] is None else judged["test_cv"])


def summary_lines(results: list[dict[str, Any]], level: str = "##") -> list[str]:
    """Points gained over each contrast, promises and shares of the vote, under headings of the given level."""
    metrics = list(results[0]["result"]["metrics"])
    lines = [
        "Points (hundredths of the metric) on test rows; random 70/30 splits; corrected resampled t-test for a table.",
        "*p over tables*: Wilcoxon's signed ranks of the tables' mean gains. *one table shows*: the least gain that",
        "the t-test can find on one table, in the median over tables; where it exceeds the gains, few tables can be",
        "significant alone.",
    ]
    for text, other in CONTRASTS.items():
        lines += ["", f"{level} The committee against {text}", "", *HEAD]
        lines += [score_line(metric, cells) for metric in metrics if (cells := cells_of(results, metric, other))]
    lines += ["", f"{level} Estimated on out-of-fold rows, found on test rows", "", *_promises(results, metrics)]
    return [*lines, "", f"{level} Mean weight of each member", "", *_shares(results, metrics)]


def write_board(results: list[dict[str, Any]], folder: Path, title: str) -> None:
    """``table.md``: the summary, then every table."""
    metrics = list(results[0]["result"]["metrics"])
    lines = [f"# {title}", "", *summary_lines(results)]
    lines += ["", "## Table by table, against the best rival", ""]
    lines += ["| metric | table | committee | rival | chosen most | difference |", "|---|---|---|---|---|---|"]
    for metric in metrics:
        for cell in cells_of(results, metric, CONTRASTS["the best rival, chosen on held-out training rows"]):
            d = cell.difference
            lines.append(
                f"| {metric} | {cell.table} | {cell.committee:.2f} | {cell.rival:.2f} | {cell.chosen} | "
                f"{d.mean:+.2f} {_interval(d)} |"
            )
    write_table(folder, lines)


def _interval(difference: Difference) -> str:
    """One split has no interval."""
    return f"[{difference.low:+.2f}, {difference.high:+.2f}]" if math.isfinite(difference.low) else "(one split)"


def _promises(results: list[dict[str, Any]], metrics: Sequence[str]) -> list[str]:
    """Of every metric; of one with a floor also the rates at the committee's own threshold, if stored."""
    lines = ["| metric | cells | promised − found, mean | median | mean of the absolute |", "|---|---|---|---|---|"]
    for metric in metrics:
        of_metric = [entry["result"]["metrics"][metric] for entry in results]
        lines += _promise(metric, [(values["promised"], values["committee"]) for values in of_metric])
        if "@" in metric:
            rates = [values["at_threshold"] for values in of_metric if values.get("at_threshold")]
            both = [rate for rate in rates if rate["promised"] is not None]
            for name in ("recall", "precision"):
                pairs = [(rate["promised"][name], rate["found"][name]) for rate in both]
                lines += _promise(f"{name} at the threshold of {metric}", pairs)
    return lines


def _promise(name: str, pairs: Sequence[tuple[float | None, float | None]]) -> list[str]:
    gaps = [
        100 * (promised - measured) for promised, measured in pairs if promised is not None and measured is not None
    ]
    if not gaps:
        return []
    mean, middle, size = statistics.mean(gaps), statistics.median(gaps), statistics.mean(map(abs, gaps))
    return [f"| {name} | {len(gaps)} | {mean:+.2f} | {middle:+.2f} | {size:.2f} |"]


def _shares(results: list[dict[str, Any]], metrics: Sequence[str]) -> list[str]:
    names = list(results[0]["result"]["metrics"][metrics[0]]["shares"])
    lines = ["| metric | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for metric in metrics:
        shares = [entry["result"]["metrics"][metric]["shares"] for entry in results]
        means = [statistics.mean(share.get(name, 0.0) for share in shares) for name in names]
        lines.append(f"| {metric} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return lines
