"""Sparse CSR rows: products and solves that never make them dense, for a whole batch at once.

The batch shares one pattern and one set of values; what differs from item to item are the weights. The weighted squares
of all items are one product of block-diagonal matrices, and one factorisation: sparse (SuperLU) where they stay
sparse, batched Cholesky where they fill up.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from .base import RIDGE, Bounds, Factor, Operator
from .dense import CholeskyFactor, masked

#: A weighted square with at least this share of nonzeros is factorised as a dense matrix.
FULL = 0.1


class Csr:
    """A CSR matrix ``(m, v)`` with its transpose and its scipy twin, each made once and when it is needed."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.shape = matrix, matrix.shape

    @cached_property
    def row_index(self) -> Tensor:
        count = self.matrix.crow_indices().diff()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=count.device), count)

    @cached_property
    def transposed(self) -> Tensor:
        order = self.matrix.col_indices().argsort(stable=True)
        count = torch.bincount(self.matrix.col_indices(), minlength=self.shape[1])
        crow = torch.cat((count.new_zeros(1), count.cumsum(0)))
        size = (self.shape[1], self.shape[0])
        return torch.sparse_csr_tensor(
            crow, self.row_index[order], self.matrix.values()[order], size, check_invariants=False
        )

    @cached_property
    def scipy(self) -> Any:
        sparse: Any = importlib.import_module("scipy.sparse")
        parts = (self.matrix.values(), self.matrix.col_indices(), self.matrix.crow_indices())
        return sparse.csr_matrix(tuple(array.cpu().numpy() for array in parts), shape=tuple(self.shape))

    def times(self, x: Tensor) -> Tensor:
        """``(…, v)`` to ``(…, m)``, all at once."""
        return _product(self.matrix, x)

    def times_t(self, z: Tensor) -> Tensor:
        """``(…, m)`` to ``(…, v)``."""
        return _product(self.transposed, z)

    def scaled(self, rows: Tensor, columns: Tensor) -> Csr:
        matrix = self.matrix
        values = matrix.values() * rows[self.row_index] * columns[matrix.col_indices()]
        parts = (matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)
        return Csr(torch.sparse_csr_tensor(*parts, check_invariants=False))

    def largest(self) -> tuple[Tensor, Tensor]:
        size = self.matrix.values().abs()
        rows, columns = size.new_zeros(self.shape[0]), size.new_zeros(self.shape[1])
        rows.scatter_reduce_(0, self.row_index, size, "amax")
        columns.scatter_reduce_(0, self.matrix.col_indices(), size, "amax")
        return rows, columns


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    (m, v), lead = matrix.shape, x.shape[:-1]
    return (matrix @ x.reshape(-1, v).mT).mT.reshape(*lead, m) if m and v else x.new_zeros(*lead, m)


class SparseOperator(Operator):
    """One sparse matrix of inequality rows and one of equality rows, shared by a batch of programs.

    Args:
        rows: ``(m, v)``.
        equality_rows: ``(k, v)``.
        bounds: The bounds.
        pinned: The fixed variables.
        batch: b.
    """

    def __init__(self, rows: Csr, equality_rows: Csr, bounds: Bounds, pinned: Bounds, batch: int) -> None:
        self.sparse_rows, self.sparse_equality, self.bounds, self.pinned = rows, equality_rows, bounds, pinned
        (self.general, self.variables), self.equal, self.batch = rows.shape, equality_rows.shape[0], batch

    @cached_property
    def whole(self) -> tuple[Any, Any]:
        """All rows but those of one entry as one scipy CSR matrix, and its transpose."""
        sparse: Any = importlib.import_module("scipy.sparse")
        matrix = sparse.vstack([self.sparse_rows.scipy, self.sparse_equality.scipy]).tocsr()
        return matrix, matrix.T.tocsr()

    def general_rows(self, x: Tensor) -> Tensor:
        return self.sparse_rows.times(x)

    def general_rows_t(self, z: Tensor) -> Tensor:
        return self.sparse_rows.times_t(z)

    def equal_rows(self, x: Tensor) -> Tensor:
        return self.sparse_equality.times(x)

    def equal_rows_t(self, y: Tensor) -> Tensor:
        return self.sparse_equality.times_t(y)

    def gram_factor(self, weights: Tensor, diagonal: Tensor, ridge: float) -> Factor:
        ones = weights.new_ones(weights.shape[0], self.equal)
        return _factor(self.whole[::-1], torch.cat((weights, ones), 1), diagonal.expand(len(weights), -1), None, ridge)

    def row_factor(self, theta: Tensor, diagonal: Tensor, keep: Tensor | None = None) -> Factor:
        return _factor(self.whole, theta, diagonal, keep, RIDGE)

    def take(self, items: Tensor) -> Self:
        taken = super().take(items)
        taken.whole = self.whole
        return taken

    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> Self:
        return self.replaced(
            sparse_rows=self.sparse_rows.scaled(rows[0], columns[0]),
            sparse_equality=self.sparse_equality.scaled(equality_rows[0, : self.equal], columns[0]),
            pinned=self.pinned.scaled(equality_rows[:, self.equal :], columns),
        )

    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        rows, columns = self.sparse_rows.largest()
        equality_rows, equality_columns = self.sparse_equality.largest()
        # One scale for the whole batch, which shares the matrices.
        pins = self.pinned.coefficients.abs().amax(0)
        columns = torch.maximum(columns, equality_columns)
        columns = columns.scatter_reduce(0, self.pinned.columns, pins, "amax")
        return rows[None], torch.cat((equality_rows, pins))[None], columns[None]

    def to_scipy(self) -> tuple[Any, Any]:
        sparse: Any = importlib.import_module("scipy.sparse")
        columns, coefficients = self.pinned.columns.cpu().numpy(), self.pinned.coefficients[0].cpu().numpy()
        shape = (len(columns), self.variables)
        pins = sparse.csr_matrix((coefficients, (range(len(columns)), columns)), shape=shape)
        return self.sparse_rows.scipy, sparse.vstack([self.sparse_equality.scipy, pins]).tocsr()


