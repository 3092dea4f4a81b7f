"""All the solvers ask of the constraints: products with them, and solves with their weighted Gram matrix.

Inequality rows are the general rows followed by the bounds, which are never stored as rows: a bound is one
coefficient in one column. An operator holds a batch of constraint sets; parts shared by the whole batch are
stored once, with a leading dimension of 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: Added to the unit diagonal of a scaled Gram matrix before it is factorised. Refinement removes its effect.
RIDGE = 1e-13


@dataclass(frozen=True)
class Bounds:
    """One-entry rows ``coefficient · x[column] <= rhs``.

    Attributes:
        columns: ``(k,)`` int64.
        coefficients: ``(b, k)`` or ``(1, k)``: +1 (upper), −1 (lower), or 0 where an item has no such bound.
    """

    columns: Tensor
    coefficients: Tensor

    def take(self, items: Tensor) -> Bounds:
        return self if self.coefficients.shape[0] == 1 else Bounds(self.columns, self.coefficients[items])

    def rows(self, x: Tensor) -> Tensor:
        """``(b, v, k)`` to ``(b, rows, k)``."""
        return self.coefficients[:, :, None] * x[:, self.columns]

    def add_transposed(self, total: Tensor, z: Tensor) -> Tensor:
        """``total + rowsᵀ z``, for ``(b, v, k)`` and ``(b, rows, k)``."""
        if not self.columns.numel():
            return total
        return total.index_add(1, self.columns, self.coefficients[:, :, None] * z)

    def diagonal(self, weights: Tensor, variables: int) -> Tensor:
        """``rowsᵀ diag(weights) rows``, which is diagonal: ``(b, v)``."""
        total = weights.new_zeros(weights.shape[0], variables)
        return total.index_add(1, self.columns, self.coefficients.square() * weights) if self.columns.numel() else total


class Factor(ABC):
    """A factorised Gram matrix."""

    @abstractmethod
    def solve(self, right: Tensor) -> Tensor:
        """``(b, v, k)`` right-hand sides to ``(b, v, k)`` solutions."""


class Operator(ABC):
    """Inequality and equality rows of a batch of programs.

    Attributes:
        batch: Number of programs, b.
        variables: v.
        general: Number of inequality rows without the bounds, m.
        equalities: Number of equality rows.
        bounds: The bounds, as rows after the general ones.
    """

    batch: int
    variables: int
    general: int
    equalities: int
    bounds: Bounds

    @property
    def inequalities(self) -> int:
        return self.general + self.bounds.columns.numel()

    def inequality(self, x: Tensor) -> Tensor:
        """``(b, v, k)`` to ``(b, inequalities, k)``."""
        return torch.cat((self.general_rows(x), self.bounds.rows(x)), 1)

    def inequality_t(self, z: Tensor) -> Tensor:
        """``(b, inequalities, k)`` to ``(b, v, k)``."""
        return self.bounds.add_transposed(self.general_rows_t(z[:, : self.general]), z[:, self.general :])

    def bound_diagonal(self, weights: Tensor) -> Tensor:
        """The bounds' part of the Gram matrix, ``(b, v)``; ``weights`` has one entry per inequality."""
        return self.bounds.diagonal(weights[:, self.general :], self.variables)

    @abstractmethod
    def general_rows(self, x: Tensor) -> Tensor:
        """``(b, v, k)`` to ``(b, general, k)``."""

    @abstractmethod
    def general_rows_t(self, z: Tensor) -> Tensor:
        """``(b, general, k)`` to ``(b, v, k)``."""

    @abstractmethod
    def equality(self, x: Tensor) -> Tensor:
        """``(b, v, k)`` to ``(b, equalities, k)``."""

    @abstractmethod
    def equality_t(self, y: Tensor) -> Tensor:
        """``(b, equalities, k)`` to ``(b, v, k)``."""

    @abstractmethod
    def factor(self, weights: Tensor, ridge: float = RIDGE) -> Factor:
        """Factorise ``Σ_i weights_i g_i g_iᵀ + E'E``; ``weights`` is ``(b, inequalities)``."""

    @abstractmethod
    def take(self, items: Tensor) -> Operator:
        """The operator of some items of the batch."""

    @abstractmethod
    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> Operator:
        """General rows, equality rows and columns multiplied by positive factors ``(b or 1, ·)``; bounds as they are.

        (A bound row divided by its column's factor is the same row in the scaled variable.)
        """

    @abstractmethod
    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        """Largest absolute entry of each general row, equality row and column, ``(b or 1, ·)``, bounds left out."""

    @abstractmethod
    def to_scipy(self) -> tuple[Any, Any]:
        """General rows and equality rows of a batch of one, as numpy or scipy matrices (for HiGHS)."""


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
