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

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..twice import once
from .bound import Surrogate
from .projections import project_cap, project_cap_sampled

#: A number of the program: a Python number on the CPU, where that is ten times cheaper than a tensor of one
#: element; elsewhere a tensor, because reading it would wait for the device.
Scalar = float | Tensor


class Terms(NamedTuple):
    """The Lagrangian on a batch and its gradients: with respect to the scores, n·ε, and n·τ of the batch's slots.

    The last one is ``share * by_tau``: the factor goes into the update, which multiplies anyway.
    """

    loss: Scalar
    by_score: Tensor
    by_epsilon: Scalar
    by_tau: Tensor
    share: float
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
    arrived: Tensor
    _buffers: dict[str, Tensor]  # type: ignore[assignment]
    _parameters: dict[str, nn.Parameter]  # type: ignore[assignment]

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
        # Scores of the batches since the last `settle`, NaN where there was none.
        self.register_buffer("arrived", torch.full((positive.numel(),), torch.nan), persistent=False)
        # One gather gives the mask of a batch as numbers; 0 and 1 as tensors spare the conversion of a Python number.
        self.register_buffer("negative", negative.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("zero", torch.zeros(()), persistent=False)
        self.register_buffer("one", torch.ones(()), persistent=False)

    @property
    def size(self) -> int:
        """Number of examples of the data set that take part."""
        return self.positives + self.negatives

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
        table, n, size = self._buffers, self.positives, positive.numel()  # past nn.Module's slow lookup
        tau, e = self._parameters["tau"].detach(), self._parameters["epsilon"].detach()
        rows = positive.nonzero().view(-1)
        slots = table["slot"].index_select(0, index.index_select(0, rows))
        keep, lam = table["negative"].index_select(0, index), table["lam"].index_select(0, slots)
        own = tau.index_select(0, slots)
        zero, unit = table["zero"], table["one"]
        if zero.dtype != scores.dtype:
            keep, lam, own, zero, unit, e = (x.to(scores.dtype) for x in (keep, lam, own, zero, unit, e))
        read: Callable[[Tensor], Scalar] = Tensor.item if scores.device.type == "cpu" else Tensor.detach
        up = down = self.size / (n * size)
        if stratified:
            up, down = 1.0 / max(len(rows), 1), self.negatives / (n * max(size - len(rows), 1))
        cost, by_score, by_epsilon = surrogate(scores, e)
        held, pull = _multiplied(lam, own - scores.index_select(0, rows), penalty, read)
        residual = read(tau.sum()) / n - 1.0
        force = read(table["mu"]) + penalty * residual
        by_tau = pull + force if isinstance(force, Tensor) else torch.add(pull, unit, alpha=force)
        slope = beta * beta + down * read(torch.dot(by_epsilon, keep))
        if self.cap:
            gamma = table["gamma"].index_select(0, slots).to(scores.dtype)
            over, push = _multiplied(gamma, own - e, penalty, read)
            by_tau, slope, held = by_tau + push, slope - up * read(push.sum()), held + over
        loss = beta * beta * read(e) + down * read(torch.dot(cost, keep)) + up * held
        loss = loss + residual * (force - 0.5 * penalty * residual)
        by_score = torch.addcmul(zero, by_score, keep, value=down).index_add_(0, rows, pull, alpha=-up)
        return Terms(loss, by_score, slope, by_tau, up, slots)

    def remember(self, scores: Tensor, index: Tensor) -> None:
        """The scores of a training batch, for the dual step and the diagnostics; `settle` files them."""
        arrived = self._buffers["arrived"]
        arrived.scatter_(0, index, scores.to(arrived.dtype))

    @torch.no_grad()
    def settle(self) -> None:
        """Files the scores that arrived since the last call into ``scores``, ``seen`` and ``fresh``.

        `remember` writes once a step where these would be three; the end of an epoch and ``state_dict()`` call this.
        """
        new = self.arrived.isnan().logical_not_()
        self.scores.copy_(torch.where(new, self.arrived, self.scores))
        self.seen.logical_or_(new)
        self.fresh.logical_or_(new[self.where_positive])
        self.arrived.fill_(torch.nan)

    def descend(self, terms: Terms, step: float) -> None:
        """One gradient step in the metric de² + mean dt²; ``step`` is the batch's share of a whole epoch's step."""
        tau, epsilon = self._parameters["tau"].detach(), self._parameters["epsilon"].detach()
        by_tau = terms.by_tau if terms.by_tau.dtype == tau.dtype else terms.by_tau.to(tau.dtype)
        epsilon.sub_(terms.by_epsilon, alpha=step)
        tau.index_add_(0, terms.slots, by_tau, alpha=-step * self.positives * terms.share)
        if self.cap:
            epsilon.clamp_(min=0.0)

    @torch.no_grad()
    def project(self, slots: Tensor | None = None, sample: int = 0, seed: int = 0) -> None:
        """Π_C in the metric of `descend`: of all variables, of ε and the given slots only, or by a sample."""
        tau = self.tau if slots is None else self.tau.index_select(0, slots)
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
    def ascend(self, step: float, mu_step: float, gamma_step: float) -> None:
        """One dual step: λ of the examples seen since the last one, μ, and γ; λ and γ stay ≥ 0."""
        gap = self.tau - self.scores[self.where_positive]
        self.lam.copy_(torch.where(self.fresh, (self.lam + step * gap).clamp_min(0.0), self.lam))
        self.mu.add_(mu_step * (self.tau.mean() - 1.0))
        if self.cap:
            self.gamma.copy_((self.gamma + gamma_step * (self.tau - self.epsilon)).clamp_min(0.0))
        self.fresh.zero_()

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        self.settle()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        self.arrived.fill_(torch.nan)  # what arrived before belongs to the state that is replaced
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _multiplied(
    multiplier: Tensor, excess: Tensor, penalty: float, read: Callable[[Tensor], Scalar]
) -> tuple[Scalar, Tensor]:
    """Sum and derivatives of the (augmented) terms of constraints ``excess ≤ 0``."""
    if penalty == 0.0:
        return read(torch.dot(multiplier, excess)), multiplier
    pull = torch.add(multiplier, excess, alpha=penalty).relu_()
    return (read(torch.dot(pull, pull)) - read(torch.dot(multiplier, multiplier))) / (2.0 * penalty), pull


class _Attach(torch.autograd.Function):
    """A loss whose gradients were found on the way; backward only scales them."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, count: int, *inputs_and_gradients: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs_and_gradients[count:])
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [gradient * grad.to(gradient.dtype) for gradient in ctx.saved_tensors]
        return None, None, *scaled, *(None for _ in scaled)


REASON = "the lagrangian engine's duals follow the scores."


def with_gradients(scores: Tensor, terms: Terms) -> Tensor:
    """The Lagrangian, attached to the scores alone.

    A product with the gradient has that gradient, in a fifth of the time of an autograd.Function in Python; its value
    is then overwritten with the Lagrangian's, which the product does not keep for its backward pass.
    """
    loss = torch.dot(scores, terms.by_score)
    loss.detach().fill_(terms.loss)
    return once(loss, REASON, scores)


def with_gradients_of_all(scores: Tensor, duals: Duals, terms: Terms) -> Tensor:
    """As `with_gradients`, with gradients for τ and ε in the metric de² + mean dt²: one learning rate suits both."""
    by_tau = torch.zeros_like(duals.tau)
    by_tau[terms.slots] = (duals.positives * terms.share * terms.by_tau).to(by_tau.dtype)
    loss = torch.as_tensor(terms.loss, dtype=scores.dtype, device=scores.device)
    by_epsilon = torch.as_tensor(terms.by_epsilon, dtype=duals.epsilon.dtype, device=scores.device)
    inputs = (scores, duals.epsilon, duals.tau)
    return once(_Attach.apply(loss, 3, *inputs, terms.by_score, by_epsilon, by_tau), REASON, *inputs)