def _factor(both: tuple[Any, Any], weights: Tensor, diagonal: Tensor, keep: Tensor | None, ridge: float) -> Factor:
    """Of ``M diag(weights) M' + diag(diagonal)`` for each item; ``both`` is M and its transpose."""
    b, n = diagonal.shape
    square = _tiled(both[0], b, weights.cpu().numpy()) @ _tiled(both[1], b)
    if square.nnz >= FULL * b * n * n:
        dense = diagonal.new_zeros(b * n * n)
        triples = square.tocoo()
        index = triples.row.astype("int64") * n + triples.col % n
        dense[torch.from_numpy(index).to(dense.device)] = torch.from_numpy(triples.data).to(dense)
        return CholeskyFactor(masked(dense.reshape(b, n, n), diagonal, keep), ridge)
    return BlockFactor(square, diagonal, keep, ridge)


def _tiled(matrix: Any, copies: int, weights: Any = None) -> Any:
    """The block-diagonal matrix of so many copies, the columns of each multiplied by its row of ``weights``."""
    import numpy as np

    sparse: Any = importlib.import_module("scipy.sparse")
    (n, v), nnz, item = matrix.shape, matrix.nnz, np.arange(copies)[:, None]
    data = np.tile(matrix.data, copies) if weights is None else (matrix.data * weights[:, matrix.indices]).ravel()
    indptr = np.append((matrix.indptr[:-1] + nnz * item).ravel(), copies * nnz)
    return sparse.csr_matrix((data, (matrix.indices + v * item).ravel(), indptr), shape=(copies * n, copies * v))


class BlockFactor(Factor):
    """One sparse factorisation of the block-diagonal matrix of all items (SuperLU, symmetric mode).

    Its cost does not depend on the interior weights. Conjugate gradients with a Jacobi preconditioner are faster
    while those span few orders of magnitude and slower at the end of the path, where they need thousands of products
    (paper/benchmarks/bench_lp_gram.py): one factorisation serves the whole path and all right-hand sides of a step.
    """

    def __init__(self, square: Any, diagonal: Tensor, keep: Tensor | None, ridge: float) -> None:
        sparse: Any = importlib.import_module("scipy.sparse")
        linalg: Any = importlib.import_module("scipy.sparse.linalg")
        if keep is not None:
            mask = sparse.diags(keep.to(diagonal).cpu().numpy().ravel())
            square = mask @ square @ mask
        square = square + sparse.diags(diagonal.cpu().numpy().ravel())
        middle = square.diagonal()
        self.scale = 1.0 / (middle + (middle <= 0)) ** 0.5
        scale = sparse.diags(self.scale)
        unit = (scale @ square @ scale + ridge * sparse.identity(len(middle))).tocsc()
        options = {"SymmetricMode": True}
        self.lu = linalg.splu(unit, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

        self.like = diagonal

    def pivot(self) -> Tensor:
        pivots = abs(self.lu.U.diagonal())[self.lu.perm_c]
        return torch.as_tensor(pivots).reshape(self.like.shape).amin(1).to(self.like)

    def solve(self, right: Tensor) -> Tensor:
        flat = self.scale * right.reshape(-1, self.like.numel()).cpu().numpy()
        return torch.as_tensor(self.scale * self.lu.solve(flat.T).T).reshape(right.shape).to(right)
