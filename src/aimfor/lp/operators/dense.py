"""Dense rows, and the batched Cholesky factorisation that every operator ends in."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

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
        self.scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt_()
        unit = (gram * self.scale[:, :, None]).mul_(self.scale[:, None])
        unit.diagonal(dim1=-2, dim2=-1).add_(ridge)
        self.lower: Tensor
        self.lower, info = torch.linalg.cholesky_ex(unit)
        self.broken = info.clone() if (failed := bool(info.any())) else info
        while failed and ridge < 1e-2:
            ridge *= 100.0
            broken = (info > 0).nonzero().squeeze(1)
            again = unit[broken]
            again.diagonal(dim1=-2, dim2=-1).add_(ridge)
            self.lower[broken], info[broken] = torch.linalg.cholesky_ex(again)
            failed = bool(info.any())

    def pivot(self) -> Tensor:
        if not self.lower.shape[1]:
            return self.lower.new_ones(self.lower.shape[0])
        return torch.where(self.broken > 0, 0.0, self.lower.diagonal(dim1=-2, dim2=-1).amin(1).square())

    def solve(self, right: Tensor) -> Tensor:
        scaled = self.scale * right
        if self.lower.shape[1] == 1:  # one row, as of Σx = 1: a division
            return self.scale * scaled / self.lower[:, :, 0].square()
        if right.ndim == 2:
            return self.scale * torch.cholesky_solve(scaled[:, :, None], self.lower)[:, :, 0]
        return self.scale * torch.cholesky_solve(scaled.permute(1, 2, 0), self.lower).permute(2, 0, 1)


class DenseOperator(Operator):
    """Dense rows, one batched matrix for the inequalities and one for the equalities.

    Args:
        rows: ``(b, m, v)`` or ``(1, m, v)``.
        equality_rows: ``(b, k, v)`` or ``(1, k, v)``.
        bounds: The bounds.
        pinned: The fixed variables.
        batch: b.
    """

    def __init__(self, rows: Tensor, equality_rows: Tensor, bounds: Bounds, pinned: Bounds, batch: int) -> None:
        self.rows, self.equality_rows, self.bounds, self.pinned, self.batch = rows, equality_rows, bounds, pinned, batch
        self.variables = rows.shape[-1]
        self.general, self.equal = rows.shape[-2], equality_rows.shape[-2]

    @property
    def shared(self) -> bool:
        return max(self.rows.shape[0], self.equality_rows.shape[0]) == 1

    def general_rows(self, x: Tensor) -> Tensor:
        return times(self.rows, x)

    def general_rows_t(self, z: Tensor) -> Tensor:
        return times(self.rows.mT, z)

    def equal_rows(self, x: Tensor) -> Tensor:
        return times(self.equality_rows, x)

    def equal_rows_t(self, y: Tensor) -> Tensor:
        return times(self.equality_rows.mT, y)

    @cached_property
    def matrix(self) -> Tensor:
        """All rows but those of one entry, ``(b, m + k, v)``, or ``(m + k, v)`` where the batch shares them."""
        if self.shared:
            return torch.cat((self.rows[0], self.equality_rows[0]))
        return torch.cat([rows.expand(self.batch, -1, -1) for rows in (self.rows, self.equality_rows)], 1)

    @cached_property
    def turned(self) -> Tensor:
        return self.matrix.mT

    def stacked(self, x: Tensor) -> Tensor:
        return times(self.matrix, x)

    def stacked_t(self, z: Tensor) -> Tensor:
        return times(self.turned, z)

    def gram_factor(self, weights: Tensor, diagonal: Tensor, ridge: float) -> Factor:
        gram = (self.rows * weights[:, :, None]).mT @ self.rows
        if self.equal:
            gram = gram + self.equality_rows.mT @ self.equality_rows
        gram.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        return CholeskyFactor(gram, ridge)

    def row_factor(self, theta: Tensor, diagonal: Tensor, keep: Tensor | None = None) -> Factor:
        square = torch.bmm(self.matrix * theta[:, None], self.turned.expand(self.batch, -1, -1))
        return CholeskyFactor(masked(square, diagonal, keep))

    def take(self, items: Tensor) -> Self:
        taken = super().take(items)
        taken.rows, taken.equality_rows = (
            rows if rows.shape[0] == 1 else rows[items] for rows in (self.rows, self.equality_rows)
        )
        return taken

    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> Self:
        return self.replaced(
            rows=self.rows * rows[:, :, None] * columns[:, None, :],
            equality_rows=self.equality_rows * equality_rows[:, : self.equal, None] * columns[:, None, :],
            pinned=self.pinned.scaled(equality_rows[:, self.equal :], columns),
        )

    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        size, equality_size = self.rows.abs(), self.equality_rows.abs()
        columns = torch.maximum(amax(size, 1), amax(equality_size, 1))
        pins = self.pinned.coefficients
        if not self.pinned.columns.numel():
            return amax(size, 2), amax(equality_size, 2), columns
        columns = columns.expand(pins.shape[0], -1).scatter_reduce(1, self.pinned.columns.expand_as(pins), pins, "amax")
        equality_largest = amax(equality_size, 2).expand(pins.shape[0], -1)
        return amax(size, 2), torch.cat((equality_largest, pins), 1), columns

    def to_scipy(self) -> tuple[Any, Any]:
        equality = self.equality_rows[:1]
        if self.pinned.columns.numel():
            equality = torch.cat((equality, self.pinned.matrix(self.variables)[:1]), 1)
        return self.rows[0].cpu().numpy(), equality[0].cpu().numpy()


def times(matrix: Tensor, x: Tensor) -> Tensor:
    """``matrix @ x``: ``(m, v)`` or ``(b or 1, m, v)`` by ``(…, b, v)``; a shared matrix multiplies all at once."""
    if matrix.ndim == 2 or len(matrix) == 1:
        return torch.nn.functional.linear(x, matrix if matrix.ndim == 2 else matrix[0])
    if x.ndim == 2:
        return torch.bmm(matrix, x[:, :, None])[:, :, 0]
    return torch.bmm(matrix, x.permute(1, 2, 0)).permute(2, 0, 1)


def masked(square: Tensor, diagonal: Tensor, keep: Tensor | None) -> Tensor:
    """``square`` ``(b, n, n)`` with rows and columns that are not in ``keep`` zero, plus a diagonal."""
    if keep is not None:
        square = square * keep[:, :, None] * keep[:, None, :]
    square.diagonal(dim1=-2, dim2=-1).add_(diagonal)
    return square


def amax(size: Tensor, dim: int) -> Tensor:
    """`amax` that takes an empty dimension to zeros."""
    if size.shape[dim] == 0:
        return size.sum(dim)
    return size.amax(dim)
