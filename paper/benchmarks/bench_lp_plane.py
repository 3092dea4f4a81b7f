"""Rows × variables × batch: forward and backward against HiGHS (highspy), moreau, cvxpylayers and qpth, with accuracy.

Run where the peers are installed; one that is not is left out. CPU-seconds of one thread, medians, for a whole batch.
Every program has bounds; the error is that of x against HiGHS, the backward pass that of g·x with respect to b.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import record
from torch import Tensor

from aimfor.lp import ActiveSet, solve

warnings.filterwarnings("ignore")
COMMAND = "python paper/benchmarks/bench_lp_plane.py"
Parts = dict[str, Any]
#: The cells: name → (batch, rows, equalities, variables, density).
CELLS = {
    "5 × 20": (8, 5, 0, 20, 1.0),
    "20 × 100": (8, 20, 0, 100, 1.0),
    "100 × 20": (8, 100, 0, 20, 1.0),
    "100 × 100": (8, 100, 0, 100, 1.0),
    "500 × 100": (8, 500, 0, 100, 1.0),
    "5 × 500": (8, 5, 0, 500, 1.0),
    "20 × 500": (8, 20, 0, 500, 1.0),
    "Σx = 1, 500 variables": (8, 0, 1, 500, 1.0),
    "5 equalities × 500": (8, 0, 5, 500, 1.0),
    "100 × 2,000, batch 1": (1, 100, 0, 2000, 1.0),
    "sparse 100 × 500": (8, 100, 0, 500, 0.05),
    "sparse 100 × 2,000, batch 1": (1, 100, 0, 2000, 0.05),
    "sparse transport 100 × 100, batch 1": (1, 0, 200, 10_000, 0.0),
}


def program(batch: int, m: int, k: int, v: int, density: float) -> Parts:
    """One matrix for the batch, costs and right-hand sides of their own; ``0 <= x <= 1``."""
    g = torch.Generator().manual_seed(m + v)
    if not density:
        return transport(int(v**0.5), g)
    rows = torch.randn(m + k, v, generator=g, dtype=torch.float64)
    if m == 0 and k == 1:
        rows = torch.ones(1, v, dtype=torch.float64)
    if density < 1:
        rows = rows * (torch.rand(m + k, v, generator=g) < density)
    x = torch.rand(batch, v, generator=g, dtype=torch.float64)
    rhs = x @ rows.mT if rows.unique().numel() > 1 else torch.ones(batch, 1, dtype=torch.float64)
    parts: Parts = {"c": torch.randn(batch, v, generator=g, dtype=torch.float64)}
    slack = 0.1 * torch.rand(batch, m, generator=g, dtype=torch.float64)
    parts |= {"A": rows, "b": rhs + slack} if m else {"A_eq": rows, "b_eq": rhs}
    return parts | {"sparse": density < 1}


def transport(n: int, g: torch.Generator) -> Parts:
    eye, ones = torch.eye(n, dtype=torch.float64), torch.ones(1, n, dtype=torch.float64)
    rows = torch.cat((torch.kron(eye, ones), torch.kron(ones, eye)))
    sides = torch.rand(2, n, generator=g, dtype=torch.float64) + 0.1
    rhs = (sides / sides.sum(1, keepdim=True)).reshape(1, -1)
    return {"c": torch.rand(1, n * n, generator=g, dtype=torch.float64), "A_eq": rows, "b_eq": rhs, "sparse": True}


def side(p: Parts) -> tuple[Tensor, str]:
    return (p["A"], "b") if "A" in p else (p["A_eq"], "b_eq")


Forward = Callable[[Tensor], Tensor]  # from the right-hand side to x, attached where the method has a gradient


def ours(p: Parts, method: str | None = None) -> Forward:
    rows, name = side(p)
    matrix = rows.to_sparse_csr() if p["sparse"] else rows
    fixed = {"lower": 0.0, "upper": 1.0, "gradient": ActiveSet(), "method": method}  # each call starts anew
    key = "A" if name == "b" else "A_eq"
    return lambda rhs: solve(p["c"], **{key: matrix, name: rhs}, **fixed).x


def by_highspy(p: Parts) -> Forward:
    import highspy
    from scipy.sparse import csr_matrix

    rows, name = side(p)
    matrix, (m, v) = csr_matrix(rows.numpy()), rows.shape

    def one(c: Any, rhs: Any) -> Any:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_, lp.col_cost_ = v, m, c
        lp.col_lower_, lp.col_upper_ = np.zeros(v), np.ones(v)
        lp.row_lower_, lp.row_upper_ = (rhs if name == "b_eq" else np.full(m, -highspy.kHighsInf)), rhs
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.passModel(lp)
        solver.run()
        return np.array(solver.getSolution().col_value)

    def run(rhs: Tensor) -> Tensor:
        return torch.as_tensor(np.stack([one(c, r) for c, r in zip(p["c"].numpy(), rhs.detach().numpy(), strict=True)]))

    return run


def by_cvxpylayers(p: Parts) -> Forward:
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    rows, name = side(p)
    x, c, rhs = cp.Variable(rows.shape[1]), cp.Parameter(rows.shape[1]), cp.Parameter(rows.shape[0])
    product = rows.numpy() @ x
    limits = [product <= rhs if name == "b" else product == rhs, x >= 0, x <= 1]
    layer = CvxpyLayer(cp.Problem(cp.Minimize(c @ x), limits), [c, rhs], [x], solver="DIFFCP")
    return lambda right: layer(p["c"], right, solver_args={"solve_method": "CLARABEL"})[0]


def by_moreau(p: Parts) -> Forward:
    import moreau
    from moreau.torch import Solver
    from scipy.sparse import csr_matrix, identity, vstack

    rows, name = side(p)
    (m, v), b = rows.shape, p["c"].shape[0]
    whole = vstack([csr_matrix(rows.numpy()), -identity(v), identity(v)]).tocsr()
    zeros, nonneg = (m, 2 * v) if name == "b_eq" else (0, m + 2 * v)
    solver = Solver(
        n=v,
        m=m + 2 * v,
        P_row_offsets=torch.zeros(v + 1, dtype=torch.int64),
        P_col_indices=torch.zeros(0, dtype=torch.int64),
        A_row_offsets=torch.as_tensor(whole.indptr.astype("int64")),
        A_col_indices=torch.as_tensor(whole.indices.astype("int64")),
        cones=moreau.Cones(num_zero_cones=zeros, num_nonneg_cones=nonneg),
    )
    tail = torch.cat((torch.zeros(b, v), torch.ones(b, v)), 1).double()
    values, none = torch.as_tensor(whole.data).expand(b, -1), torch.zeros(b, 0).double()
    return lambda right: solver.solve(none, values, p["c"], torch.cat((right, tail), 1)).x


def by_qpth(p: Parts) -> Forward:
    from qpth.qp import QPFunction

    rows, name = side(p)
    b, v = p["c"].shape
    eye, none = torch.eye(v, dtype=torch.float64), torch.Tensor().double()
    box, ends = torch.cat((-eye, eye)), torch.cat((torch.zeros(b, v), torch.ones(b, v)), 1).double()
    ridge = 1e-4 * eye.expand(b, v, v)

    def run(right: Tensor) -> Tensor:
        if name == "b":
            G, h = torch.cat((rows, box)).expand(b, -1, -1), torch.cat((right, ends), 1)
            return QPFunction(verbose=-1)(ridge, p["c"], G, h, none, none)
        return QPFunction(verbose=-1)(ridge, p["c"], box.expand(b, -1, -1), ends, rows.expand(b, -1, -1), right)

    return run


METHODS = {
    "aimfor": ours,
    "aimfor, auto": lambda p: ours(p, "auto"),
    "highspy": by_highspy,
    "moreau": by_moreau,
    "cvxpylayers": by_cvxpylayers,
    "qpth": by_qpth,
}


def timed(act: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    act()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        answer = act()
        times.append(time.process_time() - start)
    return statistics.median(times), answer


def measure(name: str, p: Parts, exact: Tensor) -> tuple[str, str, float]:
    """Forward and backward seconds and the error of x, as words; and the forward seconds."""
    rhs = p[side(p)[1]].clone().requires_grad_()
    try:
        forward = METHODS[name](p)
        start = time.process_time()
        forward(rhs)
        repeats = 5 if time.process_time() - start < 2 else 1
        seconds, x = timed(lambda: forward(rhs), repeats)
        error = float((x.detach() - exact).abs().max() / (1 + exact.abs().max()))
        back = "–"
        if x.requires_grad:
            g = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            spans = []
            for _ in range(repeats):
                x = forward(rhs)
                start = time.process_time()
                torch.autograd.grad((g * x).sum(), rhs)
                spans.append(time.process_time() - start)
            back = f"{statistics.median(spans):.4f}"
        return f"{seconds:.4f} ({error:.0e})", back, seconds
    except Exception as error:  # a peer that is not there, or that cannot do this cell
        return f"{type(error).__name__}", "–", float("nan")


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for cell, shape in CELLS.items():
        p = program(*shape)
        exact = by_highspy(p)(p[side(p)[1]])
        row: dict[str, Any] = {"cell, batch 8 unless said": cell}
        backs, seconds = {}, {}
        for name in METHODS:
            if name == "qpth" and shape[3] > 100:  # minutes, and gigabytes
                continue
            row[name], backs[name], seconds[name] = measure(name, p, exact)
        row |= {f"backward, {name}": backs[name] for name in ("aimfor", "moreau", "cvxpylayers")}
        for name in ("aimfor", "aimfor, auto"):
            row[f"{name} / highspy"] = f"{seconds[name] / seconds['highspy']:.2f}"
        best = min(value for name, value in seconds.items() if not name.startswith("aimfor") and value == value)
        row["aimfor / best"] = f"{seconds['aimfor'] / best:.2f}"
        rows.append(row)
        print(row, flush=True)
    title = "Programs of any shape: forward in CPU-seconds (error of x), and backward with respect to b"
    record("lp_plane", title, COMMAND, rows)


if __name__ == "__main__":
    main()
