"""The map's numbers and tables, from stored cells: by how much the metric's loss differs from tuned cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.runs.compare.verdicts import Difference, holm, paired_difference

from ..report.pages import write_table
from ..report.scoreboard import markdown
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
#: Data sets of one contrast: their name starts with the first word.
TOGETHER = {"imbalanced_small ": "small tables"}
Entries = Sequence[dict[str, Any]]
#: By data set and metric, by loss, what `contest` found.
Found = dict[tuple[str, str], dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Contrast:
    """The default against tuned cross-entropy on one data set (or many small ones) by one metric, in points."""

    data: str
    metric: str
    rival: str
    value: float
    once: Difference
    twice: Difference
    plain: Difference
    confirmed: float | None
    #: After Holm over the regime, at the budget and at twice the steps.
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


def found_in(entries: Entries) -> Found:
    """Items of the folds of one data set (queries, classes) are put together; each is judged once, as is each draw.

    A loss that some folds lack is left out.
    """
    found: Found = {}
    for entry in entries:
        cell = entry["cell"]
        for metric, values in entry["result"].items():
            methods = found.setdefault((cell["data"], metric), {})
            if cell["method"] not in methods:
                methods[cell["method"]] = {key: values[key] for key in ("trials", "once", "twice")}
                if {"fold", "draws"} & cell.keys():
                    methods[cell["method"]]["share"] = 0.0
                continue
            known = methods[cell["method"]]
            known["trials"] = [max(known["trials"]) + max(values["trials"])]
            for when in ("once", "twice"):
                known[when] = {part: known[when][part] + more for part, more in values[when].items()}
    return {key: _complete(methods) for key, methods in found.items()}


def _complete(methods: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    most = max(len(one["once"]["judge"]) for one in methods.values())
    return {name: one for name, one in methods.items() if len(one["once"]["judge"]) == most}


def tuned_entropy(methods: dict[str, dict[str, Any]]) -> str | None:
    """Of the cross-entropies, the one with the best trial."""
    there = [name for name in (*ENTROPIES, *OTHER_ENTROPIES) if name in methods]
    return max(there, key=lambda name: max(one for one in methods[name]["trials"] if one is not None), default=None)


def contrasts(found: Found) -> list[Contrast]:
    """With p-values after Holm over the regime. Small tables make one contrast, with a table as a unit."""
    made: list[Contrast] = []
    many: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    for (data, metric), methods in found.items():
        rival = tuned_entropy(methods)
        if rival is None or DEFAULT not in methods:
            continue
        sides = [methods[DEFAULT], methods[rival], methods[next(name for name in PLAIN if name in methods)]]
        group = _group(data)
        if group is None:
            made.append(_contrast(data, metric, rival, *sides))
        else:
            many.setdefault((group, metric), []).append(sides)
    for (group, metric), sides_of in many.items():
        together = (by_unit(one) for one in zip(*sides_of, strict=True))
        made.append(_contrast(f"{len(sides_of)} {group}", metric, "the best of each", *together))
    adjusted = (holm([getattr(one, when).p for one in made]) for when in ("once", "twice"))
    return [replace(one, p=p) for one, p in zip(made, zip(*adjusted, strict=True), strict=True)]


def _group(data: str) -> str | None:
    return next((name for start, name in TOGETHER.items() if data.startswith(start)), None)


def _contrast(
    data: str, metric: str, rival: str, ours: dict[str, Any], theirs: dict[str, Any], plain: dict[str, Any]
) -> Contrast:
    share = ours.get("share", SHARE)
    once, twice = (_difference(ours[when], theirs[when], share) for when in ("once", "twice"))
    confirm = [one["once"].get("confirm") for one in (ours, theirs)]
    confirmed = None if confirm[0] is None else 100 * float(np.mean(confirm[0]) - np.mean(confirm[1]))
    against = _difference(ours["once"], plain["once"], share)
    return Contrast(data, metric, rival, 100 * float(np.mean(ours["once"]["judge"])), once, twice, against, confirmed)


def by_unit(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean over splits of each data set, as if it were a split; data sets share no rows."""
    whens = {
        when: {part: [float(np.mean(one[when][part])) for one in each] for part in each[0][when]}
        for when in ("once", "twice")
    }
    return {**whens, "share": 0.0}


def _difference(ours: dict[str, list[float]], theirs: dict[str, list[float]], share: float) -> Difference:
    a, b = ([100 * value for value in one["judge"]] for one in (ours, theirs))
    return paired_difference(a, b, test_share=share)


def ranks(found: Found) -> dict[str, float]:
    """Mean rank of each loss over the data sets and metrics where it was run."""
    places: dict[str, list[float]] = {}
    for methods in found.values():
        means = {name: float(np.mean(one["once"]["judge"])) for name, one in methods.items()}
        for name, mean in means.items():
            above = sum(other > mean for other in means.values())
            ties = sum(other == mean for other in means.values())
            places.setdefault(name, []).append(above + (ties + 1) / 2)
    return dict(sorted(((name, float(np.mean(one))) for name, one in places.items()), key=lambda pair: pair[1]))


def summary_lines(entries: Entries) -> Iterator[str]:
    found = found_in(entries)
    head = ("data", "metric", "the metric's loss", "tuned cross-entropy", "difference [95 %]", "verdict",
            "at twice the steps", "verdict", "on test files", "against plain")  # fmt: skip
    yield markdown(head, [_row(one) for one in contrasts(found)])
    yield ""
    yield "Values on the judging rows, mean, ×100; at twice the steps in brackets:"
    yield ""
    names = list(ranks(found))
    rows = [
        (f"{data}, {metric}", *(_mean(methods.get(name)) for name in names))
        for (data, metric), methods in _rows(found).items()
    ]
    yield markdown(("", *names), [*rows, ("mean rank", *(f"{rank:.1f}" for rank in ranks(found).values()))])


def _rows(found: Found) -> Found:
    """Small tables are one row, of the losses that were run on all of them."""
    alone = {key: methods for key, methods in found.items() if _group(key[0]) is None}
    groups: dict[tuple[str, str], list[dict[str, dict[str, Any]]]] = {}
    for (data, metric), methods in found.items():
        if (group := _group(data)) is not None:
            groups.setdefault((group, metric), []).append(methods)
    for (group, metric), each in groups.items():
        everywhere = [name for name in each[0] if all(name in one for one in each)]
        alone[f"{len(each)} {group}", metric] = {name: by_unit([one[name] for one in each]) for name in everywhere}
    return alone


def _row(one: Contrast) -> tuple[str, ...]:
    confirmed = "–" if one.confirmed is None else f"{one.confirmed:+.1f}"
    return (one.data, one.metric, f"{one.value:.1f}", one.rival, interval(one.once), f"**{one.verdict}**",
            interval(one.twice), f"**{one.ending}**", confirmed, interval(one.plain))  # fmt: skip


def interval(gap: Difference) -> str:
    return f"{gap.mean:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"


def _mean(values: dict[str, Any] | None) -> str:
    if values is None:
        return ""
    once, twice = (100 * float(np.mean(values[when]["judge"])) for when in ("once", "twice"))
    return f"{once:.1f} ({twice:.1f})"


def report_of(title: str) -> Callable[[list[dict[str, Any]], Path], None]:
    def report(results: list[dict[str, Any]], folder: Path) -> None:
        write_table(folder, [f"# {title}", "", *summary_lines(results)])

    return report
