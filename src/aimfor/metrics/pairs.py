"""What metrics that are means over ordered pairs share: their linear program, and their soft ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..engine import Batch, Engine, Number
from ..lp import HasProgram, LPForm
from ..ordering import of_first, of_last, ordered, runs_of
from ..smooth import HasSmooth, Ranking, SmoothForm, SmoothSum, balanced_entropy, queried_items
from ..smooth.form import (
    Later,
    LazyValue,
    Softness,
    equals,
    read_value,
    scalar,
    undefined_number,
    wants_gradient,
    with_gradient,
)
from ..sorted import HasPairs, PairForm, PairProblem, SortedEngine
from ..sorted.kernels import top_fraction
from .base import Metric
from .lists import rows_of_numbers
from .programs import pair_program_form

ANCHOR_ONLY = "the anchor of balanced labels is differentiated once. SmoothEngine(1.0), without an anchor, has one."


def pair_ranking(form: PairForm) -> SmoothForm:
    """``1 − Σ scale · (mean over pairs of the soft misordering)``, on the scale of the problems that are defined."""
    if len(form.problems) == 1:
        (problem,) = form.problems
        return _rows(problem, problem.scale * problem.count)
    return SmoothSum(form.scores, tuple((single.scale * single.count, _rows(single, 1.0)) for single in form.problems))


def balanced_rows(form: PairForm) -> SmoothForm:
    """The same for problems side by side, with the rows' balanced logistic loss for the anchor instead of pairs."""
    (problem,) = form.problems
    return _rows(problem, problem.scale * problem.count, balanced=True)


@dataclass(frozen=True)
class PairRows(SmoothForm):
    """Rows of positives and negatives. Ranks are asked for only where something is learned from them.

    Attributes:
        scores: ``(r, n)``, attached to the graph.
        a: ``(r, n)`` float64, the positives' masses.
        b: The negatives'.
        scale: Of the mean misordering, so that the metric is ``1 − scale · misordering``.
        balanced: The anchor is `balanced_entropy` instead of the pairs' logistic loss.
    """

    scores: Tensor
    a: Tensor
    b: Tensor
    scale: float
    balanced: bool

    def spread(self) -> Number:
        return self.ranking.spread()

    def holds(self, softness: Softness) -> tuple[str, ...]:
        return self.ranking.holds(softness)

    def loss(self, softness: Softness) -> tuple[Tensor, LazyValue, Tensor | None]:
        share = softness.anchor
        learns = softness.indicator != "sigmoid" or (share < 1.0 and not equals(softness.temperature, 0.0))
        if learns or (share and not self.balanced):
            return self.ranking.loss(softness)
        x, unit = self.scores.detach(), softness.anchor_temperature
        value = self.lazy_value(softness)
        if undefined_number(value):
            return self.scores.sum() * 0.0, value, None
        loss = 0.0 if share == 1.0 else (1.0 - share) * (1.0 - read_value(value))
        if not share:
            return scalar(x, loss), value, None
        companion, slope = self._anchor(x / unit)
        loss = loss + share * companion
        if not wants_gradient(self.scores):
            return scalar(x, loss), value, None
        return with_gradient(self.scores, loss, slope.mul_(share / unit), ANCHOR_ONLY), value, None

    @cached_property
    def ranking(self) -> Ranking:
        """The same as a metric of soft ranks."""
        positive = self.a > 0
        queries = queried_items(positive)
        own = queries.take(self.a)

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            return _metric((own * above[0]).sum(1), self.a, self.b, self.scale)

        anchor = self._anchor if self.balanced else None
        return Ranking(self.scores, queries, (self.b,), measure, positive, self.a + self.b, companion=anchor)

    def lazy_value(self, softness: Softness) -> LazyValue:
        """The exact value, found when it is read: it takes a sort."""
        x, a, b, scale = self.scores.detach(), self.a, self.b, self.scale
        there = (a.sum(1) * b.sum(1)).any()
        if there.is_cpu and not there:
            return float("nan")
        return Later(x, lambda: _metric(misordered(x, a, b), a, b, scale), there)

    def _anchor(self, scores: Tensor) -> tuple[Number, Tensor]:
        return balanced_entropy(scores, self.a, self.b)


def _rows(problem: PairProblem, scale: float, balanced: bool = False) -> PairRows:
    scores, positive = (row.reshape(problem.count, -1) for row in (problem.scores, problem.positive))
    if problem.weights is None:
        a = rows_of_numbers(positive, torch.float64)
        b = 1.0 - a
    else:
        mass = problem.weights.reshape(scores.shape).detach().double()
        a = mass * positive
        b = mass - a
    if problem.top < 1.0 and b.numel():
        b = top_fraction(scores.detach().double()[0], b[0], problem.top)[None]
    return PairRows(scores, a, b, scale, balanced)


def _metric(misordered: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """From ``(r,)`` the mass of misordered pairs in each row."""
    pairs = a.sum(1) * b.sum(1)
    return 1.0 - scale * torch.where(pairs > 0, misordered / pairs, torch.nan).nanmean()


def misordered(scores: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``(r,)``: the mass of pairs of an item of ``a`` and one of ``b`` above it; those with equal scores count half."""
    if not scores.numel():
        return a.sum(1)
    ascending, order = ordered(scores)
    a, b = a.gather(1, order), b.gather(1, order)
    below = b.cumsum(1)
    whole = below[:, -1:]
    if runs_of(ascending) is not None:
        below = 0.5 * (of_first(ascending, below - b) + of_last(ascending, below))
    return (a * (whole - below)).sum(1)


class OfPairs(Metric, HasPairs, HasProgram, HasSmooth):
    """A metric with a `pair_form`: its linear program and its soft ranks are those of the pairs."""

    def program_form(self, batch: Batch, margin: float, threshold: str) -> LPForm:
        return pair_program_form(self.pair_form(batch), margin)

    def smooth_form(self, batch: Batch) -> SmoothForm:
        return pair_ranking(self.pair_form(batch))

    def default_engine(self) -> Engine:
        return SortedEngine()
