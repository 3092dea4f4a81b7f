"""Promises beyond independent rows with many scores: clusters, planned labels with stopping, scores of five values.

Scores are normal given the class, clusters share a part of both, so every precision is a closed form: whether a promise
was broken is known, not estimated. Beside each setting of clusters stand the same rows counted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from aimfor.constraints import precision, recall
from aimfor.decisions import Problem
from aimfor.decisions import plan as planning

from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table
from ...report.statistics import least_share

DRAWS, CHUNK = 2000, 100
SHIFT, PREVALENCE, FLOOR = 1.5, 0.4, 0.75
Array = NDArray[Any]
#: (threshold given, broken, what was kept) of one draw.
Draw = tuple[bool, bool, float]


def true_precision(cut: float, prevalence: float = PREVALENCE, shift: float = SHIFT) -> float:
    hits, others = prevalence * norm.sf(cut - shift), (1.0 - prevalence) * norm.sf(cut)
    return float(hits / (hits + others)) if hits + others > 0 else 1.0


@dataclass(frozen=True)
class Clustered:
    """Clusters of these sizes whose labels and scores have this intraclass correlation."""

    number: int
    sizes: tuple[int, int]
    within: float
    by_cluster: bool

    def __call__(self, rng: np.random.Generator) -> Draw:
        sizes = rng.integers(self.sizes[0], self.sizes[1] + 1, self.number)
        cluster = np.repeat(np.arange(self.number), sizes)
        share = np.full(self.number, PREVALENCE)
        if self.within:
            strength = (1.0 - self.within) / self.within
            share = rng.beta(PREVALENCE * strength, (1.0 - PREVALENCE) * strength, self.number)
        y = rng.random(len(cluster)) < share[cluster]
        common = rng.normal(size=self.number)[cluster] * self.within**0.5
        scores = SHIFT * y + common + rng.normal(size=len(cluster)) * (1.0 - self.within) ** 0.5
        ids = cluster if self.by_cluster else None
        cut = Problem("maximize", recall, [precision >= FLOOR]).decide(scores, y, guarantee=0.95, cluster=ids).threshold
        return (False, False, 0.0) if cut is None else (True, true_precision(cut) < FLOOR, float(norm.sf(cut - SHIFT)))


@dataclass(frozen=True)
class Planned:
    """Labels in three rounds of 100, 200 and 300 after a pilot of 40; whoever is promised something stops there."""

    prevalence: float
    floor: float
    shift: float
    rows: int = 50_000

    def __call__(self, rng: np.random.Generator) -> Draw:
        y = rng.random(self.rows) < self.prevalence
        scores = rng.normal(size=self.rows) + self.shift * y
        y, made = y[np.argsort(-scores)], planning.design(scores, self.floor, 0.95)
        taken = planning.pilot_ranks(self.rows, 40, rng)
        labels = [planning.Label(int(rank), -1, bool(y[rank])) for rank in taken]
        for turn, budget in enumerate((100, 200, 300)):
            start, limit = planning.next_round(made, labels, budget, rng, turn == 0)
            made = replace(made, start=start)
            free = np.setdiff1d(np.arange(made.above[limit]), taken)
            drawn = rng.choice(free, min(budget, len(free)), replace=False)
            taken = np.concatenate((taken, drawn))
            labels += [planning.Label(int(rank), limit, bool(y[rank])) for rank in drawn]
            step = planning.accepted(made, labels)
            if step is not None:
                cut = float(made.cuts[step])
                broken = true_precision(cut, self.prevalence, self.shift) < self.floor
                return True, broken, float(norm.sf(cut - self.shift))
        return False, False, 0.0


@dataclass(frozen=True)
class FiveValues:
    """A judge's marks from 1 to 5, whose chances by class are known."""

    rows: int
    floor: float

    def __call__(self, rng: np.random.Generator) -> Draw:
        chances = np.array([[0.35, 0.3, 0.2, 0.1, 0.05], [0.05, 0.1, 0.2, 0.3, 0.35]])
        y = rng.random(self.rows) < PREVALENCE
        marks = (rng.random(self.rows)[:, None] > chances[y.astype(int)].cumsum(1)[:, :4]).sum(1) + 1.0
        problem = Problem("maximize", recall, [precision >= self.floor])
        cut = problem.decide(marks, y, guarantee=0.95).threshold
        if cut is None:
            return False, False, 0.0
        above = np.arange(1, 6) > cut
        hits, others = PREVALENCE * chances[1][above].sum(), (1.0 - PREVALENCE) * chances[0][above].sum()
        return True, bool(hits < self.floor * (hits + others)), float(chances[1][above].sum())


def _settings() -> dict[str, Callable[[np.random.Generator], Draw]]:
    found: dict[str, Callable[[np.random.Generator], Draw]] = {}
    for number, sizes in ((400, (5, 5)), (150, (1, 50))):
        for within in (0.0, 0.3, 0.9):
            for by_cluster in (True, False):
                name = f"clusters of {sizes[0]} to {sizes[1]} rows, correlation {within:g}"
                counted = "by clusters" if by_cluster else "by rows"
                found[f"{name}, {counted}"] = Clustered(number, sizes, within, by_cluster)
    for prevalence, floor, shift in ((0.2, 0.8, 1.6), (0.05, 0.8, 2.6), (0.05, 0.9, 2.6), (0.01, 0.8, 3.3)):
        found[f"planned, prevalence {prevalence:g}, floor {floor:g}"] = Planned(prevalence, floor, shift)
    for rows, floor in ((500, 0.7), (2000, 0.7), (2000, 0.765)):
        found[f"five values, {rows} rows, floor {floor:g}"] = FiveValues(rows, floor)
    return found


SETTINGS = _settings()


def cells(options: Options) -> list[Cell]:
    return [{"setting": name, "seed": chunk} for chunk in range(DRAWS // CHUNK) for name in SETTINGS]


def run(cell: Cell, options: Options) -> Result:
    draws = [SETTINGS[cell["setting"]](np.random.default_rng([cell["seed"], draw])) for draw in range(CHUNK)]
    given, wrong = (sum(one[place] for one in draws) for place in (0, 1))
    return {"draws": CHUNK, "given": given, "wrong": wrong, "kept": sum(one[2] for one in draws) / CHUNK}


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """One line a setting."""
    lines = [
        "# Promises about clusters, planned labels and five-valued scores: how often are they broken?",
        "",
        "A promise at 95 % may be broken in 5 % of draws. The lower bound is exact, one-sided, 95 %: above 5 % it",
        "refutes the promise. Kept is the mean recall at the threshold, 0 where none was given.",
        "",
        "| setting | draws | threshold given | kept | promise broken | lower bound |",
        "|---|---|---|---|---|---|",
    ]
    for name in SETTINGS:
        results = [row["result"] for row in rows if row["cell"]["setting"] == name]
        draws, given, wrong = (sum(result[key] for result in results) for key in ("draws", "given", "wrong"))
        if draws:
            kept = sum(result["kept"] * result["draws"] for result in results) / draws
            low = least_share(wrong, draws)
            words = f"{given / draws:.1%} | {kept:.3f} | {wrong / draws:.2%} | {low:.2%}"
            lines.append(f"| {name} | {draws} | {words} |")
    write_table(folder, lines)


EXPERIMENT = Experiment(
    "promises",
    "clusters, planned labels and five-valued scores on populations with known truth",
    "aimfor",
    cells,
    run,
    report,
    seeds=1,
)
