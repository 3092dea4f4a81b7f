"""Ratios of confusion counts as linear programs (Charnes and Cooper), and their bounds from scores.

A metric ``r = (a₀ + a₁ tp + a₂ fp) / (c₀ + c₁ tp + c₂ fp)`` that rises with tp and falls with fp (missed positives and
true negatives are the rest of their class) is bounded below through

    tp >= Σ_P min(1, f_i / m),        fp <= Σ_N max(0, 1 + f_j / m),

with f the scores above the threshold and m the margin. Multiplied by t = 1/denominator the bound is a linear program:

    max  a₀ t + a₁ Σ u + a₂ Σ v
    s.t. u_i <= t,  u_i <= κ f_i + s,        v_j >= 0,  v_j >= t + κ f_j + s,        c₀ t + c₁ Σ u + c₂ Σ v = 1

With κ = t/m, s = 0 it is the bound at the threshold (``"zero"``), whose value is the ratio itself at the two sums; with
κ >= 0 and s free it is the best bound over all thresholds and scales (``"free"``). For F_β this is the program of Eban
et al. and of Ravi's problem 2 in another normalisation: there Σ τ = 1 and the bound is (1 + β²)/(1 + V).

References:
    Charnes, Cooper, Programming with linear fractional functionals, 1962.
    Eban et al., Scalable learning of non-decomposable objectives, 2017.
    Ravi et al., Optimizing nondecomposable data dependent regularizers via Lagrangian reparameterization, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .engine import LPForm, LPTask
from .public import LPSolution, solve
from .solvers.highs import available

Line = tuple[float, float, float]

#: Programs with more examples than this are built sparse (where scipy can factorise them).
DENSE_LIMIT = 100


@dataclass(frozen=True)
class RatioProblem:
    """A ratio of lines in (tp, fp) on a batch.

    Attributes:
        high: Scores of the positives above the threshold, ``(p,)``, attached.
        low: Scores of the negatives, ``(q,)``, attached.
        high_mass, low_mass: Their weights, all positive.
        numerator, denominator: ``(a₀, a₁, a₂)`` and ``(c₀, c₁, c₂)``.

    Example:
        >>> import torch
        >>> ones = torch.ones(2)
        >>> f1 = RatioProblem(torch.tensor([2.0, 0.5]), torch.tensor([-0.5, -1.0]), ones, ones, (0, 2, 0), (2, 1, 1))
        >>> f1.ratio(tp=2, fp=0), f1.ratio(tp=1, fp=1)
        (1.0, 0.5)
    """

    high: Tensor
    low: Tensor
    high_mass: Tensor
    low_mass: Tensor
    numerator: Line
    denominator: Line

    def ratio(self, tp: Any, fp: Any) -> Any:
        a, c = self.numerator, self.denominator
        return (a[0] + a[1] * tp + a[2] * fp) / (c[0] + c[1] * tp + c[2] * fp)


def check_monotone(problem: RatioProblem) -> None:
    """The bound holds only for a ratio that rises with tp and falls with fp, over all counts the batch allows."""
    (a0, a1, a2), (c0, c1, c2) = problem.numerator, problem.denominator
    positives, negatives = float(problem.high_mass.sum()), float(problem.low_mass.sum())
    rising = all(a1 * (c0 + c2 * fp) - c1 * (a0 + a2 * fp) >= -1e-9 for fp in (0.0, negatives))
    falling = all(a2 * (c0 + c1 * tp) - c2 * (a0 + a1 * tp) <= 1e-9 for tp in (0.0, positives))
    if not (rising and falling):
        raise InputError(
            "metric",
            "a ratio that does not rise with true positives and fall with false positives",
            "one that does, such as F_β, IoU or accuracy",
            "Swap the classes, or train it with the direct engine, which takes any function of the counts.",
        )


def ratio_form(problem: RatioProblem, scores: Tensor, margin: float, threshold: str) -> LPForm:
    """One minus the bound, as a form of the engine.

    Example:
        >>> import torch
        >>> high, low, ones = torch.tensor([2.0, 0.5]), torch.tensor([-0.5, -1.0]), torch.ones(2)
        >>> f1 = RatioProblem(high, low, ones, ones, (0.0, 2.0, 0.0), (2.0, 1.0, 1.0))
        >>> form = ratio_form(f1, torch.cat((high, low)), margin=1.0, threshold="zero")
        >>> form.closed().item()  # 1 − 2 · 1.5 / (2 + 1.5 + 0.5)
        0.25
    """
    (c0, _, _), mass = problem.denominator, float(problem.high_mass.sum() + problem.low_mass.sum())
    defined = mass > 0 and (c0 > 0 or problem.high.numel() > 0)
    if defined:
        check_monotone(problem)
    hopeless = threshold == "zero" and bool(_true_positives(problem, margin).detach() <= 0)
    closed = _beyond if hopeless else _closed

    def tasks() -> tuple[LPTask, ...]:
        if hopeless:
            # Every feasible point has t = 0: the bound is the trivial one, and only the closed form has a gradient.
            unit = problem.high.new_ones(1)
            trivial = {"c": unit * 0.0, "A": unit[None], "b": unit}
            return (LPTask(trivial, lambda value: _beyond(problem, margin).to(value.dtype) + 0.0 * value),)
        arguments = ratio_program(problem, margin, threshold)
        return (LPTask(arguments, lambda value: 1.0 + value),)

    return LPForm(
        scores,
        tasks,
        (lambda: closed(problem, margin).to(scores.dtype)) if threshold == "zero" else None,
        defined,
    )


def _true_positives(problem: RatioProblem, margin: float) -> Tensor:
    return (problem.high_mass * (problem.high / margin).clamp_max(1.0)).sum()


def _false_positives(problem: RatioProblem, margin: float) -> Tensor:
    return (problem.low_mass * (1.0 + problem.low / margin).clamp_min(0.0)).sum()


def _closed(problem: RatioProblem, margin: float) -> Tensor:
    loss: Tensor = 1.0 - problem.ratio(_true_positives(problem, margin), _false_positives(problem, margin))
    return loss


def _beyond(problem: RatioProblem, margin: float) -> Tensor:
    """Where the bound on tp is not positive, some bounds on the metric are trivial, with gradient zero (F_β, IoU).

    A model must be able to leave that region, so the loss goes on from ``1 − r(0, fp)`` along a straight line in tp.
    Its slope is the ratio's own where every negative is a false positive: a number that does not fall with fp, or more
    false positives would make the line flatter and the loss smaller.
    """
    tp, fp = _true_positives(problem, margin), _false_positives(problem, margin)
    (a0, a1, a2), (c0, c1, c2) = problem.numerator, problem.denominator
    negatives = float(problem.low_mass.sum())
    below = c0 + c2 * negatives
    slope = (a1 * below - c1 * (a0 + a2 * negatives)) / below**2 if below > 0 else 0.0
    trivial = (a0 + a2 * fp) / (c0 + c2 * fp).clamp_min(torch.finfo(tp.dtype).tiny)
    return 1.0 - trivial - slope * tp


def ratio_program(problem: RatioProblem, margin: float, threshold: str) -> dict[str, Any]:
    """Arguments of `solve` for the *negated* bound. Variables: u (p), v (q), t, and κ, s when the threshold is free."""
    f, g = problem.high.double() / margin, problem.low.double() / margin
    p, q, free = f.numel(), g.numel(), threshold == "free"
    t, v = p + q, p + q + (3 if free else 1)
    i, j = torch.arange(p, device=f.device), torch.arange(q, device=f.device)
    one_p, one_q = torch.ones_like(f), torch.ones_like(g)
    if free:  # u_i − t <= 0,  u_i − κ f_i − s <= 0,  t + κ f_j + s − v_j <= 0
        columns = [i, i * 0 + t, i, i * 0 + t + 1, i * 0 + t + 2, j * 0 + t, j * 0 + t + 1, j * 0 + t + 2, j + p]
        rows = [i, i, i + p, i + p, i + p, *(j + 2 * p for _ in range(4))]
        values = [one_p, -one_p, one_p, -f, -one_p, one_q, g, one_q, -one_q]
    else:  # u_i − t <= 0,  u_i − f_i t <= 0,  (1 + f_j) t − v_j <= 0
        columns = [i, i * 0 + t, i, i * 0 + t, j * 0 + t, j + p]
        rows = [i, i, i + p, i + p, j + 2 * p, j + 2 * p]
        values = [one_p, -one_p, one_p, -f, 1.0 + g, -one_q]
    (a0, a1, a2), (c0, c1, c2) = problem.numerator, problem.denominator
    a, b = problem.high_mass.double(), problem.low_mass.double()
    rest = f.new_zeros(v - t - 1)
    cost = torch.cat((-a1 * a, -a2 * b, f.new_full((1,), -a0), rest))
    equality = torch.cat((c1 * a, c2 * b, f.new_full((1,), c0), rest))
    lower = torch.full_like(cost, -torch.inf)
    lower[p : t + 1 + free] = 0.0  # v, t and κ
    return {
        "c": cost,
        "A": _matrix(torch.cat(rows), torch.cat(columns), torch.cat(values), (2 * p + q, v), p + q > DENSE_LIMIT),
        "b": f.new_zeros(2 * p + q),
        "A_eq": equality[None],
        "b_eq": f.new_ones(1),
        "lower": lower,
    }


def _matrix(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int], sparse: bool) -> Tensor:
    if not (sparse and available()):
        return values.new_zeros(shape).index_put((rows, columns), values)
    order = (rows * shape[1] + columns).argsort()
    crow = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    crow[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
    return torch.sparse_csr_tensor(crow, columns[order], values[order], shape, check_invariants=False)


def best_threshold(
    scores: Tensor, positive: Tensor, numerator: Line, denominator: Line, weights: Tensor | None = None
) -> LPSolution:
    """The largest ratio over all thresholds, as a program: decisions h, ``0 <= h <= 1``, ordered by score.

    ``max (a₀ + a₁ tp(h) + a₂ fp(h)) / (c₀ + c₁ tp(h) + c₂ fp(h))`` with ``u = t h`` and a chain ``u₁ >= u₂ >= …`` down
    the distinct scores. Its vertices are thresholds, so ``−value`` is the exact best-threshold metric. It depends on
    the order of the scores alone: its gradient w.r.t. them is zero, which makes it a metric, not a loss.

    Args:
        scores: ``(n,)``.
        positive: ``(n,)`` bool.
        numerator, denominator: Lines in (1, tp, fp).
        weights: ``(n,)`` or None.

    Returns:
        The solution; its last variable is t, and ``x[:-1] / x[-1]`` the decision for each distinct score, descending.

    Example:
        >>> import torch, aimfor
        >>> f1 = ((0.0, 2.0, 0.0), (2.0, 1.0, 1.0))  # two positives
        >>> s = aimfor.lp.best_threshold(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]), *f1)
        >>> round(-s.value.item(), 6), (s.x[:-1] / s.x[-1]).round().tolist()
        (0.8, [1.0, 1.0, 1.0])
    """
    mass = torch.ones_like(scores, dtype=torch.float64) if weights is None else weights.double()
    distinct, index = (-scores.detach()).unique(return_inverse=True)
    k = distinct.numel()
    tp = torch.zeros(k, dtype=torch.float64, device=scores.device).index_add_(0, index, mass * positive)
    fp = torch.zeros_like(tp).index_add_(0, index, mass * ~positive)
    (a0, a1, a2), (c0, c1, c2) = numerator, denominator
    rows = torch.zeros(k, k + 1, dtype=torch.float64, device=scores.device)
    diagonal = torch.arange(k, device=scores.device)
    rows[diagonal, diagonal] = 1.0
    rows[diagonal, (diagonal - 1) % (k + 1)] = -1.0  # for the first, −1 is the last column: t
    return solve(
        torch.cat((-a1 * tp - a2 * fp, tp.new_full((1,), -a0))),
        rows,
        tp.new_zeros(k),
        A_eq=torch.cat((c1 * tp + c2 * fp, tp.new_full((1,), c0)))[None],
        b_eq=tp.new_ones(1),
        lower=0.0,
    )
