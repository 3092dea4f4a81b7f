"""A batch of linear programs, forward and backward, against its peers; run where the peers are installed.

Every method gets the same programs, and its gradient of g·x w.r.t. b is compared with the exact one (active rows found
by HiGHS, one dense solve). A peer that is not installed is left out of the table.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import median_seconds, record
from torch import Tensor

from aimfor.lp import ActiveSet, Envelope, PenaltyNewton, solve

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "lp"))
from random_programs import feasible_bounded, highs, item

warnings.filterwarnings("ignore")
Run = Callable[[Tensor], Tensor]  # from b to x, attached


def ours(p: dict[str, Tensor]) -> dict[str, Run]:
    return {
        "aimfor, interior point": lambda b: solve(p["c"], p["A"], b, gradient=ActiveSet()).x,
        "aimfor, penalty Newton": lambda b: solve(p["c"], p["A"], b, method=PenaltyNewton()).x,
    }


def cvxpylayers(p: dict[str, Tensor]) -> dict[str, Run]:
    try:
        import cvxpy as cp
        from cvxpylayers.torch import CvxpyLayer
    except ImportError:
        return {}
    m, v = p["A"].shape[1:]
    x, c, A, b = cp.Variable(v), cp.Parameter(v), cp.Parameter((m, v)), cp.Parameter(m)
    layer = CvxpyLayer(cp.Problem(cp.Minimize(c @ x), [A @ x <= b]), [c, A, b], [x], solver="DIFFCP")

    def run(method: str, mode: str) -> Run:
        arguments = {"solve_method": method, "mode": mode}
        return lambda rhs: layer(p["c"], p["A"], rhs, solver_args=arguments)[0]

    return {
        f"cvxpylayers, {method}, {mode}": run(method, mode)
        for method in ("SCS", "ECOS", "CLARABEL")
        for mode in ("lsqr", "dense")
    }


def qpth(p: dict[str, Tensor]) -> dict[str, Run]:
    try:
        from qpth.qp import QPFunction
    except ImportError:
        return {}
    items, _, v = p["A"].shape
    none, ridge = torch.Tensor().double(), 1e-4 * torch.eye(v).double().expand(items, v, v)
    return {"qpth, Q = 1e-4 I": lambda b: QPFunction(verbose=-1)(ridge, p["c"], p["A"], b, none, none)}


def moreau(p: dict[str, Tensor]) -> dict[str, Run]:
    try:
        import moreau as package
        from moreau.torch import Solver
    except ImportError:
        return {}
    items, m, v = p["A"].shape
    solver = Solver(
        n=v,
        m=m,
        P_row_offsets=torch.zeros(v + 1, dtype=torch.int64),
        P_col_indices=torch.zeros(0, dtype=torch.int64),
        A_row_offsets=torch.arange(0, m * v + 1, v),
        A_col_indices=torch.arange(v).repeat(m),
        cones=package.Cones(num_nonneg_cones=m),
        settings=package.Settings(device="cpu", batch_size=items),
    )
    values, empty = p["A"].reshape(items, -1), torch.zeros(items, 0).double()
    return {"moreau.torch": lambda b: solver.solve(empty, values, p["c"], b).x}


def exact_gradient(p: dict[str, Tensor], g: Tensor) -> Tensor:
    """∂(g·x)/∂b from HiGHS' active rows."""
    result = torch.zeros_like(p["b"])
    for i in range(len(g)):
        active = torch.as_tensor(-highs(item(p, i)).ineqlin.marginals > 1e-9)
        result[i, active] = torch.linalg.solve(p["A"][i, active].mT, g[i])
    return result


def peers(m: int, v: int, items: int, repeats: int) -> list[dict[str, Any]]:
    p = feasible_bounded(items, m, v, seed=1)
    g = torch.randn(items, v, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    truth = exact_gradient(p, g)
    methods = {**ours(p), **cvxpylayers(p), **qpth(p), **moreau(p)}
    errors: dict[str, Tensor] = {}

    def step(name: str) -> Callable[[], None]:
        def run() -> None:
            b = p["b"].clone().requires_grad_()
            (methods[name](b) * g).sum().backward()
            errors[name] = (b.grad - truth).norm(dim=1) / truth.norm(dim=1)

        return run

    for name in list(methods):
        try:
            step(name)()
        except Exception as error:  # a peer's failure is a result as well
            print(name, "failed:", repr(error)[:200])
            del methods[name]
    seconds = median_seconds({name: step(name) for name in methods}, repeats=repeats, warmup=0)
    base = seconds["aimfor, interior point"]
    return [
        {
            "method": name,
            "(m, v), batch": f"({m}, {v}), {items}",
            "forward + backward, ms": f"{1e3 * taken:.1f}",
            "times ours": f"{taken / base:.1f}",
            "gradient error, median": f"{float(errors[name].median()):.1e}",
            "worst": f"{float(errors[name].max()):.1e}",
        }
        for name, taken in seconds.items()
    ]


def backward_share(m: int, v: int, items: int) -> list[dict[str, Any]]:
    """Backward as a share of forward, gradients w.r.t. c, A and b."""
    p = {k: part.requires_grad_() for k, part in feasible_bounded(items, m, v, seed=1).items()}
    value = solve(**p, gradient=Envelope()).value.sum()
    x = solve(**p, gradient=ActiveSet()).x.sum()
    leaves = tuple(p.values())
    seconds = median_seconds(
        {
            "forward": lambda: solve(**p),
            "envelope": lambda: torch.autograd.grad(value, leaves, retain_graph=True),
            "active set": lambda: torch.autograd.grad(x, leaves, retain_graph=True),
        },
        repeats=15,
    )
    return [
        {
            "(m, v), batch": f"({m}, {v}), {items}",
            "forward, ms": f"{1e3 * seconds['forward']:.1f}",
            "rule": rule,
            "backward, ms": f"{1e3 * seconds[rule]:.2f}",
            "backward / forward": f"{100 * seconds[rule] / seconds['forward']:.1f} %",
        }
        for rule in ("envelope", "active set")
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    record(
        "lp_peers",
        "A batch of linear programs, forward and backward, against its peers",
        "python paper/benchmarks/bench_lp.py",
        peers(50, 20, 32, 15) + peers(200, 50, 32, 7),
    )
    record(
        "lp_backward",
        "Cost of the gradient rules, as a share of the forward pass",
        "python paper/benchmarks/bench_lp.py",
        backward_share(200, 50, 32),
    )
