"""AUROC: the probability that a positive scores above a negative (ties count half); also partial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch
from ..rates.form import Anchor, HasRates, grid, tpr_at_fpr
from ..sorted import SIDE_BY_SIDE, PairForm, PairProblem
from .curve import Curve, nan_like, roc_points, threshold_curve
from .pairs import OfPairs


@dataclass(frozen=True)
class AUROC(OfPairs, HasRates):
    """Area under the ROC curve.

    With ``max_fpr`` it is the area up to that false positive rate, standardised as scikit-learn does (McClish):
    1 is perfect and 0.5 is chance. Training then counts only the top ``max_fpr`` of the negatives.

    Args:
        max_fpr: In (0, 1]; None and 1 mean the whole curve.

    Example:
        >>> import torch, aimfor
        >>> float(aimfor.AUROC().value(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])))
        0.75

    References:
        McClish, Analyzing a portion of the ROC curve, 1989.
    """

    max_fpr: float | None = None

    layout: ClassVar[str] = "binary"
    remembers: ClassVar[str] = "scores"
    order_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.max_fpr is not None:
            checks.number("max_fpr", self.max_fpr, above=0, at_most=1)

    def exact(self, batch: Batch) -> Tensor:
        curve = threshold_curve(batch)
        if not (curve.positives > 0 and curve.negatives > 0):
            return nan_like(batch)
        fraction = 1.0 if self.max_fpr is None else self.max_fpr
        area = _area(curve, fraction)
        return area if fraction == 1.0 else 0.5 * (1 + (area - fraction**2 / 2) / (fraction - fraction**2 / 2))

    def pair_form(self, batch: Batch, fresh: Tensor | None = None) -> PairForm:
        top = 1.0 if self.max_fpr is None else float(self.max_fpr)
        # 1 − (standardised partial area) = (mean misordering among the top negatives) / (2 − max_fpr).
        problem = PairProblem(batch.scores, batch.targets, batch.effective_weights(), fresh, top, 1.0 / (2.0 - top))
        return PairForm(batch.scores, (problem,))

    def anchors(self) -> tuple[Anchor, ...]:
        """The area as the mean of the true positive rate over ten false positive rates."""
        upper = 1.0 if self.max_fpr is None else float(self.max_fpr)
        return tuple(tpr_at_fpr(ceiling) for ceiling in grid(10, upper))


def _area(curve: Curve, max_fpr: float) -> Tensor:
    """Area under the ROC polyline from 0 to max_fpr."""
    if max_fpr == 1.0:
        # Summed in whole counts and divided once: exact for unweighted data.
        zero = curve.tp.new_zeros(1)
        tp, fp = torch.cat((zero, curve.tp)), torch.cat((zero, curve.fp))
        return torch.dot(fp.diff(), tp[1:] + tp[:-1]) / (2 * curve.positives * curve.negatives)
    fpr, tpr = roc_points(curve)
    width = fpr.diff()
    inside = ((max_fpr - fpr[:-1]) / torch.where(width > 0, width, 1.0)).clamp(0.0, 1.0)
    end = tpr[:-1] + inside * tpr.diff()
    return torch.dot(inside * width, 0.5 * (tpr[:-1] + end))


@dataclass(frozen=True)
class AUROCOneVsRest(OfPairs):
    """Mean over the classes of the AUROC of "this class" against "all others", by that class's column of scores.

    Undefined (NaN) if a class has no example or no rest; training takes the mean over the classes that the batch
    defines. The columns are used as they are: a softmax before it can change the order inside a column.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 0.5, 3.0]])
        >>> float(aimfor.AUROCOneVsRest().value(scores, torch.tensor([0, 1, 2])))
        1.0

    References:
        Provost and Domingos, Well-trained PETs, 2000 (with equal class weights).
    """

    layout: ClassVar[str] = "multiclass"
    remembers: ClassVar[str] = "scores"
    order_only: ClassVar[bool] = True

    def exact(self, batch: Batch) -> Tensor:
        return mean_of_problems(self.pair_form(batch))

    def pair_form(self, batch: Batch, fresh: Tensor | None = None) -> PairForm:
        weights, classes = batch.effective_weights(), batch.scores.shape[1]
        if batch.scores.numel() <= SIDE_BY_SIDE:
            positive = batch.targets == torch.arange(classes, device=batch.targets.device)[:, None]
            weights, fresh = (None if rows is None else rows.expand(positive.shape) for rows in (weights, fresh))
            problem = PairProblem(batch.scores.t().contiguous(), positive, weights, fresh, scale=1.0 / classes)
            return PairForm(batch.scores, (problem,))
        problems = tuple(
            PairProblem(column, batch.targets == k, weights, fresh, scale=1.0 / classes)
            for k, column in enumerate(batch.scores.unbind(1))
        )
        return PairForm(batch.scores, problems)


def mean_of_problems(form: PairForm) -> Tensor:
    """The exact mean AUROC of a form of several problems; NaN if one of them is undefined."""
    areas = [
        problem.scale * AUROC().exact(Batch(problem.scores, problem.positive, problem.weights))
        for problem in form.single()
    ]
    return torch.stack(areas).sum()
