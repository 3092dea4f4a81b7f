"""The variables of one F_β program: τ and λ for each positive example, ε and μ, all visible and all saved.

They are stored well scaled. With n positives the program wants Στ = 1, so τ, ε and the scores are of size 1/n; here
``tau`` is n·τ, ``epsilon`` is n·ε and the scores are n·f (a last layer absorbs the factor). λ, μ and the value V are
the papers' own. In these units the Lagrangian is, with t = n·τ, e = n·ε,

    L = β²e + (1/n) Σ_neg φ(g_j; e) + μ r + mean λ_i (t_i − g_i),      r = mean t − 1,

and nothing in it grows or shrinks with n. With ``penalty`` ρ > 0 the augmented terms ``ρr²/2`` and
``((λ_i + ρ(t_i − g_i))₊² − λ_i²)/2ρ`` take the place of the linear ones: same saddle points, but descent and ascent
steps converge to them instead of circling.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .projections import project_cap, project_cap_sampled
from .surrogates import Surrogate


class Terms(NamedTuple):
    """The Lagrangian on a batch and its gradients: with respect to the scores, n·ε, and n·τ of the batch's slots."""

    loss: Tensor
    by_score: Tensor
    by_epsilon: Tensor
    by_tau: Tensor
    slots: Tensor


