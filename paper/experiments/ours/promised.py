"""Populations whose true rates are known, and what one draw of each is promised.

Scores are normal given the class, clusters share a part of both, so every precision is a closed form: whether a promise
was broken is known, not estimated. A planned promise is about the rows of its file, whose labels are all known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from aimfor.constraints import precision, recall
from aimfor.decisions import Problem, decide_categories
from aimfor.decisions import plan as planning
from aimfor.decisions import rounds as planner

SHIFT, PREVALENCE, FLOOR = 1.5, 0.4, 0.75
#: Ways to count rows that come in clusters.
WAYS = ("by clusters", "by rows", "one row of each")
Array = NDArray[Any]
#: (promises given, broken, what was kept) of one draw.
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
    way: str

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
        if self.way == WAYS[2]:
            first = np.unique(cluster, return_index=True)[1]  # rows of a cluster are in no order
            scores, y = scores[first], y[first]
        ids = cluster if self.way == WAYS[0] else None
        cut = Problem("maximize", recall, [precision >= FLOOR]).decide(scores, y, guarantee=0.95, cluster=ids).threshold
        return (False, False, 0.0) if cut is None else (True, true_precision(cut) < FLOOR, float(norm.sf(cut - SHIFT)))


def planned_rounds(
    rng: np.random.Generator, rows: int, prevalence: float, shift: float, floor: float, budgets: tuple[int, ...]
) -> list[tuple[float, float]]:
    """(precision, recall) among the rows of the file after each round; (1, 0) without a threshold."""
    y = rng.random(rows) < prevalence
    scores = rng.normal(size=rows) + shift * y
    y, (made, _) = y[np.argsort(-scores)].astype(float), planning.design(scores, precision >= floor, 0.95)
    pilot = planner.pilot(made, planner.pilot_size(budgets[0]), rng)
    rounds, found = [replace(pilot, right=y[pilot.ranks])], []
    for turn, budget in enumerate(budgets):
        made, one = planner.next_round(made, rounds, budget if turn else budget - len(pilot.ranks), rng)
        rounds.append(replace(one, right=y[one.ranks]))
        step = planning.accepted(made, rounds)
        hits = 0.0 if step is None else float(y[: made.above[step]].sum())
        found.append((1.0, 0.0) if step is None else (hits / int(made.above[step]), hits / float(y.sum())))
    return found


@dataclass(frozen=True)
class Planned:
    """Labels in rounds; broken if the promise after any of them is, so that it stands for every rule of stopping."""

    prevalence: float
    floor: float
    shift: float
    rows: int = 20_000

    def __call__(self, rng: np.random.Generator) -> Draw:
        found = planned_rounds(rng, self.rows, self.prevalence, self.shift, self.floor, (150, 150, 300))
        kept = found[-1][1]
        return kept > 0.0, any(one[0] < self.floor for one in found), kept


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


@dataclass(frozen=True)
class Banded:
    """A band over all thresholds; broken if any of its bounds is wrong, whatever one chooses. Kept: at the floor."""

    rows: int
    prevalence: float
    shift: float
    floor: float

    def __call__(self, rng: np.random.Generator) -> Draw:
        y = rng.random(self.rows) < self.prevalence
        band = Problem("maximize", recall, [precision >= self.floor]).band(
            rng.normal(size=self.rows) + self.shift * y, y
        )
        truth = [true_precision(cut, self.prevalence, self.shift) for cut in band.thresholds]
        wrong = any(bound > true for bound, true in zip(band.lines["precision >="].bound, truth, strict=True))
        cut = band.best(precision >= self.floor)
        return cut is not None, wrong, 0.0 if cut is None else float(norm.sf(cut - self.shift))


@dataclass(frozen=True)
class Family:
    """Categories of rows with a floor each, all promises together. Broken if any is; kept on average."""

    categories: int
    rows: int

    def __call__(self, rng: np.random.Generator) -> Draw:
        shifts = np.linspace(1.2, 2.4, self.categories)
        category = np.repeat(np.arange(self.categories), self.rows)
        y = rng.random(len(category)) < PREVALENCE
        scores = rng.normal(size=len(category)) + shifts[category] * y
        found = decide_categories(Problem("maximize", recall, [precision >= FLOOR]), scores, y, category)
        cuts = [found.decisions[str(name)].threshold for name in range(self.categories)]
        wrong = any(cut is not None and true_precision(cut, shift=shift) < FLOOR
                    for cut, shift in zip(cuts, shifts, strict=True))  # fmt: skip
        kept = [0.0 if cut is None else float(norm.sf(cut - shift)) for cut, shift in zip(cuts, shifts, strict=True)]
        return any(kept), wrong, float(np.mean(kept))
