"""All the solvers ask of the constraints: products with them, and solves with their weighted Gram matrix.

Inequality rows are the general rows followed by the bounds, which are never stored as rows: a bound is one
coefficient in one column. An operator holds a batch of constraint sets; parts shared by the whole batch are
stored once, with a leading dimension of 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

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
        runs: How often ``columns`` counts through all variables, 0 where it leaves any out. Then nothing is indexed,
            which costs several times what it moves.
    """

    columns: Tensor
    coefficients: Tensor
    runs: int = 0

    @cached_property
    def signs(self) -> tuple[Tensor, ...]:
        """The coefficients of each run, ``(b or 1, v)``."""
        return self.coefficients.chunk(self.runs, 1)

    @cached_property
    def squares(self) -> Tensor:
        return self.coefficients.square()

    def take(self, items: Tensor) -> Bounds:
        return self if self.coefficients.shape[0] == 1 else replace(self, coefficients=self.coefficients[items])

    def scaled(self, rows: Tensor, columns: Tensor) -> Bounds:
        """Rows ``(b or 1, k)`` and columns ``(b or 1, v)`` multiplied."""
        return replace(self, coefficients=self.coefficients * rows * columns[:, self.columns])

    def rows(self, x: Tensor) -> Tensor:
        """``(…, b, v)`` to ``(…, b, rows)``."""
        if self.runs:
            return torch.cat([signs * x for signs in self.signs], -1)
        return self.coefficients * x[..., self.columns]

    def add_transposed(self, total: Tensor, z: Tensor) -> Tensor:
        """``total + rowsᵀ z``, for ``(…, b, v)`` and ``(…, b, rows)``."""
        if not self.columns.numel():
            return total
        if not self.runs:
            return total.index_add(-1, self.columns, self.coefficients * z)
        for signs, run in zip(self.signs, z.chunk(self.runs, -1), strict=True):
            total = torch.addcmul(total, signs, run)
        return total

    def matrix(self, variables: int) -> Tensor:
        """The rows themselves, ``(b or 1, rows, v)``."""
        unit = torch.eye(variables, dtype=self.coefficients.dtype, device=self.columns.device)
        return self.coefficients[:, :, None] * unit[self.columns]

    def diagonal(self, weights: Tensor, variables: int) -> Tensor:
        """``rowsᵀ diag(weights) rows``, which is diagonal: ``(b, v)``."""
        parts = self.squares * weights
        if self.runs:
            return parts.reshape(len(parts), self.runs, variables).sum(1)
        return parts.new_zeros(len(parts), variables).index_add(1, self.columns, parts)


class Factor(ABC):
    """A factorised Gram matrix."""

    @abstractmethod
    def solve(self, right: Tensor) -> Tensor:
        """``(…, b, v)`` right-hand sides to ``(…, b, v)`` solutions."""

    @abstractmethod
    def pivot(self) -> Tensor:
        """The smallest pivot, relative to a diagonal of one: ``(b,)``, near zero where the matrix is singular."""


