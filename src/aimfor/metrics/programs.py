"""How metrics become linear programs: pair problems with slacks, ratios of counts with bounds from scores."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from ..lp import HasProgram, LPForm, LPTask, PairRows, RatioProblem, ratio_form
from ..sorted import PairForm, PairProblem, SortedEngine
from ..sorted.kernels import top_fraction

Coefficients = tuple[float, float, float, float]


def pair_program_form(form: PairForm, margin: float) -> LPForm:
    """Meng's (1) for each pair problem: ``min Σ a_i b_j z_ij, z_ij >= margin − (f_i − f_j), z >= 0``, over its mass.

    With fixed scores ``z_ij = max(0, margin − (f_i − f_j))``: the sorted engine's hinge is the closed form.
    """
    defined = [pairs for pairs in (_split(problem) for problem in form.single()) if pairs is not None]
    weight = sum(problem.scale for problem, *_ in defined)
    total = sum(problem.scale for problem in form.single())

    def tasks() -> tuple[LPTask, ...]:
        return tuple(_task(pairs, margin, pairs[0].scale * total / weight) for pairs in defined)

    return LPForm(form.scores, tasks, lambda: SortedEngine("hinge", margin).solve(form).loss, bool(defined))


_Pairs = tuple[PairProblem, Tensor, Tensor, Tensor, Tensor]


def _split(problem: PairProblem) -> _Pairs | None:
    """Scores and masses of the positives and negatives that count; None without both."""
    mass = torch.ones_like(problem.scores) if problem.weights is None else problem.weights
    mass, positive = mass.detach().double(), problem.positive.bool()
    high_mass, low_mass = mass * positive, mass * ~positive
    if problem.top < 1.0 and mass.numel():
        low_mass = top_fraction(problem.scores.detach().double(), low_mass, problem.top)
    high, low = high_mass > 0, low_mass > 0
    if not (bool(high.any()) and bool(low.any())):
        return None
    return problem, problem.scores[high].double(), problem.scores[low].double(), high_mass[high], low_mass[low]


def _task(pairs: _Pairs, margin: float, scale: float) -> LPTask:
    _, high, low, a, b = pairs
    rows = PairRows(high.new_zeros(high.numel() + low.numel(), 0), high.numel())
    cost = (a[:, None] * b[None, :]).reshape(-1)
    gaps = (high[:, None] - low[None, :] - margin).reshape(-1)
    arguments = {"c": cost / cost.sum(), "A": rows, "b": gaps, "lower": 0.0}
    return LPTask(arguments, lambda value: scale * value)


def ratio_program_form(
    batch: Batch, decided_at: float, numerator: Coefficients, denominator: Coefficients, margin: float, threshold: str
) -> LPForm:
    """A ratio of lines in (tp, fp, fn, tn) as a bound from scores; ``cut`` is where decisions are made."""
    weights = batch.effective_weights()
    mass = torch.ones_like(batch.scores) if weights is None else weights
    high, low = batch.targets & (mass > 0), ~batch.targets & (mass > 0)
    mass = mass.detach().double()
    positives, negatives = float(mass[high].sum()), float(mass[low].sum())

    def line(k: Coefficients) -> tuple[float, float, float]:
        # fn = positives − tp and tn = negatives − fp leave two free counts.
        return k[2] * positives + k[3] * negatives, k[0] - k[2], k[1] - k[3]

    scores = batch.scores.double() - decided_at
    problem = RatioProblem(scores[high], scores[low], mass[high], mass[low], line(numerator), line(denominator))
    return ratio_form(problem, batch.scores, margin, threshold)


def precision_program_form(batch: Batch, recall: float, margin: float) -> LPForm:
    """One minus a bound on the best precision at a recall: of all thresholds s that surely recall enough, the one with
    the fewest false positives, both counted by their bounds (see `aimfor.lp.ratio`)::

        min Σ φ   s.t.  φ_j >= 0,  φ_j >= 1 + (f_j − s)/m;   τ_i <= 1,  τ_i <= (f_i − s)/m,  Σ τ >= recall · positives

    and ``precision >= r/(r + V)`` with r = recall · positives. Σ τ falls with s and so does Σ φ: the closed form takes
    the largest s that recalls enough, a root of a line with corners.
    """
    weights = batch.effective_weights()
    mass = (torch.ones_like(batch.scores) if weights is None else weights).detach().double()
    high, low = batch.targets & (mass > 0), ~batch.targets & (mass > 0)
    f, g, a, b = batch.scores[high].double(), batch.scores[low].double(), mass[high], mass[low]
    needed = recall * float(a.sum())

    def loss(false: Tensor) -> Tensor:
        return 1.0 - needed / (needed + false)

    def closed() -> Tensor:
        level = _recalling(f, a, needed, margin)
        return loss((b * (1.0 + (g - level) / margin).clamp_min(0.0)).sum()).to(batch.scores.dtype)

    def tasks() -> tuple[LPTask, ...]:
        p, q = f.numel(), g.numel()
        first = f.new_full((p + q, 1), 1.0 / margin)
        first[p:] = -1.0 / margin
        rows = torch.cat((first, torch.block_diag(torch.eye(p, dtype=f.dtype), -torch.eye(q, dtype=f.dtype)).to(f)), 1)
        enough = torch.cat((f.new_zeros(1), -a, f.new_zeros(q)))
        unbounded = torch.full_like(enough, torch.inf)
        arguments = {
            "c": torch.cat((f.new_zeros(1 + p), b)),
            "A": torch.cat((rows, enough[None])),
            "b": torch.cat((f / margin, -1.0 - g / margin, f.new_full((1,), -needed))),
            "lower": torch.cat((-unbounded[: 1 + p], f.new_zeros(q))),
            "upper": torch.cat((unbounded[:1], f.new_ones(p), unbounded[1 + p :])),
        }
        return (LPTask(arguments, loss),)

    return LPForm(batch.scores, tasks, closed, f.numel() > 0)


def _recalling(f: Tensor, mass: Tensor, needed: float, margin: float) -> Tensor:
    """The largest s with ``Σ mass · min(1, (f − s)/margin) >= needed``, attached to the graph of f."""
    # The sum is concave in s, so Newton's steps from above stay above the root and pass a corner each.
    with torch.no_grad():
        level = f.max()
        for _ in range(2 * f.numel() + 2):
            short = f - level <= margin
            gap = (mass * ((f - level) / margin).clamp_max(1.0)).sum() - needed
            if gap >= -1e-13 * needed:
                break
            level = level + gap * margin / mass[short].sum()
        short = f - level <= margin * (1.0 + 1e-12)
    # One more step, attached, is the root's own derivative.
    partial = (mass * (f - level) / margin)[short].sum() + mass[~short].sum()
    return level + (partial - partial.detach()) * margin / mass[short].sum()


class RatioOfCounts(HasProgram):
    """Mixin for a count metric that is one linear function of the counts over another: it has a linear program."""

    threshold: float

    @abstractmethod
    def lines(self) -> tuple[Coefficients, Coefficients]:
        """Coefficients of (tp, fp, fn, tn) in the numerator and in the denominator."""

    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        counts, (above, below) = (tp, fp, fn, tn), self.lines()
        return _line(above, counts) / _line(below, counts)

    def program_form(self, batch: Batch, margin: float, threshold: str) -> LPForm:
        if batch.scores.ndim != 1:
            raise InputError(
                "scores",
                f"shape {tuple(batch.scores.shape)}",
                "one score per example",
                "The program bounds decisions at a threshold; for several classes train each against the rest.",
            )
        return ratio_program_form(batch, self.threshold, *self.lines(), margin, threshold)


def _line(coefficients: Coefficients, counts: tuple[Tensor, ...]) -> Tensor:
    """Σ k · count over the coefficients that are not zero: engines evaluate this on whole tables of counts."""
    terms = [count if k == 1.0 else k * count for k, count in zip(coefficients, counts, strict=True) if k != 0.0]
    return sum(terms[1:], terms[0]) if terms else torch.zeros_like(counts[0])
