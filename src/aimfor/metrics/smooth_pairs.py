"""Pair problems as soft ranks: the share of negatives above each positive."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ..smooth import Ranking, SmoothForm, SmoothSum, asked_items, balanced_entropy
from ..sorted import PairForm, PairProblem
from ..sorted.kernels import top_fraction


def pair_ranking(form: PairForm) -> SmoothForm:
    """``1 − Σ scale · (mean over pairs of the soft misordering)``, on the scale of the problems that are defined."""
    if len(form.problems) == 1:
        (problem,) = form.problems
        return _ranking(problem, problem.scale * problem.count)
    return SmoothSum(form.scores, tuple((one.scale * one.count, _ranking(one, 1.0)) for one in form.problems))


def balanced_rows(form: PairForm) -> Ranking:
    """The same for problems side by side, with the rows' balanced logistic loss for the anchor instead of pairs."""
    (problem,) = form.problems
    ranking = _ranking(problem, problem.scale * problem.count)
    positive = ranking.counted * ranking.grades
    anchor = partial(balanced_entropy, positive=positive, negative=ranking.counted - positive)
    return replace(ranking, companion=anchor)


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
