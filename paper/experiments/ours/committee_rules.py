"""Which rule weighs the members: tried on training rows of the small tables, on splits reported nowhere else."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from ...data.tables import TABLES
from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table
from . import committee

#: Far from the seeds of the reported splits.
FIRST_SEED = 100


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": FIRST_SEED + seed} for seed in range(options.seeds) for name in TABLES]


def run(cell: Cell, options: Options) -> Result:
    return committee.measure(cell, options, training_only=True)


def report(results: list[dict[str, Any]], folder: Path) -> None:
    """Median and mean over tables of each rule's gain over the plain average, in points."""
    lines = [f"# {EXPERIMENT.title}", "", "Points gained over the plain average of the members, on rows held out:", ""]
    lines += ["| metric | rule | median | mean | tables up / down |", "|---|---|---|---|---|"]
    for metric in committee.METRICS:
        tables: dict[str, dict[str, list[float]]] = {}
        for entry in results:
            found = entry["result"]["metrics"][metric]["rules"]
            for rule, value in found.items():
                if value is not None and found["average"] is not None:
                    tables.setdefault(rule, {}).setdefault(entry["cell"]["set"], []).append(value - found["average"])
        for rule, by_table in tables.items():
            if rule != "average":
                gains = [100 * statistics.mean(values) for values in by_table.values()]
                up, down = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
                middle, mean = statistics.median(gains), statistics.mean(gains)
                lines.append(f"| {metric} | {rule} | {middle:+.2f} | {mean:+.2f} | {up} / {down} |")
    write_table(folder, lines)


EXPERIMENT = Experiment(
    "committee_rules", "rules of weights for the committee, on other splits", "aimfor", cells, run, report, seeds=2
)
