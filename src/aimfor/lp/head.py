"""`LPHead`: the last layer's weights are the variables of the program, the representations make its constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Status, attached_zero
from ..errors import InputError
from .gradients import ActiveSet, GradientRule
from .operators.structured import PairRows
from .public import solve


@dataclass(frozen=True)
class LPHeadOutput:
    """The best linear scorer of these representations.

    Attributes:
        loss: One minus the bound on the metric, attached to the features by the envelope gradient.
        weight: ``(d,)``, attached by the head's gradient rule.
        bias: Scalar; zero for AUROC, which has none.
        scores: ``features @ weight + bias``, ``(n,)``.
        status: How the solve ended.

    Example:
        >>> import torch, aimfor
        >>> out = aimfor.lp.LPHead("auroc")(torch.tensor([[1.0], [0.0]]), torch.tensor([1, 0]))
        >>> out.loss.item(), out.status.name, tuple(out.scores.shape)
        (0.0, 'ok', (2,))
    """

    loss: Tensor
    weight: Tensor
    bias: Tensor
    scores: Tensor
    status: Status


class LPHead(nn.Module):
    """Solves for the linear scorer that is best for the metric *on this batch*; the network learns the features.

    ``metric="auroc"``, hinge over all pairs (Meng's (1) with w inside, rows never formed):

        min mean z_ij   s.t.   w·(x_i − x_j) >= 1 − z_ij,  z >= 0,  |w| <= limit

    ``metric="fbeta"``, Ravi's problem 2, n positives:

        min β²nε + Σ φ   s.t.   τ_i <= ε,  τ_i <= w·x_i + s,  φ_j >= ε + w·x_j + s,  φ >= 0,  Σ τ = 1,  ε >= 0

    whose value V gives the bound ``F_β >= (1 + β²)/(1 + V)`` at threshold zero of the scorer. There w and s are
    measured in units of ε, so the scorer returned is ``(w, s)/ε``.

    Args:
        metric: ``"auroc"`` or ``"fbeta"``.
        beta: β of F_β.
        limit: Box on the weights (of AUROC: their size; of F_β: relative to ε). Without it a separable batch has no
            unique scorer.
        gradient: What ∂weight is; `ActiveSet` by default. The loss always has the envelope gradient.

    Example:
        >>> import torch, aimfor
        >>> x = torch.tensor([[2.0, 0.1], [1.5, -0.3], [0.0, 0.2], [-0.5, 0.4]], requires_grad=True)
        >>> out = aimfor.lp.LPHead("fbeta")(x, torch.tensor([1, 1, 0, 0]))
        >>> out.loss.backward()
        >>> bool((out.scores[:2] > 0).all() and (out.scores[2:] < 0).all())
        True
    """

    def __init__(
        self, metric: str = "auroc", *, beta: float = 1.0, limit: float = 10.0, gradient: GradientRule | None = None
    ) -> None:
        super().__init__()
        self.metric = checks.one_of("metric", metric, ("auroc", "fbeta"))
        self.beta = checks.number("beta", beta, above=0)
        self.limit = checks.number("limit", limit, above=0)
        self.gradient = ActiveSet() if gradient is None else gradient

    def forward(self, features: Tensor, targets: Tensor) -> LPHeadOutput:
        """``features`` ``(n, d)`` and 0/1 ``targets`` ``(n,)``."""
        if not isinstance(features, Tensor) or features.ndim != 2 or not features.is_floating_point():
            came = f"shape {tuple(features.shape)}" if isinstance(features, Tensor) else f"a {type(features).__name__}"
            raise InputError("features", came, "a float (n, d) tensor")
        batch = checks.binary(features[:, 0] if features.shape[1] else features.sum(1), targets)
        positive = batch.targets
        p, n = int(positive.sum()), positive.numel()
        if not 0 < p < n:
            zero = attached_zero(features)
            blank = features.new_zeros(features.shape[1])
            return LPHeadOutput(zero, blank, zero.detach(), features.detach() @ blank, Status.undefined_batch)
        high, low = features[positive], features[~positive]
        run = self._auroc if self.metric == "auroc" else self._fbeta
        loss, weight, bias, status = run(high, low)
        return LPHeadOutput(loss, weight, bias, features @ weight + bias, status)

    def _auroc(self, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor, Tensor, Status]:
        p, q, d = len(high), len(low), high.shape[1]
        cost = torch.cat((high.new_zeros(d), high.new_full((p * q,), 1.0 / (p * q))))
        box = torch.cat((high.new_full((d,), self.limit), high.new_full((p * q,), torch.inf)))
        lower = torch.cat((high.new_full((d,), -self.limit), high.new_zeros(p * q)))
        rows = PairRows(torch.cat((high, low)), p)
        s = solve(cost, rows, high.new_full((p * q,), -1.0), lower=lower, upper=box, gradient=self.gradient)
        return s.value, s.x[:d], s.x.new_zeros(()), s.status

    def _fbeta(self, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor, Tensor, Status]:
        arguments = fbeta_head_program(high, low, self.beta, self.limit)
        s = solve(**arguments, gradient=self.gradient)
        p, q = len(high), len(low)
        unit = s.x[p + q].clamp_min(torch.finfo(s.x.dtype).tiny)
        weight, bias = s.x[p + q + 2 :] / unit, s.x[p + q + 1] / unit
        return 1.0 - (1.0 + self.beta**2) / (1.0 + s.value), weight, bias, s.status

    def extra_repr(self) -> str:
        return f"metric={self.metric!r}, beta={self.beta:g}, limit={self.limit:g}"


def fbeta_head_program(high: Tensor, low: Tensor, beta: float, limit: float) -> dict[str, Any]:
    """Ravi's problem 2 with variables τ (p), φ (q), ε, s, w (d)."""
    p, q, d = len(high), len(low), high.shape[1]
    eye_p, eye_q = torch.eye(p).to(high), torch.eye(q).to(high)
    zeros, ones = high.new_zeros, high.new_ones
    box = torch.eye(d).to(high)
    rows = torch.cat(
        (
            torch.cat((eye_p, zeros(p, q), -ones(p, 1), zeros(p, 1 + d)), 1),  # τ <= ε
            torch.cat((eye_p, zeros(p, q + 1), -ones(p, 1), -high), 1),  # τ <= w·x + s
            torch.cat((zeros(q, p), -eye_q, ones(q, 2), low), 1),  # ε + w·x + s <= φ
            torch.cat((zeros(d, p + q), zeros(d, 1) - limit, zeros(d, 1), box), 1),  # |w| <= limit · ε
            torch.cat((zeros(d, p + q), zeros(d, 1) - limit, zeros(d, 1), -box), 1),
        )
    )
    cost = torch.cat((zeros(p), ones(q), zeros(1) + beta**2 * p, zeros(1 + d)))
    lower = torch.full_like(cost, -torch.inf)
    lower[p : p + q + 1] = 0.0
    total = torch.cat((ones(p), zeros(q + 2 + d)))
    return {"c": cost, "A": rows, "b": zeros(len(rows)), "A_eq": total[None], "b_eq": ones(1), "lower": lower}
