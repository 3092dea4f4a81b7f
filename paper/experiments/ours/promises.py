"""Promises beyond independent rows with many scores: how often are they broken, and what do they keep?

Clusters (beside the same rows counted one by one, and one row of each cluster), planned labels in rounds, scores of
five values, a band for choosing late, and floors for several categories together. And power: what planned labels keep
beside labels drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from aimfor.constraints import precision, recall
from aimfor.decisions import Problem

from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table
from ...report.statistics import least_share
from .promised import WAYS, Banded, Clustered, Draw, Family, FiveValues, Planned, planned_rounds, true_precision

#: Draws of a setting and of a cell; what was run earlier has fewer a cell, and every cell says how many.
DRAWS, CHUNK = 2000, 100
#: Power: shift of the scores by prevalence, floors, budgets in rounds (totals 150, 300, 600, 1,200), labels at random.
SHIFTS, FLOORS = {0.2: 1.6, 0.05: 2.5, 0.01: 3.2}, (0.8, 0.9, 0.95)
ROUNDS, RANDOM = (150, 150, 300, 600), (300, 600, 1500, 5000, 15_000)
POWER_DRAWS, POWER_CHUNK, POWER_ROWS = 200, 4, 50_000


def _settings() -> dict[str, Callable[[np.random.Generator], Draw]]:
    found: dict[str, Callable[[np.random.Generator], Draw]] = {}
    for number, sizes in ((400, (5, 5)), (150, (1, 50))):
        for within in (0.0, 0.3, 0.9):
            for way in WAYS:
                name = f"{number} clusters of {sizes[0]} to {sizes[1]} rows, correlation {within:g}, {way}"
                found[name] = Clustered(number, sizes, within, way)
    for prevalence, floor in ((0.2, 0.8), (0.05, 0.8), (0.05, 0.9), (0.01, 0.8)):
        found[f"planned, prevalence {prevalence:g}, floor {floor:g}"] = Planned(prevalence, floor, SHIFTS[prevalence])
    for rows, floor in ((500, 0.7), (2000, 0.7), (2000, 0.765)):
        found[f"five values, {rows} rows, floor {floor:g}"] = FiveValues(rows, floor)
    for rows, prevalence, shift in ((500, 0.4, 1.5), (2000, 0.4, 1.5), (5000, 0.05, 2.5)):
        found[f"band, {rows} rows, prevalence {prevalence:g}"] = Banded(rows, prevalence, shift, 0.75)
    for categories, rows in ((5, 1000), (20, 2000)):
        found[f"{categories} categories of {rows} rows, together"] = Family(categories, rows)
    return found


SETTINGS = _settings()


def cells(options: Options) -> list[Cell]:
    """In turns, so that what was run when one stops is about alike for all."""
    found: list[Cell] = []
    for chunk in range(DRAWS // CHUNK):
        found += [{"setting": name, "seed": chunk} for name in SETTINGS]
        if chunk < POWER_DRAWS // POWER_CHUNK:
            found += [{"prevalence": one, "floor": floor, "seed": chunk} for one in SHIFTS for floor in FLOORS]
    return found


def run(cell: Cell, options: Options) -> Result:
    if "setting" not in cell:
        return _power(cell["prevalence"], cell["floor"], cell["seed"])
    draws = [SETTINGS[cell["setting"]](np.random.default_rng([cell["seed"], draw])) for draw in range(CHUNK)]
    given, wrong = (sum(one[place] for one in draws) for place in (0, 1))
    return {"draws": CHUNK, "given": given, "wrong": wrong, "kept": sum(one[2] for one in draws) / CHUNK}


def _power(prevalence: float, floor: float, seed: int) -> Result:
    """Mean recall by labels, planned and at random; a promise that is broken keeps nothing."""
    shift, kept = SHIFTS[prevalence], {"planned": np.zeros(len(ROUNDS)), "random": np.zeros(len(RANDOM))}
    for draw in range(POWER_CHUNK):
        rng = np.random.default_rng([17, seed, draw])
        found = planned_rounds(rng, POWER_ROWS, prevalence, shift, floor, ROUNDS)
        kept["planned"] += [recalled if right >= floor else 0.0 for right, recalled in found]
        y = rng.random(max(RANDOM)) < prevalence
        scores = rng.normal(size=len(y)) + shift * y
        kept["random"] += [_at_random(scores[:n], y[:n], floor, prevalence, shift) for n in RANDOM]
    return {"draws": POWER_CHUNK} | {name: (values / POWER_CHUNK).tolist() for name, values in kept.items()}


def _at_random(scores: Any, y: Any, floor: float, prevalence: float, shift: float) -> float:
    if y.sum() < 4:  # too few to set an order and to test
        return 0.0
    try:
        cut = Problem("maximize", recall, [precision >= floor]).decide(scores, y, guarantee=0.95).threshold
    except ValueError:  # one class among the rows that set the order
        return 0.0
    return 0.0 if cut is None or true_precision(cut, prevalence, shift) < floor else float(norm.sf(cut - shift))


def oracle(prevalence: float, floor: float) -> float:
    """Recall at the lowest threshold that truly keeps the floor."""
    cuts = np.linspace(-4.0, 8.0, 12_001)
    fits = [cut for cut in cuts if true_precision(cut, prevalence, SHIFTS[prevalence]) >= floor]
    return float(norm.sf(fits[0] - SHIFTS[prevalence])) if fits else 0.0


def validity_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each setting that was run."""
    lines = [
        "| setting | draws | threshold given | kept | promise broken | lower bound |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in SETTINGS:
        results = [row["result"] for row in rows if row["cell"].get("setting") == name]
        draws, given, wrong = (sum(result[key] for result in results) for key in ("draws", "given", "wrong"))
        if draws:
            kept = sum(result["kept"] * result["draws"] for result in results) / draws
            words = f"{given / draws:.1%} | {kept:.3f} | {wrong / draws:.2%} | {least_share(wrong, draws):.2%}"
            lines.append(f"| {name} | {draws} | {words} |")
    return lines


def power_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Mean recall kept: one line for each prevalence and floor."""
    totals = np.cumsum(ROUNDS).tolist()
    heads = [*(f"{n:,} planned" for n in totals), *(f"{n:,} at random" for n in RANDOM)]
    lines = [f"| prevalence, floor (oracle), draws | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for prevalence in SHIFTS:
        for floor in FLOORS:
            mine = [row["result"] for row in rows
                    if (row["cell"].get("prevalence"), row["cell"].get("floor")) == (prevalence, floor)]  # fmt: skip
            if mine:
                means = [np.mean([one[key] for one in mine], 0) for key in ("planned", "random")]
                words = " | ".join(f"{value:.3f}" for value in np.concatenate(means))
                draws = sum(one["draws"] for one in mine)
                lines.append(f"| {prevalence:.0%}, {floor:g} ({oracle(prevalence, floor):.3f}), {draws} | {words} |")
    return lines


EXPLAINED = """A promise at 95 % may be broken in 5 % of draws; the lower bound is exact, one-sided, 95 %: above 5 % it
refutes the promise. Kept is the mean recall at the threshold, 0 where none was given. Rows of a cluster counted one by
one are what one gets without naming clusters; a planned promise is broken if it is after any round."""
POWER = """Mean recall kept by labels that `aimfor plan` draws, in rounds, beside labels drawn at random and given to
`aimfor decide`; 0 without a promise, and where it is broken."""


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    title = "# Promises beyond independent rows: broken, and kept"
    write_table(folder, [title, "", EXPLAINED, "", *validity_lines(rows), "", POWER, "", *power_lines(rows)])


EXPERIMENT = Experiment(
    "promises",
    "clusters, planned labels, five values, a band and categories on populations with known truth",
    "aimfor",
    cells,
    run,
    report,
    seeds=1,
)
