"""The paper's Fig. 3 (b, c) and Table 3: black-box solvers, reduction against accuracy; memory of large programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import median_seconds, peak_extra_megabytes, record
from torch import Tensor

from aimfor.lp import (
    ActiveSet,
    BlackBox,
    Envelope,
    Implicit,
    Oracle,
    PairRows,
    PenaltyNewton,
    Perturbed,
    Sketch,
    solve,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "lp"))
from random_programs import feasible_bounded, highs, item

COMMAND = "python paper/benchmarks/bench_lp_large.py"
BOX, NOISE = BlackBox(10.0), Perturbed(10, 0.1)


def auc_batch(items: int, p: int = 6, q: int = 8, d: int = 4) -> dict[str, Tensor]:
    """AUC programs over (w, z) with a cost vector of their own each, as in the paper's timing."""
    g = torch.Generator().manual_seed(0)
    rows = torch.stack(
        [PairRows(torch.randn(p + q, d, generator=g, dtype=torch.float64), p).dense() for _ in range(items)]
    )
    pairs = p * q
    c = torch.cat((0.1 * torch.randn(items, d, generator=g), 1 + torch.rand(items, pairs, generator=g)), 1).double()
    lower = torch.cat((-torch.ones(d), torch.zeros(pairs))).double().expand(items, -1)
    upper = torch.cat((torch.ones(d), torch.full((pairs,), 50.0))).double().expand(items, -1)
    return {"c": c, "A": rows, "b": -torch.ones(items, pairs).double(), "lower": lower, "upper": upper}


def by_scipy(p: dict[str, Tensor], c: Tensor) -> Tensor:
    return torch.stack([torch.as_tensor(highs(item({**p, "c": c}, i)).x) for i in range(len(c))])


def on_scipy(p: dict[str, Tensor], rule: BlackBox | Perturbed) -> Oracle:
    """The rule around scipy's HiGHS: a function from costs, some copies of the batch, to solutions."""
    items = len(p["c"])
    return Oracle(lambda c: torch.cat([by_scipy(p, part) for part in c.split(items)]), rule, batched=True)


def backward(x: Tensor, *leaves: Tensor) -> Callable[[], Any]:
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return lambda: torch.autograd.grad(x, leaves, g, retain_graph=True)


def against_black_box() -> list[dict[str, Any]]:
    """Fig. 3 (b): time against batch size, forward and backward apart."""
    rows = []
    for items in (1, 8, 32, 128):
        p = auc_batch(items)
        c, box = p["c"].clone().requires_grad_(), on_scipy(p, BOX)
        seconds = median_seconds(
            {
                "ours, forward": lambda p=p: solve(**p),
                "ours, backward (implicit)": backward(solve(**{**p, "c": c}, gradient=Implicit()).x, c),
                "BlackBox on our solver, backward": backward(solve(**{**p, "c": c}, gradient=BOX).x, c),
                "black box on scipy, forward": lambda box=box, c=c: box(c),
                "black box, backward": backward(box(c), c),
            },
            repeats=5,
            warmup=1,
        )
        forward, implicit, mine, *theirs = seconds.values()
        row = {"batch": items} | {f"{name}, ms": f"{1e3 * spent:.1f}" for name, spent in seconds.items()}
        row["black box / ours, both passes"] = f"{sum(theirs) / (forward + implicit):.1f}"
        row["black box on scipy / on our solver, both passes"] = f"{sum(theirs) / (forward + mine):.1f}"
        rows.append(row)
    return rows


def properties(items: int = 16) -> list[dict[str, Any]]:
    """Table 3: which gradients, and what backward costs when forward costs 1; `Perturbed` solves in forward alone."""
    fixed = auc_batch(items)
    p = {k: part.clone().requires_grad_() for k, part in fixed.items()}
    leaves, c = tuple(p.values()), p["c"]
    learned = {**fixed, "c": c}
    seconds = median_seconds(
        {
            "forward": lambda: solve(**fixed),
            "scipy": lambda: by_scipy(fixed, fixed["c"]),
            "envelope": backward(solve(**p, gradient=Envelope()).value, *leaves),
            "active set": backward(solve(**p, gradient=ActiveSet()).x, *leaves),
            "implicit": backward(solve(**p, gradient=Implicit()).x, *leaves),
            "box": backward(solve(**learned, gradient=BOX).x, c),
            "box on scipy": backward(on_scipy(fixed, BOX)(c), c),
            "perturbed": lambda: backward(solve(**learned, gradient=NOISE).x, c)(),
            "perturbed on scipy": lambda: backward(on_scipy(fixed, NOISE)(c), c)(),
        },
        repeats=5,
        warmup=1,
    )
    everything, forward, scipy = "c, A, b, A_eq, b_eq, bounds", seconds["forward"], seconds["scipy"]
    rows = [
        ("aimfor, envelope", f"value: {everything}", seconds["envelope"] / forward),
        ("aimfor, active set", f"x: {everything}", seconds["active set"] / forward),
        ("aimfor, implicit", f"x: {everything}", seconds["implicit"] / forward),
        ("BlackBox on our solver (Pogančić)", "x: c", seconds["box"] / forward),
        ("BlackBox on scipy", "x: c", seconds["box on scipy"] / scipy),
        ("Perturbed, N = 10, on our solver (Berthet)", "x: c", seconds["perturbed"] / forward - 1.0),
        ("Perturbed, N = 10, on scipy", "x: c", seconds["perturbed on scipy"] / scipy - 1.0),
    ]
    return [{"method": a, "gradients": b, "backward, forward = 1": f"{cost:.2f}"} for a, b, cost in rows]


