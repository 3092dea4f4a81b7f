"""Regret of decisions by learned costs, beside PyEPO with OR-Tools' GLOP; run where both are installed.

Three problems of PyEPO's kind (400 rows to learn from, degree 6, a linear network, ten epochs, five seeds): the same
data, first weights and batches on both sides. Regret is relative to the optimal costs, on 400 other rows.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyepo
import torch
from common import record
from ortools.linear_solver import pywraplp
from pyepo.model.ort.ortmodel import optOrtModel
from torch import Tensor

from aimfor.lp import BlackBox, LinearProgram, Oracle, Perturbed, PerturbedFenchelYoung, SPOPlus

warnings.filterwarnings("ignore")
COMMAND = "python paper/benchmarks/bench_lp_regret.py"
ROWS, EPOCHS, BATCH, FEATURES, DEGREE, SEEDS = 400, 10, 32, 5, 6, 5
SAMPLES, SIGMA, STRENGTH = 3, 1.0, 10.0


class Glop(optOrtModel):
    """``min c·x, A x <= b, A_eq x = b_eq, 0 <= x <= 1`` as a model of PyEPO's."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts
        super().__init__("glop")

    def _getModel(self) -> tuple[Any, Any]:
        model = pywraplp.Solver.CreateSolver("GLOP")
        x = {i: model.NumVar(0, 1, f"x{i}") for i in range(self.parts["v"])}
        for rows, rhs, equal in (("A", "b", False), ("A_eq", "b_eq", True)):
            for row, right in zip(self.parts.get(rows, ()), self.parts.get(rhs, ()), strict=True):
                total = sum(float(a) * x[i] for i, a in enumerate(row) if a)
                model.Add(total == float(right) if equal else total <= float(right))
        return model, x


def path(n: int = 5) -> dict[str, Any]:
    edges = [(i, i + 1) for i in range(n * n) if (i + 1) % n] + [(i, i + n) for i in range(n * n - n)]
    flow = np.zeros((n * n, len(edges)))
    for k, (tail, head) in enumerate(edges):
        flow[tail, k], flow[head, k] = 1.0, -1.0
    supply = np.zeros(n * n)
    supply[0], supply[-1] = 1.0, -1.0
    return {"v": len(edges), "A_eq": flow, "b_eq": supply, "sign": 1.0}


def knapsack(v: int = 32) -> dict[str, Any]:
    weights = np.random.default_rng(0).choice(range(300, 800), size=(2, v)) / 100
    return {"v": v, "A": weights, "b": np.full(2, 20.0), "sign": -1.0}


