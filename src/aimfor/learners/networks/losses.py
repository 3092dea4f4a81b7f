"""Cross-entropy for one score or one a class, and the loss of a metric after it."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ...errors import UnsupportedPairError, refusal
from ...loss import MetricLoss
from ...metrics import Metric
from ...targets.objective import Objective


def cross_entropy(
    scores: Tensor, targets: Tensor, class_weights: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Logistic for scores ``(n,)``, softmax for ``(n, c)``; class ids ``(n,)``, weights ``(c,)`` by class.

    Example:
        >>> import torch
        >>> float(cross_entropy(torch.zeros(2), torch.tensor([0, 1])))  # log 2
        0.6931471824645996
    """
    if scores.ndim == 1:
        rows = None if class_weights is None else class_weights[targets]
        truth = targets.to(scores.dtype)
        return functional.binary_cross_entropy_with_logits(scores, truth, rows, reduction=reduction)
    return functional.cross_entropy(scores, targets, class_weights, reduction=reduction)


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
