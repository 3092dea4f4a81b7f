"""Solving with a sparse Gram matrix Aᵀ D A: factorisation (what the sparse operator does) or conjugate gradients?

An interior point's weights D spread over more orders of magnitude the closer it comes to the optimum.

    python paper/benchmarks/bench_lp_gram.py
"""

from __future__ import annotations

import numpy as np
from common import median_seconds, record
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg, splu

ROWS, COLUMNS, DENSITY, LIMIT = 4000, 1000, 0.003, 5000


def main() -> None:
    generator = np.random.default_rng(0)
    matrix = sparse.random(ROWS, COLUMNS, DENSITY, format="csr", random_state=0)
    matrix = sparse.vstack([matrix, sparse.eye(COLUMNS)]).tocsr()
    right = generator.standard_normal(COLUMNS)
    rows = []
    for orders in (0, 4, 8, 12, 16):
        weights = 10.0 ** generator.uniform(-orders / 2, orders / 2, matrix.shape[0])
        gram = (matrix.T @ sparse.diags(weights) @ matrix).tocsc()
        diagonal, products = gram.diagonal(), []
        jacobi = LinearOperator(gram.shape, matvec=lambda x, d=diagonal: x / d)
        options = {"rtol": 1e-12, "maxiter": LIMIT, "M": jacobi}
        iterate, _ = cg(gram, right, callback=products.append, **options)
        exact = splu(gram).solve(right)
        seconds = median_seconds(
            {"factor": lambda g=gram: splu(g).solve(right), "cg": lambda g=gram, o=options: cg(g, right, **o)}, 5, 1
        )
        rows.append(
            {
                "orders of magnitude in D": orders,
                "factorise, ms": f"{1e3 * seconds['factor']:.1f}",
                "conjugate gradients, ms": f"{1e3 * seconds['cg']:.1f}",
                "products": len(products),
                "relative residual, factorise": f"{residual(gram, exact, right):.0e}",
                "relative residual, cg": f"{residual(gram, iterate, right):.0e}",
            }
        )
    title = f"Sparse Gram solve, {COLUMNS} variables, {matrix.shape[0]} rows, {matrix.nnz} nonzeros"
    record("lp_gram", title, "python paper/benchmarks/bench_lp_gram.py", rows)


def residual(gram: sparse.csc_matrix, x: np.ndarray, right: np.ndarray) -> float:
    return float(np.linalg.norm(gram @ x - right) / np.linalg.norm(right))


if __name__ == "__main__":
    main()
