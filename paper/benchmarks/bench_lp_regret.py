"""Regret of decisions by learned costs, beside PyEPO with OR-Tools' GLOP; run where highspy and both are installed.

Three problems of PyEPO's kind (400 rows to learn from, degree 6, a linear network, ten epochs): the same data, first
weights and batches on both sides. Regret is relative to the optimal costs, on 400 other rows. OR-Tools and highspy
cannot be loaded into one process: PyEPO has another, and the two take turns, seed by seed and loss by loss.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import record
from scipy import stats
from torch import Tensor

from aimfor.lp import BlackBox, LinearProgram, Oracle, Perturbed, PerturbedFenchelYoung, SPOPlus

warnings.filterwarnings("ignore")
COMMAND = "python paper/benchmarks/bench_lp_regret.py"
ROWS, EPOCHS, BATCH, FEATURES, DEGREE = 400, 10, 32, 5, 6
SAMPLES, SIGMA, STRENGTH = 3, 1.0, 10.0
SEEDS = 5
#: More where five leave an interval beyond a tenth; there PyEPO is compared with itself, too, under other noise.
MORE = {("shortest path 5 × 5", "perturbed"): 40}
OTHER = ", other noise"


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
    method = None if "--theirs" in sys.argv else "auto"  # which would load highspy
    return LinearProgram(**kept, lower=0.0, upper=1.0, on_failure="raise", method=method)


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
    import pyepo
    from ortools.linear_solver import pywraplp
    from pyepo.model.ort.ortmodel import optOrtModel

    class Glop(optOrtModel):
        """``min c·x, A x <= b, A_eq x = b_eq, 0 <= x <= 1`` as a model of PyEPO's."""

        def _getModel(self) -> tuple[Any, Any]:
            model = pywraplp.Solver.CreateSolver("GLOP")
            x = {i: model.NumVar(0, 1, f"x{i}") for i in range(parts["v"])}
            for rows, rhs, equal in (("A", "b", False), ("A_eq", "b_eq", True)):
                for row, right in zip(parts.get(rows, ()), parts.get(rhs, ()), strict=True):
                    total = sum(float(a) * x[i] for i, a in enumerate(row) if a)
                    model.Add(total == float(right) if equal else total <= float(right))
            return model, x

    model = Glop("glop")
    spo, box = pyepo.func.SPOPlus(model), pyepo.func.DBB(model, lambd=STRENGTH)
    steps: dict[str, Step] = {
        "SPO+": lambda p, c, w: spo(p, c, w, (c * w).sum(1, keepdim=True)),
        "black box": lambda p, c, w: (c * box(p)).sum(1).mean(),
    }
    for name, seed in (("", 135), (OTHER, 246)):
        noise = {"n_samples": SAMPLES, "sigma": SIGMA, "seed": seed}
        young, mean = pyepo.func.PFY(model, **noise), pyepo.func.DPO(model, **noise)
        steps["Fenchel–Young" + name] = lambda p, c, w, young=young: young(p, w)
        steps["perturbed" + name] = lambda p, c, w, mean=mean: (mean(p) - w).square().sum(1).mean()
    return steps


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
    """Mean and 95 % interval of paired ratios."""
    t = stats.t.ppf(0.975, len(ratios) - 1)
    return f"{statistics.mean(ratios):.3f} ± {t * statistics.stdev(ratios) / len(ratios) ** 0.5:.3f}"


class Side:
    """One side of the comparison: regret and CPU-seconds of an epoch by problem, seed and loss."""

    def __init__(self, losses: Callable[[dict[str, Any]], dict[str, Step]]) -> None:
        self.losses, self.prepared = losses, {}

    def run(self, name: str, seed: int, loss: str) -> tuple[float, float]:
        parts = PROBLEMS[name]()
        if (name, seed) not in self.prepared:
            x, c = data(parts, seed)
            self.prepared[name, seed] = x, c, optima(parts, c), self.losses(parts)
        x, c, w, steps = self.prepared[name, seed]
        model, span = train(steps[loss], x[:ROWS], c[:ROWS], w[:ROWS], seed)
        least = (c[ROWS:] * w[ROWS:]).sum()
        with torch.no_grad():
            cost = (c[ROWS:] * optima(parts, model(x[ROWS:]))).sum()
        return float((cost - least) / least.abs()), span


class Elsewhere:
    """A side in a process of its own, asked by a line and answering by a line."""

    def __init__(self) -> None:
        words = [sys.executable, __file__, "--theirs"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def run(self, *question: Any) -> tuple[float, float]:
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(question), file=self.process.stdin, flush=True)
        for line in self.process.stdout:  # past what PyEPO prints
            if line.startswith("["):
                return tuple(json.loads(line))
        raise RuntimeError("the process with PyEPO has ended")


def answer() -> None:
    side = Side(theirs)
    for line in sys.stdin:
        print(json.dumps(side.run(*json.loads(line))), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    if "--theirs" in sys.argv:
        answer()
        return
    rows = []
    plain = Side(lambda parts: {"": lambda p, c, w: (p - c).square().mean()})
    mine, other = Side(ours), Elsewhere()
    for name in PROBLEMS:
        for loss in ours(PROBLEMS[name]()):
            seeds = MORE.get((name, loss), SEEDS)
            errors = [plain.run(name, seed, "")[0] for seed in range(seeds)]
            pairs, itself = [], []
            for seed in range(seeds):
                pairs.append((mine.run(name, seed, loss), other.run(name, seed, loss)))
                if (name, loss) in MORE:
                    itself.append(other.run(name, seed, loss + OTHER)[0] / pairs[-1][1][0])
            rows.append(
                {
                    "problem": name,
                    "loss": loss,
                    "seeds": seeds,
                    "regret, aimfor": f"{statistics.mean(a[0] for a, _ in pairs):.4f}",
                    "regret, PyEPO": f"{statistics.mean(b[0] for _, b in pairs):.4f}",
                    "aimfor / PyEPO, paired": interval([a[0] / b[0] for a, b in pairs]),
                    "PyEPO, other noise / PyEPO": interval(itself) if itself else "–",
                    "squared error": f"{statistics.mean(errors):.4f}",
                    "epoch, aimfor / PyEPO": f"{statistics.median(a[1] / b[1] for a, b in pairs):.2f}",
                }
            )
            print(rows[-1], flush=True)
    title = "Learned costs: regret beside PyEPO (95 % intervals), and the CPU time of an epoch"
    record("lp_regret", title, COMMAND, rows)


if __name__ == "__main__":
    main()
