"""Equal error rate, of pairs that match or do not: where false matches are as frequent as false non-matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..engine import Batch, Engine
from ..smooth import HasSmooth, Ranking, SmoothEngine
from .at_rate import curve_ranking
from .base import Metric
from .curve import Curve, nan_like, roc_points, threshold_curve


@dataclass(frozen=True)
class EqualErrorRate(Metric, HasSmooth):
    """*One minus* the equal error rate: the true positive rate at the threshold where it equals the true negative rate.

    Values here are better when higher, and a loss is one minus the value: the loss is the equal error rate. It is where
    the ROC curve, a straight line between its points, meets the diagonal from (0, 1) to (1, 0). Undefined (NaN) without
    positives or without negatives. For pairs of embeddings the scores are their similarities, and a target is 1 where
    both are of one identity: `aimfor.retrieval.pair_scores`.

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])
        >>> 1 - float(aimfor.metrics.EqualErrorRate().value(scores, targets))
        0.5
    """

    layout: ClassVar[str] = "binary"
    order_only: ClassVar[bool] = True
    remembers: ClassVar[str] = "scores"
    copies_tie: ClassVar[bool] = True

    def exact(self, batch: Batch) -> Tensor:
        curve = threshold_curve(batch)
        if not _both(curve):
            return nan_like(batch)
        fpr, tpr = roc_points(curve)
        place = int((tpr + fpr >= 1.0).to(torch.uint8).argmax())  # at least 1: the curve begins at (0, 0)
        low, high = tpr[place - 1] + fpr[place - 1], tpr[place] + fpr[place]
        return tpr[place - 1] + (1.0 - low) / (high - low) * (tpr[place] - tpr[place - 1])

    def smooth_form(self, batch: Batch) -> Ranking:
        def best(curve: Curve, relative: Tensor | float) -> Tensor:
            return torch.minimum(curve.tp / curve.positives, 1.0 - curve.fp / curve.negatives).amax()

        return curve_ranking(batch, best, _both, has_cut=False)

    def default_engine(self) -> Engine:
        """Half of it the logistic loss of pairs, as for average precision."""
        return SmoothEngine(0.5, anchor=0.5, anchor_temperature=0.5)


def _both(curve: Curve) -> Tensor:
    return torch.minimum(curve.positives, curve.negatives) > 0