def portfolio(v: int = 50) -> dict[str, Any]:
    sectors = np.kron(np.eye(5), np.ones((1, v // 5)))
    return {"v": v, "A": sectors, "b": np.full(5, 0.4), "A_eq": np.ones((1, v)), "b_eq": np.ones(1), "sign": -1.0}


PROBLEMS = {"shortest path 5 × 5": path, "knapsack, 32 items": knapsack, "portfolio, 50 assets": portfolio}


def data(parts: dict[str, Any], seed: int) -> tuple[Tensor, Tensor]:
    """PyEPO's polynomial costs with multiplicative noise of a half; signed so that they are minimised."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2 * ROWS, FEATURES))
    mixing = rng.binomial(1, 0.5, size=(FEATURES, parts["v"]))
    costs = ((x @ mixing / math.sqrt(FEATURES) + 3) ** DEGREE + 1) / 3.5**DEGREE
    costs = parts["sign"] * costs * rng.uniform(0.5, 1.5, size=costs.shape)
    return torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(costs, dtype=torch.float32)


def layer(parts: dict[str, Any]) -> LinearProgram:
    kept = {name: torch.as_tensor(parts[name]) for name in ("A", "b", "A_eq", "b_eq") if name in parts}
    return LinearProgram(**kept, lower=0.0, upper=1.0, on_failure="raise")


def optima(parts: dict[str, Any], costs: Tensor) -> Tensor:
    return layer(parts)(c=costs.detach().double()).x.float()


Step = Callable[[Tensor, Tensor, Tensor], Tensor]  # predicted, true, solution → loss


def ours(parts: dict[str, Any]) -> dict[str, Step]:
    program = layer(parts)
    box, mean = Oracle(program, BlackBox(STRENGTH)), Oracle(program, Perturbed(SAMPLES, SIGMA))
    spo, young = SPOPlus(program), PerturbedFenchelYoung(program, SAMPLES, SIGMA)
    return {
        "SPO+": spo,
        "Fenchel–Young": young,
        "black box": lambda p, c, w: (c * box(p)).sum(1).mean(),
        "perturbed": lambda p, c, w: (mean(p) - w).square().sum(1).mean(),
    }


def theirs(parts: dict[str, Any]) -> dict[str, Step]:
    model = Glop(parts)
    spo, young = pyepo.func.SPOPlus(model), pyepo.func.PFY(model, n_samples=SAMPLES, sigma=SIGMA)
    box = pyepo.func.DBB(model, lambd=STRENGTH)
    mean = pyepo.func.DPO(model, n_samples=SAMPLES, sigma=SIGMA)
    return {
        "SPO+": lambda p, c, w: spo(p, c, w, (c * w).sum(1, keepdim=True)),
        "Fenchel–Young": lambda p, c, w: young(p, w),
        "black box": lambda p, c, w: (c * box(p)).sum(1).mean(),
        "perturbed": lambda p, c, w: (mean(p) - w).square().sum(1).mean(),
    }


def train(step: Step, x: Tensor, c: Tensor, w: Tensor, seed: int) -> tuple[torch.nn.Linear, float]:
    """The network and the CPU-seconds of an epoch."""
    torch.manual_seed(seed)
    model = torch.nn.Linear(FEATURES, c.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    start = time.process_time()
    for _ in range(EPOCHS):
        for rows in torch.randperm(ROWS).split(BATCH):
            optimizer.zero_grad()
            step(model(x[rows]), c[rows], w[rows]).backward()
            optimizer.step()
    return model, (time.process_time() - start) / EPOCHS


def interval(ratios: list[float]) -> str:
    """Mean and 95 % interval of paired ratios (t with four degrees of freedom)."""
    mean, half = statistics.mean(ratios), 2.776 * statistics.stdev(ratios) / len(ratios) ** 0.5
    return f"{mean:.3f} ± {half:.3f}"


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, make in PROBLEMS.items():
        parts = make()
        regrets: dict[tuple[str, str], list[float]] = {}
        seconds: dict[tuple[str, str], list[float]] = {}
        for seed in range(SEEDS):
            x, c = data(parts, seed)
            w = optima(parts, c)
            least = (c[ROWS:] * w[ROWS:]).sum()
            sides = {"aimfor": ours(parts), "PyEPO": theirs(parts)}
            sides["squared error"] = {"": lambda p, c, w: (p - c).square().mean()}
            for side, steps in sides.items():
                for loss, step in steps.items():
                    model, span = train(step, x[:ROWS], c[:ROWS], w[:ROWS], seed)
                    with torch.no_grad():
                        cost = (c[ROWS:] * optima(parts, model(x[ROWS:]))).sum()
                    regrets.setdefault((side, loss), []).append(float((cost - least) / least.abs()))
                    seconds.setdefault((side, loss), []).append(span)
        for loss in ours(parts):
            mine, other = regrets["aimfor", loss], regrets["PyEPO", loss]
            quick = statistics.median(seconds["aimfor", loss]) / statistics.median(seconds["PyEPO", loss])
            rows.append(
                {
                    "problem": name,
                    "loss": loss,
                    "regret, aimfor": f"{statistics.mean(mine):.4f}",
                    "regret, PyEPO": f"{statistics.mean(other):.4f}",
                    "aimfor / PyEPO, paired": interval([a / b for a, b in zip(mine, other, strict=True)]),
                    "squared error": f"{statistics.mean(regrets['squared error', '']):.4f}",
                    "epoch, aimfor / PyEPO": f"{quick:.2f}",
                }
            )
            print(rows[-1], flush=True)
    title = "Learned costs: regret beside PyEPO, five seeds (95 % intervals), and the time of an epoch"
    record("lp_regret", title, COMMAND, rows)


if __name__ == "__main__":
    main()
