"""The losses a stage can name. All take ``(scores, targets, weights, rows)`` and give a scalar."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import UnsupportedPairError
from ..loss import MetricLoss
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
        self.metric = MetricLoss(objective.metric) if kind == "metric" else None
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
        if self.outputs == 1:
            each = functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), reduction="none")
        else:
            each = functional.cross_entropy(scores, targets, reduction="none")
        if self.kind == "focal":
            each = (1.0 - torch.exp(-each)).square() * each  # exp(−cross-entropy) is the true class's probability
        return each

    def end_epoch(self) -> None:
        if self.metric is not None:
            self.metric.end_epoch()


def why_untrainable(objective: Objective) -> str | None:
    """A sentence when no engine trains this metric, else None."""
    try:
        MetricLoss(objective.metric)
    except UnsupportedPairError as error:
        return str(error)
    return None
