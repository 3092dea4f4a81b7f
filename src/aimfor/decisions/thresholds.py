"""A decision, not only scores: thresholds chosen so that the constraints hold on held-out data, with a margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..checks import number, one_of
from ..constraints.counts import Array, Counts, empty_levels, encode
from ..constraints.inequalities import Inequality, all_inequalities
from .binomial import normal_quantile, wilson_lower
from .certificate import certify
from .decision import Decision
from .rows import Rows
from .sweep import candidates, objective_value, outer_sum, points_each, spaced, sweep
from .task import Question

MARGINS = ("none", "confident", "certify")
#: With "certify", the chance that a fresh set of the same size certifies the constraints.
POWER = 0.9


def with_margin(
    problem: Question, batch: Rows, *, per_group: str | None = None, margin: str = "certify", confidence: float = 0.95
) -> Decision:
    """The best threshold(s) among those that satisfy the constraints with a margin on these data.

    Margins, each with Wilson's bound at z in place of the value:

    - ``none``: the value itself (z = 0); it holds on fresh data about half the time.
    - ``confident``: the lower confidence bound, z = z_c.
    - ``certify`` (default): z = z_c + √2·z_p (√(2/K)·z_p for a sum of K rates), so that a certificate on a fresh set
      of the same size says "met" in about 90 % of cases: it has to clear its own bound, and both sets have
      sampling error.

    If no threshold reaches the margin, the next weaker one is tried, and `Decision.margin` says which was reached; if
    even ``none`` is out of reach, the least violating threshold is returned as ``infeasible``.
    """
    one_of("margin", margin, MARGINS)
    confidence = number("confidence", confidence, above=0.5, below=1)
    names = tuple(sorted({*problem.attributes, *([per_group] if per_group else [])}))
    codes, levels = encode(batch.groups, len(batch), empty_levels(names))
    search = _Search(problem, batch, codes, Counts(levels, np.zeros(0)), confidence)
    wanted = MARGINS[: MARGINS.index(margin) + 1][::-1]
    if per_group is None or len(levels.of(per_group)) < 2:
        return search.common(wanted)
    return search.by_group(per_group, wanted)


@dataclass(frozen=True)
class _Search:
    problem: Question
    batch: Rows
    codes: Array
    empty: Counts
    confidence: float

    def common(self, wanted: Sequence[str]) -> Decision:
        thresholds = candidates(self.batch.scores, self.batch.targets)
        counts = self._sweep(thresholds)
        best, reached = self._best(counts, wanted)
        chosen = Counts(counts.levels, counts.table[best])
        return self._decision(float(thresholds[best]), None, {}, reached, chosen)

    def by_group(self, attribute: str, wanted: Sequence[str]) -> Decision:
        """A grid over the groups' thresholds, zoomed in on the best combination."""
        labels = self.empty.levels.of(attribute)
        own = [self.batch.groups[attribute] == label for label in labels]
        points = points_each(len(labels))
        grids = [candidates(self.batch.scores[mask], self.batch.targets[mask]) for mask in own]
        spans = [(0, len(grid) - 1) for grid in grids]
        for _ in range(4):
            picks = [spaced(span, points) for span in spans]
            tables = [self._sweep(grid[pick], mask).table for grid, pick, mask in zip(grids, picks, own, strict=True)]
            best, reached = self._best(Counts(self.empty.levels, outer_sum(tables)), wanted)
            spots = np.unravel_index(best, [len(pick) for pick in picks])
            spans = [_around(pick, int(spot)) for pick, spot in zip(picks, spots, strict=True)]
        chosen = np.sum([table[int(spot)] for table, spot in zip(tables, spots, strict=True)], 0)
        by_label = {
            label: float(grid[pick[int(spot)]])
            for label, grid, pick, spot in zip(labels, grids, picks, spots, strict=True)
        }
        middle = sum(by_label.values()) / len(by_label)
        return self._decision(middle, attribute, by_label, reached, Counts(self.empty.levels, chosen))

    def _sweep(self, thresholds: Array, mask: Array | None = None) -> Counts:
        return sweep(self.batch, self.codes, self.empty.levels, thresholds, mask)

    def _best(self, counts: Counts, wanted: Sequence[str]) -> tuple[int, str]:
        goal = objective_value(self.problem.objective, counts, 1.0 if self.problem.direction == "maximize" else -1.0)
        inequalities = all_inequalities(self.problem.constraints, counts.levels)
        for margin in wanted:
            fits = np.ones_like(goal, dtype=bool)
            for inequality in inequalities:
                z = margin_z(margin, self.confidence, len(self.problem.constraints), len(inequality.terms))
                fits &= cautious_margin(inequality, counts, z) >= 0
            if bool(fits.any()):
                return int(np.where(fits, goal, -math.inf).argmax()), margin
        worst = np.full_like(goal, math.inf)
        for inequality in inequalities:
            slack = inequality.slack(counts)
            worst = np.minimum(worst, np.where(np.isnan(slack), -math.inf, slack))
        return int(worst.argmax()), "infeasible"

    def _decision(
        self, threshold: float, attribute: str | None, by_label: dict[float, float], reached: str, chosen: Counts
    ) -> Decision:
        problem = self.problem
        certificate = certify(
            problem.objective, problem.constraints, chosen, self.confidence, direction=problem.direction
        )
        return Decision(threshold, attribute, by_label, reached != "infeasible", reached, certificate)


def margin_z(margin: str, confidence: float, constraints: int, rates: int) -> float:
    """Standard errors to stay clear of, for a part that sums this many rates (their errors add in quadrature)."""
    if margin == "none":
        return 0.0
    z = normal_quantile(1.0 - (1.0 - confidence) / (max(constraints, 1) * rates))
    return z if margin == "confident" else z + math.sqrt(2.0 / rates) * normal_quantile(POWER)


def tightened(inequality: Inequality, counts: Counts, held_out: int, constraints: int) -> Inequality:
    """The part moved inwards by what a certificate on ``held_out`` examples will ask for beyond the bound itself.

    Never by more than half of what there is between the bound and the best possible value; a difference is bounded
    from both sides, so there the best possible value is no difference.
    """
    if not held_out or not counts.total:
        return inequality
    sized = counts.times(held_out / counts.total)
    z = margin_z("certify", 0.95, constraints, len(inequality.terms))
    extra = float(inequality.margin(sized) - cautious_margin(inequality, sized, z))
    best = sum(max(c, 0.0) for c, _ in inequality.terms) if len(inequality.terms) == 1 else 0.0
    most = 0.5 * max(best + inequality.constant, 0.0)
    return (
        replace(inequality, constant=inequality.constant - min(max(extra, 0.0), most))
        if math.isfinite(extra)
        else inequality
    )


def cautious_margin(inequality: Inequality, counts: Counts, z: float) -> Array:
    """The part's margin with every rate moved to its unfavourable Wilson bound at z; NaN where nothing is measured."""
    total = np.full_like(counts.cells()[..., 0], inequality.constant)
    for coefficient, rate in inequality.terms:
        successes, trials = rate.successes(counts), rate.trials(counts)
        if z == 0.0:
            value = rate.ratio(counts)
        else:
            good = successes if coefficient > 0 else trials - successes
            value = wilson_lower(good, trials, z)
            value = value if coefficient > 0 else 1.0 - value
            value = value * trials if rate.is_count else value
        total = total + coefficient * value
    return total


def _around(pick: Array, spot: int) -> tuple[int, int]:
    """Two steps of the grid to either side."""
    return int(pick[max(spot - 2, 0)]), int(pick[min(spot + 2, len(pick) - 1)])
