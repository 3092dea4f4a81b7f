"""The metric against the size of the batch: a table for EVIDENCE.md, a figure for docs/scale.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .figures import COLOURS, band, drawing, tidy
from .pages import write_table
from .scoreboard import markdown

Entries = Iterable[dict[str, Any]]
FIGURE = "batch_size.svg"
BATCHES = """### Does a larger batch pay? (`batch_size`)

The metric on test rows against the size of the batch whose loss is taken at once, with as many forward passes for every
way: batches of more than 256 rows are scored in parts, whose second pass counts. Learning rates are chosen for each
problem and way on validation rows. Beside it, at 256 rows: cross-entropy, the metric's loss among the last 4,096 scores
(512 embeddings), and among those of a moving average of the network. Means and standard deviations over seeds, × 100.
"""


def by_problem(results: Entries) -> dict[str, dict[str, list[float]]]:
    """Problem → way → the test value of each seed, in the order of the cells."""
    problems: dict[str, dict[str, list[float]]] = {}
    for entry in results:
        cell = entry["cell"]
        problems.setdefault(cell["problem"], {}).setdefault(cell["way"], []).append(100 * entry["result"]["value"])
    return problems


def batch_size_lines(results: Entries) -> list[str]:
    """One row for each problem: the mean over seeds and the standard deviation, times 100."""
    problems = by_problem(results)
    # Gathered cells come by file name.
    names = sorted({way for ways in problems.values() for way in ways}, key=_order_of_way)
    rows = [[problem, *(_mean(ways.get(way, [])) for way in names)] for problem, ways in problems.items()]
    return [markdown(["×100, test rows", *names], rows)]


def _order_of_way(way: str) -> tuple[int, str]:
    """Sizes of the batch in their order, then the others."""
    if way.startswith("batch "):
        return int(way.removeprefix("batch ")), ""
    return 10**9, {"cross-entropy": "a", "bank": "b"}.get(way, "c")


def _mean(values: list[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def draw(results: Entries, path: Path, sizes: Sequence[int], fits: int) -> None:
    """A panel for each problem: the mean over seeds with the range of them; the others at the batch that fits."""
    problems = by_problem(results)
    with drawing(path, (11.0, 2.7 * -(-len(problems) // 4))) as figure:
        panels = figure.subplots(-(-len(problems) // 4), 4, squeeze=False).flat
        for axes, (problem, ways) in zip(panels, problems.items(), strict=False):
            there = [size for size in sizes if f"batch {size}" in ways]
            seeds = min(len(ways[f"batch {size}"]) for size in there)
            values = [[ways[f"batch {size}"][seed] for size in there] for seed in range(seeds)]
            band(axes, there, values, "the metric's loss", COLOURS[0])
            for number, (way, mark) in enumerate((("cross-entropy", "x"), ("bank", "s"), ("momentum bank", "^")), 1):
                if way in ways:
                    axes.plot(
                        [fits], [statistics.mean(ways[way])], mark, color=COLOURS[number], label=way, markersize=6
                    )
            axes.set_xscale("log", base=2)
            axes.set_xticks(there, [f"{size:,}" for size in there], fontsize=7)
            tidy(axes, "rows in a batch", title=problem)
        for axes in list(panels)[len(problems) :]:
            axes.set_axis_off()
        figure.axes[0].legend(frameon=False, fontsize=7)


def batch_size_report(results: list[dict[str, Any]], folder: Path, sizes: Sequence[int], fits: int) -> None:
    title = "# Does a larger batch pay? The metric against the size of the batch, at equal forward passes"
    write_table(folder, [title, "", *batch_size_lines(results), "", f"![The same as curves]({FIGURE})"])
    draw(results, folder / FIGURE, sizes, fits)
