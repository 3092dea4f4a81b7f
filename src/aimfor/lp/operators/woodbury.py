"""A Gram solve with one unknown per row, for Newton steps that only need a direction."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Factor, Operator


class WoodburyFactor(Factor):
    """``(K'WK + B + ρI)⁻¹ = Θ − Θ K'√W (I + √W K Θ K'√W)⁻¹ √W K Θ`` with ``Θ = (B + ρI)⁻¹``.

    W are 0/1 weights. A variable that no bound holds has Θ = 1/ρ, which costs as many digits as ρ has.
    """

    def __init__(self, operator: Operator, active: Tensor, ridge: float) -> None:
        self.operator = operator
        held = operator.bound_diagonal(active) + operator.pin_diagonal()
        self.theta = (1.0 / (held + ridge))[:, :, None]
        self.keep = torch.cat((active[:, : operator.general], active.new_ones(active.shape[0], operator.equal)), 1)
        self.inner = operator.row_factor(self.theta[:, :, 0], torch.ones_like(self.keep), self.keep)

    def pivot(self) -> Tensor:
        return self.inner.pivot()

    def solve(self, right: Tensor) -> Tensor:
        keep = self.keep[:, :, None]
        rows = keep * self.inner.solve(keep * self.operator.stacked(self.theta * right))
        return self.theta * (right - self.operator.stacked_t(rows))
