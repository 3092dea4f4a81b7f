"""Sparse CSR rows: products and Gram solves that never make them dense."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from .base import RIDGE, Bounds, Factor, Operator


class SparseOperator(Operator):
    """One sparse matrix of inequality rows and one of equality rows, shared by a batch of programs.

    Args:
        rows: CSR ``(m, v)``.
        equality_rows: CSR ``(k, v)``.
        bounds: The bounds.
        pinned: Fixed variables, as equality rows of one entry after the others.
        batch: b.
    """

    def __init__(self, rows: Tensor, equality_rows: Tensor, bounds: Bounds, pinned: Bounds, batch: int) -> None:
        self.rows, self.equality_rows, self.bounds, self.pinned, self.batch = (
            rows,
            equality_rows,
            bounds,
            pinned,
            batch,
        )
        self.variables, self.general = rows.shape[1], rows.shape[0]
        self.equalities = equality_rows.shape[0] + pinned.columns.numel()

    def general_rows(self, x: Tensor) -> Tensor:
        return _product(self.rows, x)

    def general_rows_t(self, z: Tensor) -> Tensor:
        return _product_t(self.rows, z)

    def equality(self, x: Tensor) -> Tensor:
        return torch.cat((_product(self.equality_rows, x), self.pinned.rows(x)), 1)

    def equality_t(self, y: Tensor) -> Tensor:
        k = self.equality_rows.shape[0]
        return self.pinned.add_transposed(_product_t(self.equality_rows, y[:, :k]), y[:, k:])

    def factor(self, weights: Tensor, ridge: float = RIDGE) -> Factor:
        return SparseCholesky(self, weights, ridge)

    def take(self, items: Tensor) -> SparseOperator:
        bounds, pinned = self.bounds.take(items), self.pinned.take(items)
        return SparseOperator(self.rows, self.equality_rows, bounds, pinned, items.numel())

    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> SparseOperator:
        k = self.equality_rows.shape[0]
        pins = self.pinned.coefficients * equality_rows[:, k:] * columns[:, self.pinned.columns]
        return SparseOperator(
            _scaled(self.rows, rows[0], columns[0]),
            _scaled(self.equality_rows, equality_rows[0, :k], columns[0]),
            self.bounds,
            Bounds(self.pinned.columns, pins),
            self.batch,
        )

    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        rows, columns = _largest(self.rows)
        equality_rows, equality_columns = _largest(self.equality_rows)
        # One scale for the whole batch, which shares the matrices.
        pins = self.pinned.coefficients.abs().amax(0)
        columns = torch.maximum(columns, equality_columns)
        columns = columns.scatter_reduce(0, self.pinned.columns, pins, "amax")
        return rows[None], torch.cat((equality_rows, pins))[None], columns[None]

    def to_scipy(self) -> tuple[Any, Any]:
        sparse: Any = importlib.import_module("scipy.sparse")
        pins = sparse.csr_matrix(
            (
                self.pinned.coefficients[0].cpu().numpy(),
                (range(self.pinned.columns.numel()), self.pinned.columns.cpu().numpy()),
            ),
            shape=(self.pinned.columns.numel(), self.variables),
        )
        return _to_scipy(self.rows), sparse.vstack([_to_scipy(self.equality_rows), pins]).tocsr()


class SparseCholesky(Factor):
    """Sparse factorisation of each item's Gram matrix (SuperLU, symmetric mode).

    Its cost does not depend on the interior weights. Conjugate gradients with a Jacobi preconditioner are faster
    while those span few orders of magnitude and slower at the end of the path, where they need thousands of products
    (paper/benchmarks/bench_lp_gram.py): one factorisation serves the whole path and all right-hand sides of a step.
    """

    def __init__(self, operator: SparseOperator, weights: Tensor, ridge: float) -> None:
        sparse: Any = importlib.import_module("scipy.sparse")
        linalg: Any = importlib.import_module("scipy.sparse.linalg")
        rows, equality = _to_scipy(operator.rows), _to_scipy(operator.equality_rows)
        diagonal = (operator.bound_diagonal(weights) + _pin_diagonal(operator, weights)).cpu().numpy()
        fixed = (equality.T @ equality).tocsc()
        self.scales, self.factors = [], []
        for weight, extra in zip(weights[:, : operator.general].cpu().numpy(), diagonal, strict=True):
            gram = (rows.T @ sparse.diags(weight) @ rows + fixed + sparse.diags(extra)).tocsc()
            middle = gram.diagonal()
            scale = 1.0 / (middle + (middle <= 0)) ** 0.5
            unit = sparse.diags(scale) @ gram @ sparse.diags(scale) + ridge * sparse.identity(len(scale))
            self.scales.append(scale)
            options = {"SymmetricMode": True}
            self.factors.append(
                linalg.splu(unit.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
            )

    def solve(self, right: Tensor) -> Tensor:
        answers = [
            torch.as_tensor(scale[:, None] * factor.solve(scale[:, None] * part.cpu().numpy()))
            for part, scale, factor in zip(right, self.scales, self.factors, strict=True)
        ]
        return torch.stack(answers).to(right)


def _pin_diagonal(operator: SparseOperator, like: Tensor) -> Tensor:
    ones = like.new_ones(like.shape[0], operator.pinned.columns.numel())
    return operator.pinned.diagonal(ones, operator.variables)


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    """CSR ``(m, v)`` times ``(b, v, k)``, all columns at once."""
    b, v, k = x.shape
    if not matrix.shape[0]:
        return x.new_zeros(b, 0, k)
    flat = matrix @ x.permute(1, 0, 2).reshape(v, b * k)
    return flat.reshape(matrix.shape[0], b, k).permute(1, 0, 2)


def _product_t(matrix: Tensor, z: Tensor) -> Tensor:
    """Its transpose times ``(b, m, k)``, by scattering: no second copy of the matrix."""
    b, _, k = z.shape
    result = z.new_zeros(b, matrix.shape[1], k)
    if matrix.shape[0]:
        terms = matrix.values()[:, None] * z[:, _row_index(matrix)]
        result.index_add_(1, matrix.col_indices(), terms)
    return result


def _row_index(matrix: Tensor) -> Tensor:
    return torch.repeat_interleave(torch.arange(matrix.shape[0], device=matrix.device), matrix.crow_indices().diff())


def _scaled(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    values = matrix.values() * rows[_row_index(matrix)] * columns[matrix.col_indices()]
    return torch.sparse_csr_tensor(
        matrix.crow_indices(), matrix.col_indices(), values, matrix.shape, check_invariants=False
    )


def _largest(matrix: Tensor) -> tuple[Tensor, Tensor]:
    size = matrix.values().abs()
    rows, columns = size.new_zeros(matrix.shape[0]), size.new_zeros(matrix.shape[1])
    rows.scatter_reduce_(0, _row_index(matrix), size, "amax")
    columns.scatter_reduce_(0, matrix.col_indices(), size, "amax")
    return rows, columns


def _to_scipy(matrix: Tensor) -> Any:
    sparse: Any = importlib.import_module("scipy.sparse")
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    return sparse.csr_matrix(tuple(part.cpu().numpy() for part in parts), shape=tuple(matrix.shape))
