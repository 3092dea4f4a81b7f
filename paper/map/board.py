"""The map's numbers and tables, from stored cells: by how much the metric's loss differs from tuned cross-entropy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aimfor.runs.compare.verdicts import Difference, holm, paired_difference

from ..report.scoreboard import markdown
from ..report.statistics import interval
from .losses import ENTROPIES

#: Test rows by training rows; points within which two losses are level; ours as it comes.
SHARE, MARGIN, DEFAULT = 1 / 3, 1.0, "metric"
#: What stands for cross-entropy where there are no two or more classes to weigh.
OTHER_ENTROPIES = (
    "pointwise logistic",
    "logistic",
    "ListNet",
    "RankNet",
    "softmax",
    "cosine softmax",
    "squared error",
    "absolute error",
)
#: What is trained on where nobody thinks about it, one of them in each regime.
PLAIN = ("cross-entropy", "pointwise logistic", "softmax", "squared error")
#: Data sets of one contrast: how their names start, and what they are together.
SMALL, SMALL_TABLES = "imbalanced_small ", "small tables"
WHENS = ("once", "twice")
Entries = Sequence[dict[str, Any]]
#: What `contest` measured of one loss; by loss; and by data set and metric.
Values = dict[str, Any]
Losses = dict[str, Values]
Board = dict[tuple[str, str], Losses]


@dataclass(frozen=True)
class Contrast:
    """The default against a rival on one data set (or many small ones) by one metric, in points.

    Attributes:
        p: After Holm over the regime, at the budget and at twice the steps.
    """

    data: str
    metric: str
    rival: str
    value: float
    once: Difference
    twice: Difference
    plain: Difference
    confirmed: float | None
    p: tuple[float, float] = (1.0, 1.0)

    @property
    def verdict(self) -> str:
        return _verdict(self.once, self.p[0])

    @property
    def ending(self) -> str:
        """The verdict at twice the steps: a faster start is not a better end."""
        return _verdict(self.twice, self.p[1])


def _verdict(gap: Difference, p: float) -> str:
    if p < 0.05:
        return "helps" if gap.mean > 0 else "hurts"
    return "level" if gap.low > -MARGIN and gap.high < MARGIN else "undecided"


def board_of(entries: Entries) -> Board:
    """Items of the folds of one data set (queries, classes) are put together; each is judged once, as is each draw.

    A loss that some folds lack is left out.
    """
    board: Board = {}
    for entry in entries:
        cell = entry["cell"]
        for metric, values in entry["result"].items():
            losses = board.setdefault((cell["data"], metric), {})
            earlier = losses.get(cell["method"])
            if earlier is None:
                losses[cell["method"]] = {key: values[key] for key in ("trials", *WHENS)}
                if {"fold", "draws"} & cell.keys():
                    losses[cell["method"]]["share"] = 0.0
                continue
            earlier["trials"] = [max(earlier["trials"]) + max(values["trials"])]
            for when in WHENS:
                earlier[when] = {part: earlier[when][part] + more for part, more in values[when].items()}
    return {key: _complete(losses) for key, losses in board.items()}


def _complete(losses: Losses) -> Losses:
    most = max(len(values["once"]["judge"]) for values in losses.values())
    return {name: values for name, values in losses.items() if len(values["once"]["judge"]) == most}


def best_by_trial(losses: Losses, names: Sequence[str]) -> str | None:
    def best_trial(name: str) -> float:
        return max(float(value) for value in losses[name]["trials"] if value is not None)

    return max((name for name in names if name in losses), key=best_trial, default=None)


def contrasts(board: Board, rivals: Sequence[str] = (*ENTROPIES, *OTHER_ENTROPIES)) -> list[Contrast]:
    """With p-values after Holm over the regime. Small tables make one contrast, with a table as a unit.

    Args:
        board: Of one regime.
        rivals: The one with the best trial is the rival of a data set and metric.
    """
    made: list[Contrast] = []
    tables: dict[str, list[tuple[Values, ...]]] = {}
    for (data, metric), losses in board.items():
        rival = best_by_trial(losses, rivals)
        if rival is None or DEFAULT not in losses:
            continue
        sides = losses[DEFAULT], losses[rival], losses[next(name for name in PLAIN if name in losses)]
        if data.startswith(SMALL):
            tables.setdefault(metric, []).append(sides)
        else:
            made.append(_contrast(data, metric, rival, *sides))
    for metric, sides_of in tables.items():
        together = (by_unit(values) for values in zip(*sides_of, strict=True))
        made.append(_contrast(f"{len(sides_of)} {SMALL_TABLES}", metric, "the best of each", *together))
    once, twice = (holm([getattr(contrast, when).p for contrast in made]) for when in WHENS)
    return [replace(contrast, p=p) for contrast, p in zip(made, zip(once, twice, strict=True), strict=True)]


def _contrast(data: str, metric: str, rival: str, ours: Values, theirs: Values, plain: Values) -> Contrast:
    share = ours.get("share", SHARE)
    once, twice = (_difference(ours[when], theirs[when], share) for when in WHENS)
    confirm = [values["once"].get("confirm") for values in (ours, theirs)]
    confirmed = None if confirm[0] is None else 100 * float(np.mean(confirm[0]) - np.mean(confirm[1]))
    against = _difference(ours["once"], plain["once"], share)
    return Contrast(data, metric, rival, 100 * float(np.mean(ours["once"]["judge"])), once, twice, against, confirmed)


def by_unit(each: Sequence[Values]) -> Values:
    """The mean over splits of each data set, as if it were a split; data sets share no rows."""
    means: Values = {
        when: {part: [float(np.mean(values[when][part])) for values in each] for part in each[0][when]}
        for when in WHENS
    }
    return {**means, "share": 0.0}


def _difference(ours: dict[str, list[float]], theirs: dict[str, list[float]], share: float) -> Difference:
    a, b = ([100 * value for value in side["judge"]] for side in (ours, theirs))
    return paired_difference(a, b, test_share=share)


def ranks(board: Board) -> dict[str, float]:
    """Mean rank of each loss over the data sets and metrics where it was run."""
    by_loss: dict[str, list[float]] = {}
    for losses in board.values():
        means = {name: float(np.mean(values["once"]["judge"])) for name, values in losses.items()}
        for name, mean in means.items():
            above = sum(other > mean for other in means.values())
            ties = sum(other == mean for other in means.values())
            by_loss.setdefault(name, []).append(above + (ties + 1) / 2)
    means = {name: float(np.mean(each)) for name, each in by_loss.items()}
    return dict(sorted(means.items(), key=lambda pair: pair[1]))


def contrast_lines(entries: Entries) -> Iterator[str]:
    """The table of contrasts; after it, where LibAUC was run, the default against the best of its losses."""
    board = board_of(entries)
    head = ("data", "metric", "the metric's loss", "tuned cross-entropy", "difference [95 %]", "at twice the steps",
            "on test files", "against plain")  # fmt: skip
    yield markdown(head, [_row(contrast) for contrast in contrasts(board)])
    libauc = {name for losses in board.values() for name in losses if name.startswith("LibAUC")}
    against = [contrast for contrast in contrasts(board, sorted(libauc)) if SMALL_TABLES in contrast.data]
    for contrast in against:
        yield ""
        yield (
            f"Against the best of LibAUC's losses by trial, over {contrast.data} by {contrast.metric}: "
            f"{points(contrast.once)}, at twice the steps {points(contrast.twice)}."
        )


def rank_line(entries: Entries) -> str:
    means = ", ".join(f"{name} {rank:.1f}" for name, rank in ranks(board_of(entries)).items())
    return f"Mean rank over data sets and metrics: {means}."


def value_lines(entries: Entries) -> Iterator[str]:
    """Every loss on every data set."""
    board = board_of(entries)
    names = list(ranks(board))
    rows = [
        (f"{data}, {metric}", *(_mean(losses.get(name)) for name in names))
        for (data, metric), losses in _small_tables_in_one(board).items()
    ]
    yield rank_line(entries)
    yield ""
    yield "Values on the judging rows, mean, ×100; at twice the steps in brackets:"
    yield ""
    yield markdown(("", *names), rows)


def _small_tables_in_one(board: Board) -> Board:
    """Small tables are one row, of the losses that were run on all of them."""
    rows = {key: losses for key, losses in board.items() if not key[0].startswith(SMALL)}
    for metric in dict.fromkeys(metric for data, metric in board if data.startswith(SMALL)):
        each = [losses for (data, name), losses in board.items() if data.startswith(SMALL) and name == metric]
        everywhere = [name for name in each[0] if all(name in losses for losses in each)]
        together = {name: by_unit([losses[name] for losses in each]) for name in everywhere}
        rows[f"{len(each)} {SMALL_TABLES}", metric] = together
    return rows


def _row(contrast: Contrast) -> tuple[str, ...]:
    confirmed = "–" if contrast.confirmed is None else f"{contrast.confirmed:+.1f}"
    return (contrast.data, contrast.metric, f"{contrast.value:.1f}", contrast.rival,
            f"{points(contrast.once)} **{contrast.verdict}**", f"{points(contrast.twice)} **{contrast.ending}**",
            confirmed, points(contrast.plain))  # fmt: skip


def points(gap: Difference) -> str:
    return interval(gap.mean, gap.low, gap.high, 1)


def _mean(values: Values | None) -> str:
    if values is None:
        return ""
    once, twice = (100 * float(np.mean(values[when]["judge"])) for when in WHENS)
    return f"{once:.1f} ({twice:.1f})"


def table_lines(entries: Entries) -> list[str]:
    return [*contrast_lines(entries), "", *value_lines(entries)]
