"""Does a guaranteed threshold keep its promise? Populations with known truth, 2,000 draws of each setting.

Scores are normal given class and group, so every rate at every threshold is a closed form: whether a promise was
broken is known, not estimated. Settings are chosen so that the path of tests reaches the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from aimfor.constraints.counts import Counts, Levels
from aimfor.constraints.inequalities import all_inequalities
from aimfor.rates import (
    Constraint,
    Decision,
    Rate,
    RateProblem,
    accuracy,
    fpr,
    maximize,
    minimize,
    npv,
    positive_rate,
    precision,
    recall,
    tnr,
)

from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table
from ...report.statistics import least_share

DRAWS, CHUNK = 2000, 250
FN_SHARE = Rate("fn_share", (2,), (0, 1, 2, 3))
FP_SHARE = Rate("fp_share", (1,), (0, 1, 2, 3))


@dataclass(frozen=True)
class Population:
    """Score ~ N(shift·y + offset·group, 1), rounded to ``digits``; group 1 with probability ``share``."""

    prevalence: tuple[float, float] = (0.24, 0.24)
    shift: tuple[float, float] = (1.6, 1.6)
    offset: float = 0.0
    share: float = 0.4
    digits: int | None = None

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        group = torch.rand(n, generator=generator, dtype=torch.float64) < self.share
        chance = torch.where(group, self.prevalence[1], self.prevalence[0])
        y = torch.rand(n, generator=generator, dtype=torch.float64) < chance
        shift = torch.where(group, self.shift[1], self.shift[0])
        scores = torch.randn(n, generator=generator, dtype=torch.float64) + shift * y + self.offset * group
        scores = scores if self.digits is None else scores.round(decimals=self.digits)
        return scores, y, {"group": group.long()}

    def truth(self, decision: Decision) -> Counts:
        """The population's own table, in shares, at the decision's thresholds."""
        rows = []
        for group in (0, 1):
            cut = decision.thresholds.get(float(group), decision.threshold)
            assert cut is not None
            weight = self.share if group else 1.0 - self.share
            positives = weight * self.prevalence[group]
            pass_positive = self._above(cut - self.shift[group] - self.offset * group, self.shift[group])
            pass_negative = self._above(cut - self.offset * group, 0.0)
            tp, fp = positives * pass_positive, (weight - positives) * pass_negative
            rows.append([tp, fp, positives - tp, weight - positives - fp])
        return Counts(Levels(("group",), ((0.0, 1.0),)), np.array(rows))

    def _above(self, distance: float, shift: float) -> float:
        """P(score > cut); a rounded score passes where the unrounded one is beyond the next half step."""
        if self.digits is not None:  # offsets and shifts of rounded populations are multiples of the step
            step = 10.0**-self.digits
            distance = (math.floor(round(distance / step, 9)) + 0.5) * step
        return float(stats.norm.sf(distance))


@dataclass(frozen=True)
class Setting:
    problem: Callable[[], RateProblem]
    n: int
    population: Population = Population()
    learn: str = "split"
    per_group: bool = False
    starts: int = 1


def _best(objective: Rate, *constraints: Constraint) -> Callable[[], RateProblem]:
    return lambda: maximize(objective, list(constraints))


#: Scores that say nothing: every threshold misses a floor of 0.8 on precision by a hair.
BLANK = Population((0.799, 0.799), (0.0, 0.0))
RARE = Population((0.005, 0.005), (3.5, 3.5))
GROUPS = Population((0.2, 0.35), (1.6, 1.4), 0.3)
SETTINGS: dict[str, Setting] = {
    "precision >= 0.75, n 500": Setting(_best(recall, precision >= 0.75), 500),
    "precision >= 0.75, n 2,000, other rows learn": Setting(_best(recall, precision >= 0.75), 2000, learn="other"),
    "precision >= 0.85, n 500, other rows learn": Setting(_best(recall, precision >= 0.85), 500, learn="other"),
    "precision >= 0.85, n 20,000": Setting(_best(recall, precision >= 0.85), 20_000),
    "precision >= 0.8, prevalence 0.5 %, n 20,000": Setting(_best(recall, precision >= 0.8), 20_000, RARE),
    "precision >= 0.8, never true by a hair, n 1,000": Setting(_best(recall, precision >= 0.8), 1000, BLANK),
    "recall >= 0.8, n 200": Setting(_best(tnr, recall >= 0.8), 200),
    "fpr <= 0.05, n 1,000": Setting(_best(recall, fpr <= 0.05), 1000),
    "npv >= 0.95, n 1,000, 5 folds": Setting(_best(tnr, npv >= 0.95), 1000, learn="folds"),
    "accuracy >= 0.8, n 1,000": Setting(_best(recall, accuracy >= 0.8), 1000),
    "positive rate <= 2 %, n 2,000": Setting(_best(recall, positive_rate <= 0.02), 2000),
    "cost 5 fn + fp <= 0.75 a row, n 1,000": Setting(
        lambda: minimize(positive_rate, 5 * FN_SHARE + FP_SHARE <= 0.75), 1000
    ),
    "three constraints, n 2,000": Setting(_best(recall, precision >= 0.6, positive_rate <= 0.25, recall >= 0.4), 2000),
    "precision of the worst group >= 0.7, n 2,000": Setting(
        _best(recall, precision.worst("group") >= 0.7), 2000, GROUPS
    ),
    "gap(fpr) <= 0.05, thresholds by group, n 2,000": Setting(
        _best(accuracy, fpr.gap("group") <= 0.05), 2000, GROUPS, per_group=True
    ),
    "precision >= 0.65 and gap(recall) <= 0.15, n 5,000": Setting(
        _best(recall, precision >= 0.65, recall.gap("group") <= 0.15), 5000, GROUPS
    ),
    "precision >= 0.75, n 1,000, 3 starts": Setting(_best(recall, precision >= 0.75), 1000, starts=3),
    "precision >= 0.75, scores with one digit, n 1,000": Setting(
        _best(recall, precision >= 0.75), 1000, Population(digits=1)
    ),
}


def one_draw(setting: Setting, seed: int) -> tuple[Decision, bool]:
    """A decision on fresh rows, and whether some constraint is truly violated at it."""
    generator = torch.Generator().manual_seed(seed)
    scores, y, groups = setting.population.draw(setting.n, generator)
    learn: Any = "split"
    if setting.learn == "other":
        learn = setting.population.draw(setting.n, generator)
    elif setting.learn == "folds":
        learn = torch.arange(setting.n) % 5
    problem = setting.problem()
    decision = problem.decide(
        scores,
        y,
        groups=groups,
        guarantee=0.95,
        learn=learn,
        per_group="group" if setting.per_group else None,
        starts=setting.starts,
    )
    if decision.threshold is None:
        return decision, False
    truth = setting.population.truth(decision)
    broken = (float(part.margin(truth)) < 0 for part in all_inequalities(problem.constraints, truth.levels))
    return decision, any(broken)


def cells(options: Options) -> list[Cell]:
    """Cells say by which order of tests they were measured; those of the earlier one carry no such word."""
    chunks = range(DRAWS // CHUNK)
    return [{"setting": name, "seed": chunk, "order": "rehearsal"} for chunk in chunks for name in SETTINGS]


def run(cell: Cell, options: Options) -> Result:
    setting = SETTINGS[cell["setting"]]
    given = wrong = 0
    for draw in range(CHUNK):
        decision, violated = one_draw(setting, 1_000_003 * cell["seed"] + draw)
        given += decision.threshold is not None
        wrong += violated
    return {"draws": CHUNK, "given": given, "wrong": wrong}


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """One line a setting: how often a threshold was given, and how often it broke its promise."""
    lines = [
        "# Guaranteed thresholds: how often is the promise broken?",
        "",
        "A promise at 95 % may be broken in 5 % of draws. The last column is the exact one-sided 95 % lower bound on",
        "the true share: above 5 % it would refute the guarantee.",
        "",
        "| setting | draws | threshold given | promise broken | lower bound |",
        "|---|---|---|---|---|",
    ]
    for name in SETTINGS:
        results = [row["result"] for row in rows if row["cell"]["setting"] == name]
        draws, given, wrong = (sum(result[key] for result in results) for key in ("draws", "given", "wrong"))
        if draws:
            low = least_share(wrong, draws)
            lines.append(f"| {name} | {draws} | {given / draws:.1%} | {wrong / draws:.2%} | {low:.2%} |")
    write_table(folder, lines)


EXPERIMENT = Experiment(
    "validity",
    "guaranteed thresholds on populations with known truth",
    "aimfor",
    cells,
    run,
    report,
    seeds=1,
)