class Operator(ABC):
    """Inequality and equality rows of a batch of programs.

    Vectors are ``(b, ·)``, or ``(k, b, ·)`` for k at once.

    Attributes:
        batch: Number of programs, b.
        variables: v.
        general: Number of inequality rows without the bounds, m.
        equal: Number of equality rows without those of one entry.
        bounds: The bounds, as rows after the general ones.
        pinned: Fixed variables, as equality rows of one entry after the others.
    """

    batch: int
    variables: int
    general: int
    equal: int
    bounds: Bounds
    pinned: Bounds

    @property
    def shared(self) -> bool:
        """Whether all items have the same general and equality rows."""
        return True

    @property
    def inequalities(self) -> int:
        return self.general + self.bounds.columns.numel()

    @property
    def equalities(self) -> int:
        return self.equal + self.pinned.columns.numel()

    @cached_property
    def wide(self) -> bool:
        """Whether systems are solved with one unknown per row (see `row_factor`): where those are fewer."""
        return self.general + self.equal + self.loose.numel() < self.variables

    @cached_property
    def loose(self) -> Tensor:
        """Columns that some item of the batch neither bounds nor fixes."""
        held = self.bounds.diagonal(torch.ones_like(self.bounds.coefficients), self.variables) + self.pin_diagonal()
        return (held == 0).any(0).nonzero().squeeze(1)

    def replaced(self, **fields: Any) -> Self:
        """With other fields, solved as this one is: an item's answer does not depend on its neighbours' leaving."""
        other = copy(self)
        for name in ("matrix", "turned", "whole"):  # what was made of the old fields
            vars(other).pop(name, None)
        vars(other).update(fields, wide=self.wide, loose=self.loose)
        return other

    def take(self, items: Tensor) -> Self:
        """The operator of some items of the batch."""
        return self.replaced(bounds=self.bounds.take(items), pinned=self.pinned.take(items), batch=items.numel())

    def inequality(self, x: Tensor) -> Tensor:
        """``(…, b, v)`` to ``(…, b, inequalities)``."""
        return torch.cat((self.general_rows(x), self.bounds.rows(x)), -1)

    def inequality_t(self, z: Tensor) -> Tensor:
        """``(…, b, inequalities)`` to ``(…, b, v)``."""
        return self.bounds.add_transposed(self.general_rows_t(z[..., : self.general]), z[..., self.general :])

    def equality(self, x: Tensor) -> Tensor:
        """``(…, b, v)`` to ``(…, b, equalities)``."""
        rows = self.equal_rows(x)
        return torch.cat((rows, self.pinned.rows(x)), -1) if self.pinned.columns.numel() else rows

    def at(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Inequality and equality rows at x."""
        return self.inequality(x), self.equality(x) if self.equalities else x[..., :0]

    def combined(self, z: Tensor, y: Tensor) -> Tensor:
        """``G'z + E'y`` for ``(…, b, inequalities)`` and ``(…, b, equalities)``."""
        return self.inequality_t(z) + self.equality_t(y) if self.equalities else self.inequality_t(z)

    def equality_t(self, y: Tensor) -> Tensor:
        """``(…, b, equalities)`` to ``(…, b, v)``."""
        return self.pinned.add_transposed(self.equal_rows_t(y[..., : self.equal]), y[..., self.equal :])

    def stacked(self, x: Tensor) -> Tensor:
        """General and equality rows, without those of one entry: ``(…, b, v)`` to ``(…, b, general + equal)``."""
        return torch.cat((self.general_rows(x), self.equal_rows(x)), -1)

    def stacked_t(self, z: Tensor) -> Tensor:
        """``(…, b, general + equal)`` to ``(…, b, v)``."""
        return self.general_rows_t(z[..., : self.general]) + self.equal_rows_t(z[..., self.general :])

    def bound_diagonal(self, weights: Tensor) -> Tensor:
        """The bounds' part of the Gram matrix, ``(b, v)``; ``weights`` has one entry per inequality."""
        return self.bounds.diagonal(weights[:, self.general :], self.variables)

    def pin_diagonal(self) -> Tensor:
        """The same for fixed variables, which have weight one: ``(b or 1, v)``."""
        return self.pinned.diagonal(torch.ones_like(self.pinned.coefficients), self.variables)

    def factor(self, weights: Tensor, ridge: float = RIDGE) -> Factor:
        """Factorise ``Σ_i weights_i g_i g_iᵀ + E'E``; ``weights`` is ``(b, inequalities)``."""
        extra = self.bound_diagonal(weights) + self.pin_diagonal()
        return self.gram_factor(weights[:, : self.general], extra, ridge)

    @abstractmethod
    def general_rows(self, x: Tensor) -> Tensor:
        """``(…, b, v)`` to ``(…, b, general)``."""

    @abstractmethod
    def general_rows_t(self, z: Tensor) -> Tensor:
        """``(…, b, general)`` to ``(…, b, v)``."""

    @abstractmethod
    def equal_rows(self, x: Tensor) -> Tensor:
        """``(…, b, v)`` to ``(…, b, equal)``."""

    @abstractmethod
    def equal_rows_t(self, y: Tensor) -> Tensor:
        """``(…, b, equal)`` to ``(…, b, v)``."""

    @abstractmethod
    def gram_factor(self, weights: Tensor, diagonal: Tensor, ridge: float) -> Factor:
        """Factorise ``R' diag(weights) R + E'E + diag(diagonal)``, variables × variables."""

    @abstractmethod
    def row_factor(self, theta: Tensor, diagonal: Tensor, keep: Tensor | None = None) -> Factor:
        """Factorise ``K diag(theta) K' + diag(diagonal)``, rows × rows; K is `stacked`, rows not in ``keep`` zero."""

    @abstractmethod
    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> Self:
        """General rows, equality rows and columns multiplied by positive factors ``(b or 1, ·)``; bounds as they are.

        (A bound row divided by its column's factor is the same row in the scaled variable.)
        """

    @abstractmethod
    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        """Largest absolute entry of each general row, equality row and column, ``(b or 1, ·)``, bounds left out."""

    @abstractmethod
    def to_scipy(self) -> tuple[Any, Any]:
        """General rows and equality rows of a batch of one, as numpy or scipy matrices (for HiGHS)."""
