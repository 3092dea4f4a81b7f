"""Twenty-one awkward programs, each against HiGHS in value or status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import aimfor
from aimfor.lp import solve

Program = dict[str, Any]
RNG = np.random.default_rng


def assignment(n: int) -> Program:
    eye, ones = np.eye(n), np.ones((1, n))
    rows = np.concatenate((np.kron(eye, ones), np.kron(ones, eye)))
    return {"c": RNG(n).random(n * n), "A_eq": rows, "b_eq": np.ones(2 * n), "lower": 0.0}


def transport(n: int, m: int) -> Program:
    rng = RNG(n * m)
    rows = np.concatenate((np.kron(np.eye(n), np.ones((1, m))), np.kron(np.ones((1, n)), np.eye(m))))
    supply, demand = rng.random(n) + 0.1, rng.random(m) + 0.1
    rhs = np.concatenate((supply / supply.sum(), demand / demand.sum()))
    return {"c": rng.random(n * m), "A_eq": rows, "b_eq": rhs, "lower": 0.0}


def quantile(level: float) -> Program:
    """``min Σ level u + (1 − level) w`` with ``X β + u − w = y``, β free."""
    rng, n = RNG(3), 30
    x, y = np.column_stack((np.ones(n), rng.normal(size=(n, 2)))), rng.normal(size=n)
    rows = np.concatenate((x, np.eye(n), -np.eye(n)), 1)
    cost = np.concatenate((np.zeros(3), np.full(n, level), np.full(n, 1 - level)))
    return {"c": cost, "A_eq": rows, "b_eq": y, "lower": np.concatenate((np.full(3, -np.inf), np.zeros(2 * n)))}


def cvar() -> Program:
    """Rockafellar and Uryasev: ``min t + Σ u / (α n)`` with ``u >= −r·x − t``, shares x, t free."""
    rng, n, k, alpha = RNG(4), 40, 5, 0.1
    returns = rng.normal(0.01, 0.05, (n, k))
    cost = np.concatenate((np.zeros(k), [1.0], np.full(n, 1 / (alpha * n))))
    rows = np.concatenate((-returns, -np.ones((n, 1)), -np.eye(n)), 1)
    lower = np.concatenate((np.zeros(k), [-np.inf], np.zeros(n)))
    one = np.concatenate((np.ones(k), np.zeros(n + 1)))[None]
    return {"c": cost, "A": rows, "b": np.zeros(n), "A_eq": one, "b_eq": np.ones(1), "lower": lower}


def klee_minty(n: int) -> Program:
    rows = np.array([[2.0 ** (i - j + 1) if j < i else float(i == j) for j in range(n)] for i in range(n)])
    return {"c": -(2.0 ** np.arange(n - 1, -1, -1)), "A": rows, "b": 5.0 ** np.arange(1, n + 1), "lower": 0.0}


def plain(seed: int = 0, m: int = 8, v: int = 5) -> Program:
    rng = RNG(seed)
    rows = rng.normal(size=(m, v))
    return {"c": rng.normal(size=v), "A": rows, "b": rng.random(m) + 0.1, "lower": -3.0, "upper": 3.0}


def repeated() -> Program:
    p = plain(1)
    return p | {name: np.concatenate((p[name], p[name], p[name][:2] * 3)) for name in ("A", "b")}


def dependent() -> Program:
    p = plain(2, 4, 7)
    rows = np.concatenate((p["A"][:2], p["A"][:1] + p["A"][1:2]))
    return {"c": p["c"], "A_eq": rows, "b_eq": rows @ np.full(7, 0.2), "lower": -1.0, "upper": 1.0}


def sizes(row: float, column: float) -> Program:
    p = plain(3)
    r, c = row ** np.linspace(-1, 1, 8), column ** np.linspace(-1, 1, 5)
    box = {"lower": -3.0 / c, "upper": 3.0 / c}
    return {"c": p["c"] * c, "A": p["A"] * r[:, None] * c, "b": p["b"] * r, **box}


def fixed(all_of_them: bool) -> Program:
    p = plain(4)
    lower, upper = np.full(5, -3.0), np.full(5, 3.0)
    lower[: 5 if all_of_them else 2] = upper[: 5 if all_of_them else 2] = 0.01
    return p | {"lower": lower, "upper": upper}


AWKWARD: dict[str, Callable[[], Program]] = {
    "assignment, 5 × 5": lambda: assignment(5),
    "assignment, 12 × 12": lambda: assignment(12),
    "transport, 4 × 6": lambda: transport(4, 6),
    "transport, 15 × 15": lambda: transport(15, 15),
    "median regression": lambda: quantile(0.5),
    "regression of a ninth decile": lambda: quantile(0.9),
    "conditional value at risk": cvar,
    "Klee and Minty, 4": lambda: klee_minty(4),
    "Klee and Minty, 8": lambda: klee_minty(8),
    "duplicate rows": repeated,
    "dependent equalities": dependent,
    "rows of sizes 1e-8 to 1e8": lambda: sizes(1e8, 1.0),
    "columns of sizes 1e-8 to 1e8": lambda: sizes(1.0, 1e8),
    "fixed variables": lambda: fixed(all_of_them=False),
    "nothing but fixed variables": lambda: fixed(all_of_them=True),
    "no cost": lambda: plain(5) | {"c": np.zeros(5)},
    "a row of zeros": lambda: plain(6) | {"A": np.vstack((plain(6)["A"][:-1], np.zeros(5)))},
    "infeasible rows": lambda: plain(7) | {"A": np.array([[1.0] * 5, [-1.0] * 5]), "b": np.array([-1.0, -1])},
    "infeasible by bounds": lambda: plain(8) | {"A": np.ones((1, 5)), "b": np.array([-16.0])},
    "unbounded": lambda: plain(9) | {"c": np.full(5, -1.0), "A": -np.ones((1, 5)), "b": np.ones(1), "upper": np.inf},
    "unbounded, free variables": lambda: {"c": np.array([1.0, 0]), "A": np.array([[0.0, 1]]), "b": np.ones(1)},
}


def by_highs(p: Program) -> Any:
    v = len(p["c"])
    ends = (("lower", -np.inf), ("upper", np.inf))
    bounds = np.stack([np.broadcast_to(p.get(name, end), v) for name, end in ends], 1)
    return linprog(p["c"], p.get("A"), p.get("b"), p.get("A_eq"), p.get("b_eq"), bounds, method="highs")


@pytest.mark.parametrize("name", AWKWARD)
def test_an_awkward_program_ends_as_highs_ends_it(name: str) -> None:
    p = AWKWARD[name]()
    theirs = by_highs(p)
    parts = {key: torch.as_tensor(part) if isinstance(part, np.ndarray) else part for key, part in p.items()}
    ours = solve(**parts, on_failure="status")
    expected = {0: aimfor.Status.ok, 2: aimfor.Status.infeasible, 3: aimfor.Status.unbounded}[theirs.status]
    assert ours.status is expected
    if theirs.status == 0:
        assert ours.value.item() == pytest.approx(theirs.fun, rel=1e-7, abs=1e-9)


def test_there_are_twenty_one() -> None:
    assert len(AWKWARD) == 21
