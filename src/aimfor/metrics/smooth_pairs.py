"""Pair problems as soft ranks: the share of negatives above each positive."""

from __future__ import annotations

import torch
from torch import Tensor

from ..smooth import Ranking, SmoothForm, SmoothSum, asked_items
from ..sorted import PairForm, PairProblem
from ..sorted.kernels import top_fraction


def pair_ranking(form: PairForm) -> SmoothForm:
    """``1 − Σ scale · (mean over pairs of the soft misordering)``, on the scale of the problems that are defined."""
    if len(form.problems) == 1:
        (problem,) = form.problems
        return _ranking(problem, problem.scale * problem.count)
    return SmoothSum(form.scores, tuple((one.scale * one.count, _ranking(one, 1.0)) for one in form.problems))


def _ranking(problem: PairProblem, scale: float) -> Ranking:
    scores, positive = (part.reshape(problem.count, -1) for part in (problem.scores, problem.positive))
    mass = torch.ones_like(scores) if problem.weights is None else problem.weights.reshape(scores.shape)
    mass = mass.detach().double()
    a = mass * positive
    b = mass - a
    if problem.top < 1.0 and b.numel():
        b = top_fraction(scores.detach().double()[0], b[0], problem.top)[None]
    asked = asked_items(a > 0)
    own, pairs = asked.take(a), a.sum(1) * b.sum(1)

    def measure(above: Tensor, relative: Tensor) -> Tensor:
        misordered = (own * above[0]).sum(1) / pairs
        return 1.0 - scale * torch.where(pairs > 0, misordered, torch.nan).nanmean()

    return Ranking(scores, asked, (b,), measure, a > 0, a + b)
