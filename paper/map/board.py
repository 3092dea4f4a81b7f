"""The map's tables and figure, from stored cells: by how much the metric's loss differs from tuned cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.fitting.statistics import Difference, holm, paired_difference

from ..report.figures import COLOURS, drawing, tidy
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


REGIMES = {
    "map_masks": "masks with rare classes",
    "map_rare": "rare positives",
    "map_untuned": "no threshold can be tuned",
    "map_lists": "documents ranked for queries",
}
MAP = """## The map: where a loss for the metric pays

The same networks, steps, batches and choices for every loss, nine trials each on a seed that judges nothing, five
paired splits; the protocol (`paper/map/PROTOCOL.md`) was written before the first run. The
contrast is `MetricLoss(name)` as it comes against *tuned cross-entropy*: whichever of plain, 1/frequency, 1/√frequency
and balanced batches did best in the trials. "helps" and "hurts" are significant after Holm; "level" means that the
95 % interval lies within ± 1 point.
"""


def map_lines(results: Mapping[str, Entries]) -> list[str]:
    """The chapter of the evidence page: a table for each regime that was run."""
    there = {name: results[name] for name in REGIMES if results.get(name)}
    if not there:
        return []
    text = [MAP, "![Points gained or lost against tuned cross-entropy](docs/map.svg)", ""]
    for name, entries in there.items():
        text += [f"### {REGIMES[name].capitalize()} (`{name}`)", "", *summary_lines(entries), ""]
    return text


def draw(results: Mapping[str, Entries], path: Path) -> None:
    """One row for each contrast: the difference with its interval, and the one at twice the steps as a ring."""
    rows = [
        (f"{REGIMES[name]}: {one.data}, {one.metric}", one)
        for name in REGIMES
        if results.get(name)
        for one in contrasts(found_in(results[name]))
    ]
    if not rows:
        return
    colours = {"helps": COLOURS[2], "hurts": COLOURS[5], "level": COLOURS[0], "undecided": "#8a8a8a"}
    with drawing(path, (8.0, 0.9 + 0.24 * len(rows))) as figure:
        axes = figure.subplots()
        for place, (_, one) in enumerate(rows):
            axes.plot([one.once.low, one.once.high], [place, place], color=colours[one.verdict], linewidth=2)
            axes.plot(one.once.mean, place, "o", color=colours[one.verdict], markersize=5)
            axes.plot(one.twice.mean, place, "o", color=colours[one.verdict], markersize=8, fillstyle="none")
        for verdict, colour in colours.items():
            axes.plot([], [], "o", color=colour, label=verdict)
        axes.plot([], [], "o", color="black", fillstyle="none", markersize=8, label="at twice the steps")
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.invert_yaxis()
        tidy(axes, "points: the metric's loss − tuned cross-entropy")
        figure.legend(loc="outside lower center", ncols=5, frameon=False)


def report_of(title: str) -> Callable[[list[dict[str, Any]], Path], None]:
    def report(results: list[dict[str, Any]], folder: Path) -> None:
        write_table(folder, [f"# {title}", "", *summary_lines(results)])

    return report
