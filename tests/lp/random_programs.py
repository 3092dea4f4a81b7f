"""Random programs with known properties, and HiGHS as the second opinion."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

Parts = dict[str, Tensor]


def feasible_bounded(
    items: int,
    m: int,
    v: int,
    seed: int,
    *,
    equalities: int = 0,
    bounds: bool = False,
    degenerate: bool = False,
    density: float = 1.0,
) -> Parts:
    """Primal and dual feasible by construction. Degenerate: far more than v rows meet at one optimal point, some of
    them repeated, and the equalities contain a dependent row."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=g, dtype=torch.float64)

    A, x = normal(items, m, v), normal(items, v)
    if density < 1.0:
        A = A * (uniform(items, m, v) < density)
    slack = uniform(items, m)
    dual = uniform(items, m)
    if degenerate:
        tight = min(m // 2, 2 * v)
        A[:, 1] = A[:, 0]
        slack[:, :tight], dual[:, tight:] = 0.0, 0.0
        dual[:, : tight // 2] = 0.0
    b = (A @ x[:, :, None])[:, :, 0] + slack
    c = -(A.mT @ dual[:, :, None])[:, :, 0]
    parts = {"c": c, "A": A, "b": b}
    if equalities:
        E = normal(items, equalities, v)
        if degenerate:
            E[:, -1] = E[:, 0] * 2
        parts["A_eq"], parts["b_eq"] = E, (E @ x[:, :, None])[:, :, 0]
        parts["c"] = c - (E.mT @ normal(items, equalities, 1))[:, :, 0]
    if bounds:
        parts["lower"] = torch.where(uniform(v) < 0.7, x - uniform(items, v), -torch.inf)
        parts["upper"] = torch.where(uniform(v) < 0.7, x + uniform(items, v), torch.inf)
        if degenerate:
            parts["lower"][:, 0] = parts["upper"][:, 0] = x[:, 0]
    return parts


def infeasible(items: int, m: int, v: int, seed: int) -> Parts:
    """Rows that sum, with random weights, to 0·x <= −1."""
    parts = feasible_bounded(items, m, v, seed, bounds=bool(seed % 2), equalities=3 * (seed % 3))
    g = torch.Generator().manual_seed(seed)
    weights = torch.rand(items, m - 1, generator=g, dtype=torch.float64)
    parts["A"][:, -1] = -(parts["A"][:, :-1].mT @ weights[:, :, None])[:, :, 0]
    parts["b"][:, -1] = -(parts["b"][:, :-1] * weights).sum(1) - 1.0
    return parts


def unbounded(items: int, m: int, v: int, seed: int) -> Parts:
    """A known direction lies in the recession cone, and the cost falls along it."""
    parts = feasible_bounded(items, m, v, seed, equalities=3 * (seed % 3))
    g = torch.Generator().manual_seed(seed)
    ray = torch.randn(items, v, generator=g, dtype=torch.float64)
    along = (parts["A"] @ ray[:, :, None])[:, :, 0]
    parts["A"] = parts["A"] * -torch.where(along > 0, 1.0, -1.0)[:, :, None]
    x = torch.randn(items, v, generator=g, dtype=torch.float64)
    parts["b"] = (parts["A"] @ x[:, :, None])[:, :, 0] + torch.rand(items, m, generator=g, dtype=torch.float64)
    if "A_eq" in parts:
        E = parts["A_eq"]
        E = E - (E @ ray[:, :, None]) * ray[:, None, :] / ray.square().sum(1)[:, None, None]
        parts["A_eq"], parts["b_eq"] = E, (E @ x[:, :, None])[:, :, 0]
    parts["c"] = parts["c"] - ray * ((parts["c"] * ray).sum(1, keepdim=True) / ray.square().sum(1, keepdim=True) + 1)
    return parts


def item(parts: Parts, i: int) -> Parts:
    return {name: part[i] for name, part in parts.items()}


def highs(parts: Parts) -> Any:
    """scipy's answer for one program."""
    a = {name: part.detach().double().numpy() for name, part in parts.items()}
    v = len(a["c"])
    lower, upper = a.get("lower", np.full(v, -np.inf)), a.get("upper", np.full(v, np.inf))
    return linprog(
        a["c"], a.get("A"), a.get("b"), a.get("A_eq"), a.get("b_eq"), np.stack((lower, upper), 1), method="highs"
    )
