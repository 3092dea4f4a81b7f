"""Rows that are never formed: one for each positive-negative pair, over the weights of a linear scorer and one slack.

    −(x_i − x_j)·w − z_ij <= rhs_ij            i a positive, j a negative

The matrix would have pq rows and d + pq columns. Products need two small matrix products and sums over pairs; the Gram
matrix is an arrow (a diagonal for z, a d × d corner for w), so it is solved exactly by eliminating z.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ...errors import InputError
from .base import Bounds, Factor, Operator
from .dense import CholeskyFactor


@dataclass(frozen=True)
class PairRows:
    """All pair constraints of p positives and q negatives, to pass as ``A`` to `aimfor.lp.solve`.

    Variables are ``(w, z)`` with w of length d and z_ij at position ``d + i q + j``.

    Args:
        features: ``(p + q, d)``, the positives first. With d = 0 only the slacks are variables: the scores are fixed
            and stand in the right-hand side, ``f_i − f_j − margin``.
        positives: p.

    Example:
        >>> import torch, aimfor
        >>> x = torch.tensor([[2.0], [1.0], [0.0]])
        >>> rows = aimfor.lp.PairRows(x, positives=1)
        >>> c, b, upper = torch.tensor([0.0, 1.0, 1.0]), torch.full((2,), -1.0), torch.tensor([1.0, 9.0, 9.0])
        >>> solution = aimfor.lp.solve(c, rows, b, lower=0.0, upper=upper)
        >>> solution.x.tolist(), solution.value.item()
        ([1.0, 0.0, 0.0], 0.0)
    """

    features: Tensor
    positives: int

    def __post_init__(self) -> None:
        if not isinstance(self.features, Tensor) or self.features.ndim != 2:
            raise InputError("features", repr(type(self.features).__name__), "a (p + q, d) tensor, positives first")
        if not 0 < self.positives < self.features.shape[0]:
            raise InputError(
                "positives", repr(self.positives), f"1 to {self.features.shape[0] - 1}, so that both classes are there"
            )

    @property
    def negatives(self) -> int:
        return self.features.shape[0] - self.positives

    @property
    def shape(self) -> tuple[int, int]:
        pairs = self.positives * self.negatives
        return pairs, self.features.shape[1] + pairs

    def dense(self) -> Tensor:
        """The matrix itself, for small tests."""
        p, d = self.positives, self.features.shape[1]
        gaps = (self.features[:p, None] - self.features[None, p:]).reshape(self.shape[0], d)
        return torch.cat((-gaps, -torch.eye(len(gaps), dtype=gaps.dtype, device=gaps.device)), 1)


class PairOperator(Operator):
    """The products and the exact Gram solve of `PairRows`, for a batch that shares the features."""

    equal = 0
    wide = False  # an arrow is quicker than either square

    def __init__(self, features: Tensor, positives: int, bounds: Bounds, batch: int) -> None:
        # Only differences count: centred features lose less to cancellation.
        features = features - features.mean(0)
        self.positives, self.bounds, self.batch = positives, bounds, batch
        self.pinned = Bounds(bounds.columns[:0], bounds.coefficients[:, :0])
        self.high, self.low = features[:positives], features[positives:]
        self.weights = features.shape[1]
        self.general = positives * (features.shape[0] - positives)
        self.variables = self.weights + self.general

    def general_rows(self, x: Tensor) -> Tensor:
        w, z = x[..., : self.weights], x[..., self.weights :]
        gaps = (w @ self.low.mT)[..., None, :] - (w @ self.high.mT)[..., None]
        return gaps.reshape(z.shape) - z

    def general_rows_t(self, z: Tensor) -> Tensor:
        table = z.reshape(*z.shape[:-1], self.positives, -1)
        return torch.cat((table.sum(-2) @ self.low - table.sum(-1) @ self.high, -z), -1)

    def equal_rows(self, x: Tensor) -> Tensor:
        return x[..., :0]

    def equal_rows_t(self, y: Tensor) -> Tensor:
        return y.new_zeros(*y.shape[:-1], self.variables)

    def gram_factor(self, weights: Tensor, diagonal: Tensor, ridge: float) -> Factor:
        return _ArrowFactor(self, weights, diagonal, ridge)

    def row_factor(self, theta: Tensor, diagonal: Tensor, keep: Tensor | None = None) -> Factor:
        raise NotImplementedError("PairRows are solved by their arrow")

    def gap_gram(self, omega: Tensor) -> Tensor:
        """``Σ_ij ω_ij (x_i − x_j)(x_i − x_j)ᵀ`` without the pairs: ``(b, pq)`` to ``(b, d, d)``."""
        table = omega.reshape(omega.shape[0], self.positives, -1)
        cross = self.high.mT @ table @ self.low
        own = self.high.mT @ (table.sum(2)[:, :, None] * self.high)
        other = self.low.mT @ (table.sum(1)[:, :, None] * self.low)
        return own + other - cross - cross.mT

    def scaled(self, rows: Tensor, equality_rows: Tensor, columns: Tensor) -> Self:
        # `largest` asks for a scaling of w's columns only: anything else would break the structure.
        scale = columns[0, : self.weights]
        return self.replaced(high=self.high * scale, low=self.low * scale)

    def largest(self) -> tuple[Tensor, Tensor, Tensor]:
        ones = self.high.new_ones(1, self.general)
        reach = (self.high.amax(0) - self.low.amin(0)).abs().maximum((self.low.amax(0) - self.high.amin(0)).abs())
        columns = torch.cat((reach.square()[None], ones), 1)  # squared: a root is taken
        return ones, ones[:, :0], columns

    def to_scipy(self) -> tuple[Any, Any]:
        sparse: Any = importlib.import_module("scipy.sparse")
        gaps = (self.low[None] - self.high[:, None]).reshape(self.general, self.weights)
        rows = sparse.hstack([sparse.csr_matrix(gaps.cpu().numpy()), -sparse.identity(self.general)])
        return rows.tocsr(), sparse.csr_matrix((0, self.variables))


class _ArrowFactor(Factor):
    """``[K, B; Bᵀ, diag(s)]`` by elimination of the slacks: ``S = Σ (D − D²/s) δδᵀ + diag``, d × d."""

    def __init__(self, operator: PairOperator, weights: Tensor, extra: Tensor, ridge: float) -> None:
        self.operator, d = operator, operator.weights
        self.rows = weights
        slack = self.rows + extra[:, d:]
        # A slack that nothing holds gets the ridge alone, as a column without rows does in the dense factor.
        self.slack = torch.where(slack > 0, slack * (1.0 + ridge), ridge)
        corner = operator.gap_gram(self.rows * ((self.slack - self.rows) / self.slack))
        corner.diagonal(dim1=-2, dim2=-1).add_(extra[:, :d])
        self.corner = CholeskyFactor(corner, ridge)

    def pivot(self) -> Tensor:
        return self.corner.pivot()

    def solve(self, right: Tensor) -> Tensor:
        g, d = self.operator, self.operator.weights
        top, bottom = right[..., :d], right[..., d:] / self.slack
        # The off-diagonal block is Aᵀ D restricted to w times the slack column: B r = corner part of Aᵀ(−D r).
        w = self.corner.solve(top + g.general_rows_t(self.rows * bottom)[..., :d])
        along = g.general_rows(torch.cat((w, torch.zeros_like(bottom)), -1))
        return torch.cat((w, bottom + self.rows * along / self.slack), -1)


def pair_gradient(pairs: list[tuple[Tensor, Tensor]], rows: PairRows) -> Tensor:
    """``Σ left rightᵀ`` (a gradient w.r.t. the matrix) folded back to the features, ``(p + q, d)``."""
    p, d = rows.positives, rows.features.shape[1]
    total = torch.zeros_like(rows.features)
    for left, right in pairs:
        table, w = left.reshape(left.shape[0], p, -1), right[:, :d]
        total[:p] -= table.sum(2).mT @ w
        total[p:] += table.sum(1).mT @ w
    return total
