"""Sketched Hessians: Newton steps from a reduced constraint matrix, gradients from the whole one.

The paper solves a *smaller program*, S A and S b, and gets a nearby answer. Here only the Hessian ``AᵀDA ≈ (SA)ᵀ(SA)``
is sketched, while gradient and line search stay exact (iterative Hessian sketch), so the answer is the exact one and
the sketch costs steps instead of accuracy.

References:
    Pilanci, Wainwright, Iterative Hessian sketch, 2016.
    Clarkson, Woodruff, Low-rank approximation and regression in input sparsity time, 2013 (count-sketch).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Bounds, Factor
from .dense import CholeskyFactor, DenseOperator


class SketchedOperator(DenseOperator):
    """Dense rows whose Gram matrix is estimated from ``size`` rows (or sums of rows).

    ``kind``: ``"rows"`` samples active rows uniformly; ``"count"`` adds every active row to one of ``size`` buckets,
    with a random sign; ``"leverage"`` samples by the rows' leverage scores, the directions that the constraint matrix
    itself marks as important: the data-driven reduction.
    """

    def __init__(
        self,
        rows: Tensor,
        equality_rows: Tensor,
        bounds: Bounds,
        pinned: Bounds,
        batch: int,
        kind: str,
        size: int,
        generator: torch.Generator,
        leverage: Tensor | None = None,
    ) -> None:
        super().__init__(rows, equality_rows, bounds, pinned, batch)
        self.wide = False  # the sketch is of the Gram matrix
        self.kind, self.size, self.generator = kind, size, generator
        if kind == "leverage" and leverage is None:
            basis = torch.linalg.qr(rows).Q if rows.shape[-2] >= rows.shape[-1] else rows
            leverage = basis.square().sum(-1) + 1e-12
        self.leverage = leverage

    @staticmethod
    def of(operator: DenseOperator, kind: str, size: int, generator: torch.Generator) -> SketchedOperator:
        whole = (operator.rows, operator.equality_rows, operator.bounds, operator.pinned, operator.batch)
        return SketchedOperator(*whole, kind, size, generator)

    def take(self, items: Tensor) -> SketchedOperator:
        plain = super().take(items)
        leverage = self.leverage
        if leverage is not None and leverage.shape[0] > 1:
            leverage = leverage[items]
        whole = (plain.rows, plain.equality_rows, plain.bounds, plain.pinned, plain.batch)
        return SketchedOperator(*whole, self.kind, self.size, self.generator, leverage)

    def gram_factor(self, weights: Tensor, diagonal: Tensor, ridge: float) -> Factor:
        if self.size >= self.general:
            return super().gram_factor(weights, diagonal, ridge)
        small = self._count(weights) if self.kind == "count" else self._sample(weights)
        gram = small.mT @ small + self.equality_rows.mT @ self.equality_rows
        gram.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        # Fewer rows than variables leave directions without curvature: a floor keeps the step finite there.
        floor = 1e-3 * gram.diagonal(dim1=-2, dim2=-1).mean(1).clamp_min(1e-12)
        gram.diagonal(dim1=-2, dim2=-1).add_(floor[:, None])
        return CholeskyFactor(gram, ridge)

    def _count(self, weights: Tensor) -> Tensor:
        b, m = weights.shape
        bucket = torch.randint(self.size, (m,), generator=self.generator).to(weights.device)
        sign = (2.0 * torch.randint(2, (m,), generator=self.generator) - 1.0).to(weights)
        rows = (weights.sqrt() * sign)[:, :, None] * self.rows
        return weights.new_zeros(b, self.size, self.variables).index_add_(1, bucket, rows)

    def _sample(self, weights: Tensor) -> Tensor:
        chance = weights if self.leverage is None else weights * self.leverage
        chance = chance + 1e-12 / weights.shape[1]
        chosen = torch.multinomial(chance.cpu(), self.size, True, generator=self.generator).to(weights.device)
        share = (chance / chance.sum(1, keepdim=True)).gather(1, chosen)
        scale = (weights.gather(1, chosen) / (share * self.size)).sqrt()
        rows = self.rows.expand(weights.shape[0], -1, -1)
        return scale[:, :, None] * rows.gather(1, chosen[:, :, None].expand(-1, -1, self.variables))
