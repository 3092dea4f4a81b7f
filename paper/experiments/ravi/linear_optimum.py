"""Ravi's problem (2) on a linear model, solved as the linear program it is: the oracle of the engine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aimfor import checks
from aimfor.errors import InputError, SolverError


@dataclass(frozen=True)
class LinearOptimum:
    """The optimum in the engine's units: scores, τ and ε times the number n of positives; λ and μ as they are.

    Attributes:
        value: V, the program's value; by strong duality also −μ.
        bound: (1 + β²)/(1 + V).
        weights: ``(d,)``; the optimal scores are ``features @ weights``.
        tau: ``(n,)``, n·τ.
        epsilon: n·ε.
        lam: ``(n,)``, the multipliers of τ_i ≤ f_i.
        mu: The multiplier of Στ = 1.
    """

    value: float
    bound: float
    weights: Tensor
    tau: Tensor
    epsilon: float
    lam: Tensor
    mu: float


def linear_optimum(features: Tensor, positive: Tensor, beta: float = 1.0) -> LinearOptimum:
    """The best linear scorer for the F_β bound, by HiGHS; meant for hundreds of examples, not for training.

    ``min β²e + (1/n) Σ_neg φ_j  s.t.  t_i ≤ e, t_i ≤ w·x_i, φ_j ≥ e + w·x_j, φ_j ≥ 0, mean t = 1, e ≥ 0``.

    Args:
        features: ``(m, d)``; add a column of ones for a bias.
        positive: ``(m,)`` bool, with both classes.
        beta: > 0.

    Raises:
        InputError: Wrong shapes, or one class only.
        SolverError: scipy is not installed, or HiGHS fails (the program is feasible only if some w scores
            a positive above 0 on balance).

    Example:
        >>> import torch
        >>> best = linear_optimum(torch.tensor([[1.0, 1.0], [2.0, 1.0], [-1.0, 1.0]]), torch.tensor([1, 1, 0]).bool())
        >>> round(best.bound, 6), round(best.value + best.mu, 6)
        (1.0, 0.0)
    """
    square = checks.number("beta", beta, above=0) ** 2
    if features.ndim != 2 or positive.shape != features.shape[:1] or positive.dtype != torch.bool:
        raise InputError("features", f"shape {tuple(features.shape)}", "(m, d), with (m,) bool labels")
    if bool(positive.all()) or not bool(positive.any()):
        raise InputError("positive", "one class only", "both classes")
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise SolverError("linear_optimum needs scipy (HiGHS): pip install scipy") from None
    p, q = features[positive].double(), features[~positive].double()
    n, m, d = len(p), len(q), features.shape[1]
    zeros = p.new_zeros
    one_each, cost = torch.eye(n, dtype=p.dtype), torch.cat((zeros(d), p.new_tensor([square]), zeros(n)))
    rows = torch.cat(
        (
            torch.cat((-p, zeros(n, 1), one_each, zeros(n, m)), 1),
            torch.cat((zeros(n, d), p.new_full((n, 1), -1.0), one_each, zeros(n, m)), 1),
            torch.cat((q, p.new_ones(m, 1), zeros(m, n), -torch.eye(m, dtype=p.dtype)), 1),
        )
    )
    solved = linprog(
        torch.cat((cost, p.new_full((m,), 1.0 / n))).numpy(),
        A_ub=rows.numpy(),
        b_ub=zeros(len(rows)).numpy(),
        A_eq=torch.cat((zeros(d + 1), p.new_full((n,), 1.0 / n), zeros(m)))[None].numpy(),
        b_eq=[1.0],
        bounds=[(None, None)] * d + [(0, None)] + [(None, None)] * n + [(0, None)] * m,
        method="highs",
    )
    if solved.status != 0 or solved.fun is None:
        raise SolverError(f"HiGHS: {solved.message}")
    x = torch.from_numpy(solved.x)
    return LinearOptimum(
        float(solved.fun),
        (1.0 + square) / (1.0 + float(solved.fun)),
        x[:d],
        x[d + 1 : d + 1 + n],
        float(x[d]),
        -n * torch.from_numpy(solved.ineqlin.marginals[:n].copy()),
        -float(solved.eqlin.marginals[0]),
    )