def reduction(m: int = 1000, v: int = 30, items: int = 5) -> list[dict[str, Any]]:
    """Fig. 3 (c): rows kept against accuracy, for a reduced program and for a reduced Hessian."""
    p = feasible_bounded(items, m, v, seed=3)
    box = {"lower": -20.0, "upper": 20.0}  # a program that lost rows may be unbounded without
    exact = solve(**p, **box)
    rows = []
    for size in (100, 250, 500, 750):
        row: dict[str, Any] = {"rows kept": f"{size} of {m}"}
        for kind in ("rows", "count", "leverage"):
            errors = []
            for i in range(items):
                A, b = Sketch(kind, size, seed=i).reduce(p["A"][i], p["b"][i])
                value = solve(p["c"][i], A, b, **box).value
                errors.append(float((value - exact.value[i]).abs() / exact.value[i].abs().clamp_min(1.0)))
            row[f"value error, reduced program, {kind}"] = f"{sorted(errors)[len(errors) // 2]:.1e}"
        sketched = solve(**p, **box, method=PenaltyNewton(sketch=Sketch("leverage", size)))
        row["value error, reduced Hessian"] = f"{float((sketched.value - exact.value).abs().max()):.1e}"
        row["its Newton steps"] = int(sketched.iterations.double().median())
        rows.append(row)
    return rows


SETUP = """
import torch, warnings
warnings.filterwarnings("ignore")
from aimfor.lp import PairRows, solve
p = q = 100; d = 10
g = torch.Generator().manual_seed(0)
x = torch.randn(p + q, d, generator=g, dtype=torch.float64); x[:p] += 0.3
rows = PairRows(x, p)
c = torch.cat((torch.zeros(d), torch.full((p * q,), 1.0 / (p * q)))).double()
lower = torch.cat((-torch.ones(d), torch.zeros(p * q))).double()
upper = torch.cat((torch.ones(d), torch.full((p * q,), 1e3))).double()
b = -torch.ones(p * q).double()
solve(c[:3], torch.eye(3).to_sparse_csr().double(), torch.ones(3), lower=0.0)  # imports and buffers
def csr():
    gaps = (x[p:][None] - x[:p][:, None]).reshape(-1, d)
    n = p * q
    values = torch.cat((gaps, -torch.ones(n, 1).double()), 1).reshape(-1)
    columns = torch.cat((torch.arange(d).expand(n, d), d + torch.arange(n)[:, None]), 1).reshape(-1)
    return torch.sparse_csr_tensor(torch.arange(0, n * (d + 1) + 1, d + 1), columns, values, (n, n + d))
"""


def memory() -> list[dict[str, Any]]:
    """The AUC program over (w, z) with |P||N| = 10,000, d = 10."""
    solve_it = "s = solve(c, {rows}, b, lower=lower, upper=upper); assert s.status.name == 'ok', s.status"
    parts = {
        "dense, the matrix alone": "A = rows.dense()",
        "sparse CSR, solved": solve_it.format(rows="csr()"),
        "structured, solved": solve_it.format(rows="rows"),
    }
    used = {name: peak_extra_megabytes(SETUP, statement) for name, statement in parts.items()}
    dense = used["dense, the matrix alone"]
    return [
        {"rows": name, "peak extra memory, MB": f"{megabytes:.0f}", "share of dense": f"{megabytes / dense:.3f}"}
        for name, megabytes in used.items()
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    record("lp_memory", "The AUC program with 10,000 pairs: memory", COMMAND, memory())
    record("lp_blackbox", "Against a black-box solver, by batch size (Meng, Fig. 3b)", COMMAND, against_black_box())
    record("lp_reduction", "Rows kept against accuracy (Meng, Fig. 3c)", COMMAND, reduction())
    record("lp_properties", "Gradients and their cost (Meng, Table 3)", COMMAND, properties())