class Duals(nn.Module):
    """State of one program between the examples in ``positive`` and those in ``negative``.

    Args:
        positive: ``(N,)`` bool over the data set, at least one True.
        negative: ``(N,)`` bool over the data set, disjoint from it, at least one True.
        cap: Also keep one multiplier γ_i for each τ_i ≤ ε (Venkatesh), instead of projecting.
        trainable: Whether τ and ε receive gradients, for a user's optimizer to step them.
    """

    slot: Tensor
    where_positive: Tensor
    where_negative: Tensor
    lam: Tensor
    mu: Tensor
    gamma: Tensor
    scores: Tensor
    seen: Tensor
    fresh: Tensor

    def __init__(self, positive: Tensor, negative: Tensor, *, cap: bool, trainable: bool) -> None:
        super().__init__()
        self.positives, self.negatives, self.cap = int(positive.sum()), int(negative.sum()), cap
        n = self.positives
        self.tau = nn.Parameter(torch.ones(n), requires_grad=trainable)
        self.epsilon = nn.Parameter(torch.ones(()), requires_grad=trainable)
        self.register_buffer("lam", torch.zeros(n))
        self.register_buffer("mu", torch.zeros(()))
        self.register_buffer("gamma", torch.zeros(n if cap else 0))
        # Last score of each example, which of them are known, and which are new since the last dual step.
        self.register_buffer("scores", torch.zeros(positive.numel()))
        self.register_buffer("seen", torch.zeros(positive.numel(), dtype=torch.bool))
        self.register_buffer("fresh", torch.zeros(n, dtype=torch.bool))
        slot = torch.where(positive, positive.cumsum(0) - 1, -1)
        self.register_buffer("slot", slot, persistent=False)
        self.register_buffer("where_positive", positive.nonzero().squeeze(1), persistent=False)
        self.register_buffer("where_negative", negative.nonzero().squeeze(1), persistent=False)

    @property
    def size(self) -> int:
        """Number of examples of the data set that take part."""
        return self.positives + self.negatives

    @torch.no_grad()
    def terms(
        self,
        scores: Tensor,
        positive: Tensor,
        index: Tensor,
        beta: float,
        penalty: float,
        surrogate: Surrogate,
        stratified: bool,
    ) -> Terms:
        """The Lagrangian estimated from a batch, without bias, and its gradients. Touches no state.

        ``stratified`` scales positives by n/B⁺ and negatives by their own counts (class-balanced sampling);
        otherwise both by N/B, which is unbiased for uniform batches even when one class is missing from some.
        """
        dtype, n = scores.dtype, self.positives
        rows = positive.nonzero().squeeze(1)
        slots, epsilon = self.slot[index[rows]], self.epsilon.to(dtype)
        present = rows.numel()
        if stratified:
            up = n / max(present, 1)
            down = self.negatives / max(positive.numel() - present, 1)
        else:
            up = down = self.size / positive.numel()
        cost, by_score, by_epsilon = surrogate(scores, epsilon)
        keep = torch.logical_not(positive).to(dtype).mul_(down / n)
        by_score = by_score * keep
        tau = self.tau[slots].to(dtype)
        gap = tau - scores[rows]
        value, pull = _multiplied(self.lam[slots].to(dtype), gap, penalty)
        residual = self.tau.mean().to(dtype) - 1.0
        force = self.mu.to(dtype) + penalty * residual
        by_tau = pull + force
        slope = beta * beta + torch.dot(by_epsilon, keep)
        total = value.sum()
        if self.cap:
            over, push = _multiplied(self.gamma[slots].to(dtype), tau - epsilon, penalty)
            by_tau, slope, total = by_tau + push, slope - push.sum() * (up / n), total + over.sum()
        by_score[rows] = pull * (-up / n)
        loss = beta * beta * epsilon + torch.dot(cost, keep) + total * (up / n)
        loss = loss + residual * (force - 0.5 * penalty * residual)
        return Terms(loss, by_score, slope, by_tau * (up / n), slots)

    @torch.no_grad()
    def remember(self, scores: Tensor, index: Tensor, slots: Tensor) -> None:
        """The scores of a training batch, for the dual step and the diagnostics."""
        self.scores[index] = scores.detach().to(self.scores.dtype)
        self.seen[index] = True
        self.fresh[slots] = True

    @torch.no_grad()
    def descend(self, terms: Terms, step: float) -> None:
        """One gradient step in the metric de² + mean dt²; ``step`` is the batch's share of a whole epoch's step."""
        tau, epsilon = self.tau, self.epsilon
        epsilon.sub_((step * terms.by_epsilon).to(epsilon.dtype))
        tau[terms.slots] = tau[terms.slots] - (step * self.positives * terms.by_tau).to(tau.dtype)
        if self.cap:
            epsilon.clamp_(min=0.0)

    @torch.no_grad()
    def project(self, slots: Tensor | None = None, sample: int = 0, seed: int = 0) -> None:
        """Π_C in the metric of `descend`: of all variables, of ε and the given slots only, or by a sample."""
        tau = self.tau if slots is None else self.tau[slots]
        weight = float(self.positives)
        if sample:
            generator = torch.Generator(device=tau.device).manual_seed(seed)
            threshold, capped, _ = project_cap_sampled(self.epsilon, tau, sample, weight=weight, generator=generator)
        else:
            threshold, capped = project_cap(self.epsilon, tau, weight=weight)
        self.epsilon.copy_(threshold)
        if slots is None:
            self.tau.copy_(capped)
        else:
            self.tau[slots] = capped

    @torch.no_grad()
    def ascend(self, step: float) -> None:
        """One dual step: λ of the examples seen since the last one, μ, and γ; λ and γ stay ≥ 0."""
        gap = self.tau - self.scores[self.where_positive]
        self.lam.copy_(torch.where(self.fresh, (self.lam + step * gap).clamp_min(0.0), self.lam))
        self.mu.add_(step * (self.tau.mean() - 1.0))
        if self.cap:
            self.gamma.copy_((self.gamma + step * (self.tau - self.epsilon)).clamp_min(0.0))
        self.fresh.zero_()


def _multiplied(multiplier: Tensor, excess: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Value and derivative of the (augmented) term of a constraint ``excess ≤ 0``."""
    if penalty == 0.0:
        return multiplier * excess, multiplier
    pull = (multiplier + penalty * excess).clamp_min_(0.0)
    return (pull * pull - multiplier * multiplier) / (2.0 * penalty), pull
