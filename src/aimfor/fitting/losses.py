"""The losses a stage can name. All take ``(scores, targets, weights, rows)`` and give a scalar."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import UnsupportedPairError, refusal
from ..loss import MetricLoss
from ..metrics import Metric
from .objective import Objective


class StageLoss(nn.Module):
    """A decomposable loss (cross-entropy, weighted, focal) or the metric itself.

    Args:
        kind: As in recipes.toml.
        objective: The metric.
        targets: Class ids of all training rows, for the class weights.
        outputs: Scores per row.
        weights: Weights of all training rows.
        threshold: Where the metric's decisions are made.

    Raises:
        UnsupportedPairError: ``"metric"`` for a metric that no engine trains yet.
    """

    def __init__(
        self,
        kind: str,
        objective: Objective,
        targets: Tensor,
        outputs: int,
        weights: Tensor | None = None,
        threshold: float = 0.0,
    ) -> None:
        super().__init__()
        self.kind, self.outputs = kind, outputs
        self.by_list = objective.metric.layout == "lists"
        self.metric = loss_on_logits(objective.metric) if kind == "metric" else None
        counts = torch.bincount(targets, weights, minlength=max(2, outputs)).double()
        even = counts.sum() / (len(counts) * counts.clamp_min(1e-12))
        self.register_buffer("class_weights", even, persistent=False)
        # A metric of decisions decides at 0; a model that comes from cross-entropy has its best threshold elsewhere.
        self.register_buffer("threshold", torch.tensor(threshold if objective.needs_threshold else 0.0))

    def forward(self, scores: Tensor, targets: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
        if self.metric is not None:
            scores = scores - self.get_buffer("threshold").to(scores.dtype)
            if self.by_list:  # a table under a list metric is one list, and lists carry no index
                loss: Tensor = self.metric(scores, targets, weights=weights)
            else:
                loss = self.metric(scores, targets, weights=weights, index=rows)
            return loss
        each = self._each(scores, targets)
        if self.kind == "weighted_ce":
            each = each * self.get_buffer("class_weights")[targets].to(each.dtype)
        if weights is None:
            return each.mean()
        return (each * weights).sum() / weights.sum().clamp_min(1e-12)

    def _each(self, scores: Tensor, targets: Tensor) -> Tensor:
        each = cross_entropy(scores, targets, reduction="none")
        return focal(each) if self.kind == "focal" else each

    def end_epoch(self) -> None:
        if self.metric is not None:
            self.metric.end_epoch()


def cross_entropy(
    scores: Tensor, targets: Tensor, class_weights: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Logistic for scores ``(n,)``, softmax for ``(n, c)``; class ids ``(n,)``, weights ``(c,)`` by class.

    Example:
        >>> float(cross_entropy(torch.zeros(2), torch.tensor([0, 1])))  # log 2
        0.6931471824645996
    """
    if scores.ndim == 1:
        rows = None if class_weights is None else class_weights[targets]
        truth = targets.to(scores.dtype)
        return functional.binary_cross_entropy_with_logits(scores, truth, rows, reduction=reduction)
    return functional.cross_entropy(scores, targets, class_weights, reduction=reduction)


def focal(each: Tensor) -> Tensor:
    """``(1 − p)² ℓ`` for each row's cross-entropy ℓ, p = exp(−ℓ) the probability of its true class (Lin 2017).

    Example:
        >>> focal(torch.tensor([0.6931])).item()  # p = 1/2: a quarter of it
        0.1732...
    """
    return (1.0 - torch.exp(-each)).square() * each


def loss_on_logits(metric: Metric) -> MetricLoss:
    """The metric's default loss where scores are on cross-entropy's scale: after it, or at rates chosen for it.

    Example:
        >>> import aimfor
        >>> aimfor.MetricLoss("f1").engine.temperature, loss_on_logits(aimfor.FBeta(1.0)).engine.temperature
        (0.25, 1.0)
    """
    return MetricLoss(metric, metric.engine_for_logits())


def why_untrainable(objective: Objective) -> str | None:
    """A sentence when no engine trains this metric, else None."""
    return refusal(lambda: MetricLoss(objective.metric), UnsupportedPairError)
