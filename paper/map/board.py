"""The map's tables and figure, from stored cells: by how much the metric's loss differs from tuned cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.fitting.statistics import Difference, holm, paired_difference

from ..report.pages import write_table
from ..report.scoreboard import markdown
from .losses import ENTROPIES

#: Test rows by training rows; points within which two losses are level; ours as it comes.
SHARE, MARGIN, DEFAULT = 1 / 3, 1.0, "metric"
LIST_ENTROPIES = ("pointwise logistic", "ListNet", "RankNet")
Entries = Sequence[dict[str, Any]]
#: By data set and metric, by loss, what `contest` found.
Found = dict[tuple[str, str], dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Contrast:
    """The default against tuned cross-entropy on one data set by one metric, in points."""

    data: str
    metric: str
    rival: str
    value: float
    once: Difference
    twice: Difference
    confirmed: float | None
    p: float = 1.0

    @property
    def verdict(self) -> str:
        if self.p < 0.05:
            return "helps" if self.once.mean > 0 else "hurts"
        return "level" if self.once.low > -MARGIN and self.once.high < MARGIN else "undecided"


def found_in(entries: Entries) -> Found:
    """Folds of one data set are put together as its seeds."""
    found: Found = {}
    for entry in entries:
        cell = entry["cell"]
        for metric, values in entry["result"].items():
            methods = found.setdefault((cell["data"], metric), {})
            if cell["method"] not in methods:
                methods[cell["method"]] = {key: values[key] for key in ("trials", "once", "twice")}
                continue
            known = methods[cell["method"]]
            known["trials"] = [max(known["trials"]) + max(values["trials"])]
            for when in ("once", "twice"):
                known[when] = {part: known[when][part] + more for part, more in values[when].items()}
    return found


def tuned_entropy(methods: dict[str, dict[str, Any]]) -> str | None:
    """Of the cross-entropies, the one with the best trial."""
    there = [name for name in (*ENTROPIES, *LIST_ENTROPIES) if name in methods]
    return max(there, key=lambda name: max(one for one in methods[name]["trials"] if one is not None), default=None)


def contrasts(found: Found) -> list[Contrast]:
    """With p-values after Holm over the regime."""
    made = []
    for (data, metric), methods in found.items():
        rival = tuned_entropy(methods)
        if rival is None or DEFAULT not in methods:
            continue
        once, twice = (_difference(methods[DEFAULT][when], methods[rival][when]) for when in ("once", "twice"))
        value = 100 * float(np.mean(methods[DEFAULT]["once"]["judge"]))
        confirm = [methods[name]["once"].get("confirm") for name in (DEFAULT, rival)]
        confirmed = None if confirm[0] is None else 100 * float(np.mean(confirm[0]) - np.mean(confirm[1]))
        made.append(Contrast(data, metric, rival, value, once, twice, confirmed))
    adjusted = holm([one.once.p for one in made])
    return [Contrast(**{**vars(one), "p": p}) for one, p in zip(made, adjusted, strict=True)]


def _difference(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> Difference:
    a, b = ([100 * value for value in one["judge"]] for one in (ours, theirs))
    return paired_difference(a, b, test_share=SHARE)


def ranks(found: Found) -> dict[str, float]:
    """Mean rank of each loss over the data sets and metrics where all of them were run."""
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
    made = contrasts(found)
    head = ("data", "metric", "the metric's loss", "tuned cross-entropy", "difference [95 %]", "at twice the steps",
            "on test files", "verdict")  # fmt: skip
    yield markdown(head, [_row(one) for one in made])
    yield ""
    yield "Values on the judging rows, mean of five, ×100:"
    yield ""
    names = list(ranks(found))
    rows = [
        (f"{data}, {metric}", *(_mean(methods.get(name)) for name in names))
        for (data, metric), methods in found.items()
    ]
    yield markdown(("", *names), [*rows, ("mean rank", *(f"{rank:.1f}" for rank in ranks(found).values()))])


def _row(one: Contrast) -> tuple[str, ...]:
    confirmed = "–" if one.confirmed is None else f"{one.confirmed:+.1f}"
    return (one.data, one.metric, f"{one.value:.1f}", one.rival, _interval(one.once), _interval(one.twice), confirmed,
            f"**{one.verdict}**")  # fmt: skip


def _interval(gap: Difference) -> str:
    return f"{gap.mean:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"


def _mean(values: dict[str, Any] | None) -> str:
    return "" if values is None else f"{100 * float(np.mean(values['once']['judge'])):.1f}"


def report_of(title: str) -> Callable[[list[dict[str, Any]], Path], None]:
    def report(results: list[dict[str, Any]], folder: Path) -> None:
        write_table(folder, [f"# {title}", "", *summary_lines(results)])

    return report
