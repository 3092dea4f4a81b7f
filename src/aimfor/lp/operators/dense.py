"""Dense rows, and the batched Cholesky factorisation that every operator ends in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .base import RIDGE, Bounds, Factor, Operator


class CholeskyFactor(Factor):
    """Batched Cholesky of dense Gram matrices, scaled to a unit diagonal first.

    Interior weights span twenty orders of magnitude; with a unit diagonal the factorisation stays meaningful.
    An item whose factorisation breaks down is tried again with a larger ridge, alone.
    """

    def __init__(self, gram: Tensor, ridge: float = RIDGE) -> None:
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        # A column without any row would have a zero diagonal: the ridge alone then keeps it solvable.
        self.scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()
        unit = gram * self.scale[:, :, None] * self.scale[:, None, :]
        unit.diagonal(dim1=-2, dim2=-1).add_(ridge)
        self.lower, info = torch.linalg.cholesky_ex(unit)
        while bool((info > 0).any()) and ridge < 1e-2:
            ridge *= 100.0
            broken = (info > 0).nonzero().squeeze(1)
            again = unit[broken]
            again.diagonal(dim1=-2, dim2=-1).add_(ridge)
            self.lower[broken], info[broken] = torch.linalg.cholesky_ex(again)

    def solve(self, right: Tensor) -> Tensor:
        scale = self.scale[:, :, None]
        return scale * torch.cholesky_solve(scale * right, self.lower)


class DenseOperator(Operator):
    """Dense rows, one batched matrix for the inequalities and one for the equalities.

    Args:
        rows: ``(b, m, v)`` or ``(1, m, v)``.
        equality_rows: ``(b, k, v)`` or ``(1, k, v)``.
        bounds: The bounds.
        batch: b.
    """

    def __init__(self, rows: Tensor, equality_rows: Tensor, bounds: Bounds, batch: int) -> None:
        self.rows, self.equality_rows, self.bounds, self.batch = rows, equality_rows, bounds, batch
        self.variables = rows.shape[-1]
        self.general, self.equalities = rows.shape[-2], equality_rows.shape[-2]

    def general_rows(self, x: Tensor) -> Tensor:
        return self.rows @ x

    def general_rows_t(self, z: Tensor) -> Tensor:
        return self.rows.mT @ z

    def equality(self, x: Tensor) -> Tensor:
        return self.equality_rows @ x

    def equality_t(self, y: Tensor) -> Tensor:
        return self.equality_rows.mT @ y

    def factor(self, weights: Tensor, ridge: float = RIDGE) -> Factor:
        gram = (self.rows * weights[:, : self.general, None]).mT @ self.rows
        if self.equalities:
            gram = gram + self.equality_rows.mT @ self.equality_rows
        if self.bounds.columns.numel():
            gram.diagonal(dim1=-2, dim2=-1).add_(self.bound_diagonal(weights))
        return CholeskyFactor(gram, ridge)

    def take(self, items: Tensor) -> DenseOperator:
        rows = self.rows if self.rows.shape[0] == 1 else self.rows[items]
        equality_rows = self.equality_rows if self.equality_rows.shape[0] == 1 else self.equality_rows[items]
        return DenseOperator(rows, equality_rows, self.bounds.take(items), items.numel())

    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> DenseOperator:
        return DenseOperator(
            self.rows * rows[:, :, None] * columns[:, None, :],
            self.equality_rows * equality_rows[:, :, None] * columns[:, None, :],
            self.bounds,
            self.batch,
        )

    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        size, equality_size = self.rows.abs(), self.equality_rows.abs()
        columns = torch.maximum(_amax(size, 1), _amax(equality_size, 1))
        return _amax(size, 2), _amax(equality_size, 2), columns

    def to_scipy(self) -> tuple[Any, Any]:
        return self.rows[0].cpu().numpy(), self.equality_rows[0].cpu().numpy()


def _amax(size: Tensor, dim: int) -> Tensor:
    """`amax` that takes an empty dimension to zeros."""
    if size.shape[dim] == 0:
        return size.sum(dim)
    return size.amax(dim)
