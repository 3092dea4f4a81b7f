"""The losses of the map: cross-entropy as people weigh it, its kin, and ours. Scores of one class or of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.errors import AimforError

#: Scores and targets of a batch and the share of the budget that is over, to a scalar.
Loss = Callable[[Tensor, Tensor, float], Tensor]
#: Class shares of the training rows, the knob, and the metric's name, to a loss.
MakeLoss = Callable[[Tensor, float, str], Loss]


@dataclass(frozen=True)
class Method:
    """A loss with its one knob.

    Attributes:
        knobs: Three values that trials take; empty for a loss without one, which tries more learning rates.
        balanced: Half of every batch is drawn from the positives.
        ours: Trained for each metric by itself.
        rates: Three learning rates of trials, where those of the task are not its scale.
        own: Trains with an optimizer of its own, and does not ask for ``make``: see `libauc.train`.
    """

    name: str
    make: MakeLoss
    knobs: tuple[float, ...] = ()
    balanced: bool = False
    ours: bool = False
    rates: tuple[float, ...] = ()
    own: Callable[..., Any] | None = None


def entropy(scores: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of one score or of several; weights ``(c,)`` by class, of mean 1 over the batch."""
    if scores.ndim == 2:
        return functional.cross_entropy(scores, y, weights)
    each = None if weights is None else weights[y]
    loss = functional.binary_cross_entropy_with_logits(scores, y.to(scores.dtype), each, reduction="sum")
    return loss / (len(y) if each is None else each.sum())


def weighted(power: float) -> MakeLoss:
    """Classes weigh 1/frequency to a power."""

    def make(shares: Tensor, knob: float, metric: str) -> Loss:
        weights = shares.clamp_min(1e-6) ** -power
        return lambda scores, y, done: entropy(scores, y, weights)

    return make


def plain(shares: Tensor, knob: float, metric: str) -> Loss:
    return lambda scores, y, done: entropy(scores, y)


def _log_odds_of_truth(scores: Tensor, y: Tensor) -> Tensor:
    """Each row's log-probability of its own class."""
    if scores.ndim == 2:
        return torch.log_softmax(scores, 1).gather(1, y[:, None])[:, 0]
    return functional.logsigmoid(torch.where(y > 0, scores, -scores))


def focal(shares: Tensor, knob: float, metric: str) -> Loss:
    """Lin 2017: ``(1 − p)^γ`` times cross-entropy."""

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        log_p = _log_odds_of_truth(scores, y)
        return -((1.0 - log_p.exp()).clamp_min(1e-6) ** knob * log_p).mean()  # a root is steep at 0

    return loss


def logit_adjustment(shares: Tensor, knob: float, metric: str) -> Loss:
    """Menon 2021: cross-entropy of the scores plus τ times the log of the class shares."""
    logs = knob * shares.clamp_min(1e-6).log()

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        return entropy(scores + (logs if scores.ndim == 2 else logs[1] - logs[0]), y)

    return loss


def ldam(shares: Tensor, knob: float, metric: str) -> Loss:
    """Cao 2019: cross-entropy with a margin of n^(−1/4) for each class, the largest of them ``knob``; plain logits."""
    margins = shares.clamp_min(1e-6) ** -0.25
    margins = knob * margins / margins.max()

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        if scores.ndim == 2:
            return entropy(scores - functional.one_hot(y, scores.shape[1]) * margins[y][:, None], y)
        return entropy(scores - torch.where(y > 0, margins[1], -margins[0]), y)

    return loss


def auc_margin(shares: Tensor, knob: float, metric: str) -> Loss:
    """Yuan 2021, with the inner variables at their optimum for the batch: of sigmoid scores, both classes' variances
    and the squared distance by which their means miss the margin."""

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        chance = torch.sigmoid(scores)
        above, below = chance[y > 0], chance[y == 0]
        if not len(above) or not len(below):
            return scores.sum() * 0.0
        spread = above.var(unbiased=False) + below.var(unbiased=False)
        return spread + functional.relu(knob + below.mean() - above.mean()) ** 2

    return loss


def default(shares: Tensor, knob: float, metric: str) -> Loss:
    """`MetricLoss` as it comes."""
    loss = aimfor.MetricLoss(metric)
    return lambda scores, y, done: loss(scores, y)


def direct(shares: Tensor, knob: float, metric: str) -> Loss:
    loss = aimfor.MetricLoss(metric, aimfor.DirectEngine(epsilon=knob))
    return lambda scores, y, done: loss(scores, y)


def then(first: MakeLoss, second: MakeLoss) -> MakeLoss:
    """One loss for a share of the budget, which is the knob, and another from there on."""

    def make(shares: Tensor, knob: float, metric: str) -> Loss:
        before, after = first(shares, 0.0, metric), second(shares, 0.0, metric)
        return lambda scores, y, done: (before if done < knob else after)(scores, y, done)

    return make


def has_direct(metric: str) -> bool:
    try:
        direct(torch.ones(2), 1.0, metric)
    except AimforError:
        return False
    return True


#: Rivals of which the best on the trial seed is "tuned cross-entropy".
ENTROPIES = ("cross-entropy", "1/frequency", "1/√frequency", "balanced batches")
OF_CLASSES: tuple[Method, ...] = (
    Method("cross-entropy", plain),
    Method("1/frequency", weighted(1.0)),
    Method("1/√frequency", weighted(0.5)),
    Method("focal", focal, (0.5, 1.0, 2.0)),
    Method("logit adjustment", logit_adjustment, (0.5, 1.0, 1.5)),
    Method("LDAM", ldam, (0.25, 0.5, 1.0)),
)
OF_TWO_CLASSES: tuple[Method, ...] = (
    *OF_CLASSES,
    Method("balanced batches", plain, balanced=True),
    Method("AUC margin", auc_margin, (0.5, 1.0, 2.0)),
)
OURS: tuple[Method, ...] = (
    Method("metric", default, ours=True),
    Method("metric, direct", direct, (0.1, 1.0, 10.0), ours=True),
    Method("cross-entropy, then metric", then(plain, default), (0.25, 0.5, 0.75), ours=True),
)
