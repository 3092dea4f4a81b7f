"""Sketched Hessians: Newton steps from a reduced constraint matrix, gradients from the whole one.

The paper solves a *smaller program*, S A and S b, and gets a nearby answer. Here only the Hessian ``AᵀDA ≈ (SA)ᵀ(SA)``
is sketched, while gradient and line search stay exact (iterative Hessian sketch), so the answer is the exact one and
the sketch costs steps instead of accuracy.

References:
    Pilanci, Wainwright, Iterative Hessian sketch, 2016.
    Clarkson, Woodruff, Low-rank approximation and regression in input sparsity time, 2013 (count-sketch).
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from ... import checks
from ..program import Standard
from .base import Factor
from .dense import CholeskyFactor, DenseOperator


class SketchedOperator(DenseOperator):
    """Dense rows whose Gram matrix is estimated from ``size`` rows (or sums of rows).

    ``kind``: ``"rows"`` samples active rows uniformly; ``"count"`` adds every active row to one of ``size`` buckets,
    with a random sign; ``"leverage"`` samples by the rows' leverage scores, the directions that the constraint matrix
    itself marks as important: the data-driven reduction.
    """

    wide = False  # the sketch is of the Gram matrix

    def __init__(self, whole: DenseOperator, kind: str, size: int, generator: torch.Generator) -> None:
        super().__init__(whole.rows, whole.equality_rows, whole.bounds, whole.pinned, whole.batch)
        self.kind, self.size, self.generator = kind, size, generator
        self.leverage: Tensor | None = None
        if kind == "leverage":
            rows = whole.rows
            basis = torch.linalg.qr(rows).Q if rows.shape[-2] >= rows.shape[-1] else rows
            self.leverage = basis.square().sum(-1) + 1e-12

    def take(self, items: Tensor) -> Self:
        taken = super().take(items)
        if self.leverage is not None and self.leverage.shape[0] > 1:
            taken.leverage = self.leverage[items]
        return taken

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


class Sketch:
    """How `PenaltyNewton` approximates its Hessian.

    Args:
        kind: ``"rows"``, ``"count"`` or ``"leverage"`` (see `SketchedOperator`).
        size: Rows of the reduced matrix.
        seed: Of the random choices.

    Example:
        >>> import torch, aimfor
        >>> A, b = torch.randn(200, 3).double(), torch.ones(200).double()
        >>> small, rhs = Sketch("rows", 20).reduce(A, b)
        >>> tuple(small.shape), tuple(rhs.shape)
        ((20, 3), (20,))
        >>> c, newton = -A[0], aimfor.lp.PenaltyNewton(sketch=Sketch("count", 64))
        >>> exact, sketched = aimfor.lp.solve(c, A, b), aimfor.lp.solve(c, A, b, method=newton)
        >>> torch.allclose(exact.value, sketched.value)
        True
    """

    def __init__(self, kind: str = "leverage", size: int = 64, seed: int = 0) -> None:
        self.kind = checks.one_of("kind", kind, ("rows", "count", "leverage"))
        self.size = checks.integer("size", size, at_least=1)
        self.seed = checks.integer("seed", seed, at_least=0)

    def apply(self, program: Standard) -> Standard:
        """The same program with a sketched operator; sparse and structured rows are left as they are."""
        operator = program.operator
        if not isinstance(operator, DenseOperator):
            return program
        generator = torch.Generator().manual_seed(self.seed)
        return Standard(SketchedOperator(operator, self.kind, self.size, generator), program.c, program.h, program.f)

    def reduce(self, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """The paper's other use: a smaller program ``(S A, S b)`` for the whole one, of ``(m, v)`` and ``(m,)``.

        Rows are kept with positive weights only, so that every kept constraint is one of the original or a nonnegative
        sum of them: the feasible set can only grow, and the optimum is a lower bound.
        """
        generator = torch.Generator().manual_seed(self.seed)
        m = A.shape[0]
        if self.size >= m:
            return A, b
        if self.kind == "count":
            bucket = torch.randint(self.size, (m,), generator=generator).to(A.device)
            zero = A.new_zeros(self.size, A.shape[1])
            return zero.index_add(0, bucket, A), b.new_zeros(self.size).index_add(0, bucket, b)
        chance = torch.ones(m, dtype=torch.float64)
        if self.kind == "leverage":
            both = torch.cat((A, b[:, None]), 1).detach().double().cpu()
            chance = torch.linalg.qr(both).Q.square().sum(1) + 1e-12
        keep = torch.multinomial(chance, self.size, False, generator=generator).sort().values.to(A.device)
        return A[keep], b[keep]
