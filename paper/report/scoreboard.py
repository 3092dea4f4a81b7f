"""Tables and verdicts from the cells of an experiment that ran `recipe.run_all`."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aimfor.runs.compare.verdicts import holm

from .figures import dots
from .statistics import Paired, bootstrap_median, interval, paired


@dataclass(frozen=True)
class Line:
    """One cell of a table over its seeds: the default against the rival that validation chose, on test data."""

    cell: str
    metric: str
    rivals: dict[str, float]
    papers: dict[str, float]
    rival: float
    default: float
    difference: Paired
    same_phase: Paired
    """The default above the rival that had the same last phase: what is due to the metric."""

    @property
    def over_plain(self) -> float:
        """The default above plain cross-entropy, which is what most people train today."""
        return self.default - next(value for name, value in self.rivals.items() if "cross-entropy" in name)


def lines(results: list[dict[str, Any]], label: Callable[[dict[str, Any]], str]) -> list[Line]:
    """Groups results by cell (without its seed) and metric. Seeds on which the metric is undefined are left out."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in results:
        for metric, values in entry["result"].items():
            if isinstance(values, dict) and values.get("default") and values["default"]["test"] is not None:
                groups.setdefault((label(entry["cell"]), metric), []).append(values)
    return [_line(cell, metric, values) for (cell, metric), values in groups.items()]


def _line(cell: str, metric: str, values: list[dict[str, Any]]) -> Line:
    ours, theirs = [f["default"]["test"] for f in values], [f["rival"]["test"] for f in values]
    return Line(
        cell,
        metric,
        _means(f["rivals"] for f in values),
        _means(f["papers"] for f in values),
        statistics.mean(theirs),
        statistics.mean(ours),
        paired(ours, theirs),
        paired(ours, [f.get("rival_all", f["rival"])["test"] for f in values]),
    )


def _means(rows: Iterable[dict[str, float | None]]) -> dict[str, float]:
    gathered: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                gathered.setdefault(name, []).append(value)
    return {name: statistics.mean(values) for name, values in gathered.items()}


@dataclass(frozen=True)
class Score:
    """The default against the best rival over all cells of one metric."""

    metric: str
    cells: int
    seeds: str
    median: tuple[float, float, float]
    mean: float
    better: int
    worse: int
    surely: tuple[int, int]
    """Of these, how many remain better and worse when all cells are read together (Holm)."""
    wins: int
    losses: int
    over_plain: tuple[float, float, float]
    same_phase: tuple[float, float, float]
    same_phase_better: int
    same_phase_worse: int


def scores(table: Sequence[Line]) -> list[Score]:
    """One `Score` per metric. ``better``/``worse`` count cells whose interval leaves out zero, wins any difference."""
    result = []
    for metric in dict.fromkeys(line.metric for line in table):
        mine = [line for line in table if line.metric == metric]
        differences = [line.difference.mean for line in mine]
        verdicts = [line.difference.verdict for line in mine]
        result.append(
            Score(
                metric,
                len(mine),
                _span([line.difference.pairs for line in mine]),
                bootstrap_median(differences),
                statistics.mean(differences),
                verdicts.count("better"),
                verdicts.count("worse"),
                _surely([line.difference for line in mine]),
                sum(difference > 0 for difference in differences),
                sum(difference < 0 for difference in differences),
                bootstrap_median([line.over_plain for line in mine]),
                bootstrap_median([line.same_phase.mean for line in mine]),
                sum(line.same_phase.verdict == "better" for line in mine),
                sum(line.same_phase.verdict == "worse" for line in mine),
            )
        )
    return result


def _surely(gaps: list[Paired]) -> tuple[int, int]:
    """Cells that are better and worse at 5 % for all of them together: of 24 cells without any difference, one is
    expected to look like one."""
    kept = [gap.mean > 0 for gap, p in zip(gaps, holm([gap.p for gap in gaps]), strict=True) if p < 0.05]
    return kept.count(True), kept.count(False)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]
    )


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}–{high}"


def score_table(table: Sequence[Line]) -> str:
    head = (
        "metric",
        "cells",
        "seeds",
        "median difference [95 %]",
        "mean difference",
        "significantly better (after Holm)",
        "significantly worse (after Holm)",
        "wins",
        "losses",
        "median over plain cross-entropy [95 %]",
        "median over the rival with the same last phase [95 %] (better, worse)",
    )
    rows = [
        (
            score.metric,
            str(score.cells),
            score.seeds,
            interval(*score.median),
            f"{score.mean:+.4f}",
            f"{score.better} ({score.surely[0]})",
            f"{score.worse} ({score.surely[1]})",
            str(score.wins),
            str(score.losses),
            interval(*score.over_plain),
            f"{interval(*score.same_phase)} ({score.same_phase_better}, {score.same_phase_worse})",
        )
        for score in scores(table)
    ]
    return markdown(head, rows)


def line_table(table: Sequence[Line], extra: Callable[[Line], dict[str, str]] = lambda line: {}) -> str:
    """All cells: each rival, the papers' methods, the best rival and the default, with the paired difference."""
    rivals = list(dict.fromkeys(name for line in table for name in line.rivals))
    papers = list(dict.fromkeys(name for line in table for name in line.papers))
    added = list(dict.fromkeys(name for line in table for name in extra(line)))
    head = ("cell", "metric", *rivals, *papers, "best rival", "default", "difference [95 %]", "verdict", *added)
    rows = [
        (
            line.cell,
            line.metric,
            *(f"{line.rivals[name]:.3f}" if name in line.rivals else "" for name in rivals),
            *(f"{line.papers[name]:.3f}" if name in line.papers else "" for name in papers),
            f"{line.rival:.4f}",
            f"{line.default:.4f}",
            str(line.difference),
            line.difference.verdict,
            *(extra(line).get(name, "") for name in added),
        )
        for line in table
    ]
    return markdown(head, rows)


def write_report(folder: Path, title: str, setting: str, table: Sequence[Line], **options: Any) -> None:
    """``table.md``: what was run, the scoreboard, a figure per metric, then every cell."""
    figures = "\n".join(_figure(folder, metric, table) for metric in dict.fromkeys(line.metric for line in table))
    text = f"# {title}\n\n{setting}\n\n{score_table(table)}\n\n{figures}\n\n{line_table(table, **options)}\n"
    (folder / "table.md").write_text(text, encoding="utf8")


def _figure(folder: Path, metric: str, table: Sequence[Line]) -> str:
    """Draws the differences of one metric, cell by cell; the Markdown that shows them."""
    mine = [line for line in table if line.metric == metric]
    name = re.sub(r"[^\w.]+", "_", metric)
    dots(
        [line.cell for line in mine],
        [line.difference.mean for line in mine],
        [line.difference.low for line in mine],
        [line.difference.high for line in mine],
        folder / f"{name}.svg",
        f"{metric} on test data",
        "default − best rival, with 95 % interval over seeds",
    )
    return f"![{metric}: default − best rival, cell by cell]({name}.svg)"
