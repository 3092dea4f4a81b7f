"""`Sketch`: a smaller matrix in place of the constraints, in the Hessian alone or in the whole program."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import checks
from ..operators.dense import DenseOperator
from ..operators.sketched import SketchedOperator
from ..standard import Standard

KINDS = ("rows", "count", "leverage")


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
        self.kind = checks.one_of("kind", kind, KINDS)
        self.size = checks.integer("size", size, at_least=1)
        self.seed = checks.integer("seed", seed, at_least=0)

    def apply(self, program: Standard) -> Standard:
        """The same program with a sketched operator; sparse and structured rows are left as they are."""
        operator = program.operator
        if not isinstance(operator, DenseOperator):
            return program
        generator = torch.Generator().manual_seed(self.seed)
        return Standard(SketchedOperator.of(operator, self.kind, self.size, generator), program.c, program.h, program.f)

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
