"""Ravi §6 as printed: recall, precision and AUC as rate constraints, reparameterised with one τ and one λ an example.

The paper says in a paragraph that point metrics "can be represented as rate constraints" and reparameterised like F_β,
without its linear-fractional step, and that integrals are a grid of such points. Written out for one operating point
with threshold b (`aimfor.rates.form.Anchor`: gain, price, a, b, c) and z = score − b:

    max  gain·T − price·Φ   s.t.  a·T − b·Φ + c ≥ 0,  T = mean τ_i,  τ_i ≤ 1,  τ_i ≤ z_i,  Φ = mean max(0, 1 + z_j),

T over positives, below the true positive rate, Φ over negatives, above the false positive rate. λ_i ≥ 0 goes with
τ_i ≤ z_i and μ ≥ 0 with the rates; {τ ≤ 1} is projected onto once an epoch, which is as cheap as can be. The library
trains the same metrics by `RateEngine`, with multipliers of the rates alone: this is what it is compared with.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aimfor.rates.form import Anchor


class RateDuals(nn.Module):
    """The Lagrangian of some operating points, augmented as `LagrangianEngine`'s is.

    Args:
        points: k of them, of one metric: ``metric.anchors()``, or a grid for an integral.
        labels: ``(N,)`` bool, of the whole data set.
        penalty: ρ of the augmented terms, and the dual step.
        primal_step: Of τ, per epoch; of the thresholds, per epoch.
    """

    tau: Tensor
    lam: Tensor
    mu: Tensor
    threshold: Tensor
    scores: Tensor
    gain: Tensor
    price: Tensor
    a: Tensor
    b: Tensor
    c: Tensor

    def __init__(
        self, points: tuple[Anchor, ...], labels: Tensor, penalty: float = 3.0, primal_step: float = 0.1
    ) -> None:
        super().__init__()
        k, self.positives = len(points), int(labels.sum())
        self.penalty, self.primal_step = penalty, primal_step
        odds = float((~labels).sum() / labels.sum())
        rows = [(one.gain, one.price, one.a, one.b * (odds if one.odds else 1.0), one.c) for one in points]
        self.gain, self.price, self.a, self.b, self.c = torch.tensor(rows, dtype=torch.float64).T
        self.labels = labels
        self.slot = torch.where(labels, labels.cumsum(0) - 1, -1)
        for name, start in (("tau", torch.ones(k, self.positives)), ("lam", torch.zeros(k, self.positives))):
            self.register_buffer(name, start.double())
        self.register_buffer("mu", torch.ones(k, dtype=torch.float64))
        self.register_buffer("threshold", torch.zeros(k, dtype=torch.float64))
        self.register_buffer("scores", torch.zeros(len(labels), dtype=torch.float64))

    def short(self) -> Tensor:
        """``(k,)`` how far each bound is from being kept, with the scores as they were seen last."""
        above = (1.0 + self.scores[~self.labels] - self.threshold[:, None]).relu().mean(1)
        found: Tensor = self.b * above - self.a * self.tau.mean(1) - self.c
        return found

    def forward(self, scores: Tensor, index: Tensor) -> Tensor:
        """The Lagrangian's part that moves with the scores; τ and the thresholds take their step."""
        with torch.no_grad():
            self.scores[index] = scores.double()
            multiplier = (self.mu + self.penalty * self.short()).relu()
        positive = self.labels[index]
        size, n, m = len(index), self.positives, len(self.labels) - self.positives
        share = len(self.labels) / size
        z = scores.double() - self.threshold[:, None]
        slots = self.slot[index[positive]]
        with torch.no_grad():
            pull = (self.lam[:, slots] + self.penalty * (self.tau[:, slots] - z[:, positive])).relu()
            push = (self.price + multiplier * self.b)[:, None] * (1.0 + z[:, ~positive] > 0)
            wanted = (self.gain + multiplier * self.a)[:, None]
            self.tau[:, slots] -= self.primal_step * (pull - wanted)
            slope = share * (pull.sum(1) / n - push.sum(1) / m)
        loss: Tensor = share * ((push * z[:, ~positive]).sum(1) / m - (pull * z[:, positive]).sum(1) / n).mean()
        with torch.no_grad():
            self.threshold -= self.primal_step * slope / share
        return loss.to(scores.dtype)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Projection onto {τ ≤ 1}, then the dual step."""
        self.tau.clamp_(max=1.0)
        gap = self.tau - (self.scores[self.labels] - self.threshold[:, None])
        self.lam.add_(self.penalty * gap).relu_()
        self.mu.add_(self.penalty * self.short()).relu_()
