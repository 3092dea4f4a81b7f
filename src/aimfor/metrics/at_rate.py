"""Operating points of a curve: the best of one rate under a floor for another, with its threshold; equal errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..constraints import named
from ..engine import Batch, Engine
from ..lp import HasProgram, LPForm
from ..rates.engine import RateEngine
from ..rates.form import Anchor, HasRates, grid, precision_at_recall, recall_at_precision, tpr_at_fpr
from ..rates.problem import RateProblem, maximize
from ..smooth import QUICK, HasSmooth, Ranking, SmoothEngine, queried_items
from .base import Metric
from .curve import ROUNDING, BestThreshold, Curve, counted, just_below, nan_like, roc_points, threshold_curve
from .programs import precision_program_form


class AtRate(Metric, HasRates, HasSmooth):
    """The best of one rate over all thresholds that hold another rate at its floor or above."""

    layout: ClassVar[str] = "binary"
    order_only: ClassVar[bool] = True
    remembers: ClassVar[str] = "scores"
    copies_tie: ClassVar[bool] = True

    def smooth_form(self, batch: Batch) -> Ranking:
        def best(curve: Curve, relative: Tensor | float) -> Tensor:
            wanted, floored, floor = self.rates(curve)
            return (wanted * soft_floor(floored, floor, relative)).amax()

        return curve_ranking(batch, best, self.defined)

    def default_engine(self) -> Engine:
        return _quick()

    @abstractmethod
    def rates(self, curve: Curve) -> tuple[Tensor, Tensor, float]:
        """(rate to maximise, rate that has a floor, the floor); rates for each threshold of the curve, ``(t,)``."""

    @abstractmethod
    def problem(self) -> RateProblem:
        """The same wish as a problem, whose `certificate` says whether decisions keep the floor on new data.

        Example:
            >>> import aimfor
            >>> aimfor.RecallAtPrecision(0.9).problem()
            maximize    recall
            subject to  precision >= 0.9
        """

    def exact(self, batch: Batch) -> Tensor:
        curve = threshold_curve(batch)
        return self.allowed(curve).max().clamp_min(0.0) if self.defined(curve) else nan_like(batch)

    def decide(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> Tensor:
        """The threshold that reaches `value`: decide positive where ``score > threshold``.

        It lies halfway to the next lower score, in scores' dtype; among equally good thresholds it is the highest.
        Choose it on validation data: a threshold that just meets its floor there may miss it elsewhere.

        Returns:
            Scalar tensor: +inf (decide nothing) if no threshold meets the floor, NaN where the metric is undefined.

        Example:
            >>> import torch, aimfor
            >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 1, 0, 1])
            >>> threshold = aimfor.RecallAtPrecision(0.9).decide(scores, targets)
            >>> float(threshold), (scores > threshold).tolist()
            (2.5, [True, True, False, False])
        """
        with torch.no_grad():
            batch = self.check(scores, targets, weights=weights, where=where)
            curve = threshold_curve(counted(batch))
            if not self.defined(curve):
                return nan_like(batch).to(scores.dtype)
            best, position = self.allowed(curve).max(0)
            if not best > 0:
                return torch.full_like(curve.positives, torch.inf, dtype=scores.dtype)
            return just_below(curve.thresholds.to(scores.dtype), int(position))

    def best_threshold(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> BestThreshold:
        """`decide`, with the value there."""
        value = self.value(scores, targets, weights=weights, where=where)
        return BestThreshold(self.decide(scores, targets, weights=weights, where=where), value)

    def defined(self, curve: Curve) -> Tensor:
        """Whether the rates are: nothing is recalled without positives."""
        return curve.positives > 0

    def allowed(self, curve: Curve) -> Tensor:
        """The rate to maximise, −1 where the floor is not met."""
        best, floored, floor = self.rates(curve)
        return torch.where(floored >= floor - ROUNDING, best, -1.0)


@dataclass(frozen=True)
class PrecisionAtRecall(AtRate, HasProgram):
    """The best precision over the thresholds whose recall is at least ``recall``.

    Undefined (NaN) without positives.

    Args:
        recall: The floor, in (0, 1].

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])
        >>> float(aimfor.PrecisionAtRecall(0.5).value(scores, targets))
        1.0
    """

    recall: float

    def __post_init__(self) -> None:
        checks.number("recall", self.recall, above=0, at_most=1)

    def rates(self, curve: Curve) -> tuple[Tensor, Tensor, float]:
        return _precision(curve), curve.tp / curve.positives, self.recall

    def anchors(self) -> tuple[Anchor, ...]:
        return (precision_at_recall(self.recall),)

    def program_form(self, batch: Batch, margin: float, threshold: str) -> LPForm:
        return precision_program_form(batch, self.recall, margin)

    def problem(self) -> RateProblem:
        return maximize(named.precision, named.recall >= self.recall)


@dataclass(frozen=True)
class RecallAtPrecision(AtRate):
    """The best recall over the thresholds whose precision is at least ``precision``; 0 if there is none.

    Undefined (NaN) without positives.

    Args:
        precision: The floor, in (0, 1].

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])
        >>> float(aimfor.RecallAtPrecision(0.9).value(scores, targets))
        0.5
    """

    precision: float

    def __post_init__(self) -> None:
        checks.number("precision", self.precision, above=0, at_most=1)

    def rates(self, curve: Curve) -> tuple[Tensor, Tensor, float]:
        return curve.tp / curve.positives, _precision(curve), self.precision

    def anchors(self) -> tuple[Anchor, ...]:
        return (recall_at_precision(self.precision),)

    def problem(self) -> RateProblem:
        return maximize(named.recall, named.precision >= self.precision)


@dataclass(frozen=True)
class TPRAtFPR(AtRate):
    """The best true positive rate over the thresholds whose false positive rate is at most ``fpr``; 0 if none is.

    Undefined (NaN) without positives or without negatives.

    Args:
        fpr: The ceiling, in [0, 1).

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])
        >>> float(aimfor.TPRAtFPR(0.1).value(scores, targets))
        0.5
    """

    fpr: float

    def __post_init__(self) -> None:
        checks.number("fpr", self.fpr, at_least=0, below=1)

    def rates(self, curve: Curve) -> tuple[Tensor, Tensor, float]:
        return curve.tp / curve.positives, 1.0 - curve.fp / curve.negatives, 1.0 - self.fpr

    def defined(self, curve: Curve) -> Tensor:
        return torch.minimum(curve.positives, curve.negatives) > 0

    def anchors(self) -> tuple[Anchor, ...]:
        return (tpr_at_fpr(self.fpr),)

    def problem(self) -> RateProblem:
        return maximize(named.tpr, named.fpr <= self.fpr)


@dataclass(frozen=True)
class AUPRC(Metric, HasRates, HasSmooth):
    """Area under the precision-recall curve as the mean of `PrecisionAtRecall` over a grid of recalls.

    With K points at ``(k + 1/2)/K`` it is the midpoint rule for the area under the best precision at each recall, an
    upper envelope: at least as large as `AveragePrecision` for a fine grid.

    Args:
        points: Number of recalls K; training learns one threshold and one multiplier for each.

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])
        >>> round(float(aimfor.AUPRC(4).value(scores, targets)), 4)
        0.8333

    References:
        Eban, Schain, Mackey, Gordon, Rifkin, Elidan, Scalable learning of non-decomposable objectives, 2017.
    """

    points: int = 10

    layout: ClassVar[str] = "binary"
    order_only: ClassVar[bool] = True
    remembers: ClassVar[str] = "scores"
    copies_tie: ClassVar[bool] = True

    def smooth_form(self, batch: Batch) -> Ranking:
        floors = _floors(self.points, batch.scores.device)

        def mean_of_best(curve: Curve, relative: Tensor | float) -> Tensor:
            met = soft_floor(curve.tp / curve.positives, floors, relative)
            return (_precision(curve) * met).amax(1).mean()

        return curve_ranking(batch, mean_of_best, lambda curve: curve.positives > 0)

    def __post_init__(self) -> None:
        checks.integer("points", self.points, at_least=1)

    def exact(self, batch: Batch) -> Tensor:
        curve = threshold_curve(batch)
        if not curve.positives > 0:
            return nan_like(batch)
        recall, precision = curve.tp / curve.positives, _precision(curve)
        best = precision.flip(0).cummax(0).values.flip(0)  # the best precision at this recall or a higher one
        positions = torch.searchsorted(recall, recall.new_tensor(grid(self.points)) - ROUNDING)
        return best[positions].mean()

    def anchors(self) -> tuple[Anchor, ...]:
        return tuple(precision_at_recall(recall) for recall in grid(self.points))

    def default_engine(self) -> Engine:
        return _quick()


@lru_cache(maxsize=8)
def _floors(points: int, device: torch.device) -> Tensor:
    return torch.tensor(grid(points), dtype=torch.float64, device=device)[:, None]


def _quick() -> RateEngine:
    """`RateEngine` on scores over `QUICK`: its thresholds step in these units too."""
    return RateEngine(temperature=QUICK, threshold_rate=0.5 * QUICK**2)


def soft_floor(rate: Tensor, floor: Tensor | float, relative: Tensor | float) -> Tensor:
    """The indicator of ``rate >= floor``, made soft over a tenth of ``relative``."""
    return torch.sigmoid((rate - floor + ROUNDING**0.5) / (0.1 * relative))


def curve_ranking(
    batch: Batch,
    measure: Callable[[Curve, Tensor | float], Tensor],
    defined: Callable[[Curve], Tensor],
    has_cut: bool = True,
) -> Ranking:
    """Every positive's score as a threshold: a metric of the soft counts there."""
    weights = batch.effective_weights()
    mass = torch.ones_like(batch.scores, dtype=torch.float64) if weights is None else weights.double()
    mass = mass[None]
    hit = mass * batch.targets
    queries, positives, negatives = queried_items(hit > 0), hit.sum(), (mass - hit).sum()
    thresholds = queries.take(batch.scores.detach()[None])[0]

    def of_counts(above: Tensor, relative: Tensor | float) -> Tensor:
        tp, fp = above[0, 0], above[1, 0]
        if queries.there is not None:  # padding is where the curve is worst
            tp, fp = torch.where(queries.there[0], tp, 0.0), torch.where(queries.there[0], fp, negatives)
        curve = Curve(tp, fp, thresholds, positives, negatives)
        there = defined(curve)
        if there.is_cpu and not there:
            return nan_like(batch)
        value = measure(curve, relative)
        return value if there.is_cpu else torch.where(there, value, torch.nan)

    masses = (hit, mass - hit)
    return Ranking(
        batch.scores[None], queries, masses, of_counts, batch.targets[None], mass, has_cut=has_cut, hits=True
    )


def _precision(curve: Curve) -> Tensor:
    """tp / (tp + fp), and 0 where no weight is decided positive."""
    decided = curve.tp + curve.fp
    return torch.where(decided > 0, curve.tp / decided, 0.0)


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
        position = int((tpr + fpr >= 1.0).to(torch.uint8).argmax())  # at least 1: the curve begins at (0, 0)
        low, high = tpr[position - 1] + fpr[position - 1], tpr[position] + fpr[position]
        return tpr[position - 1] + (1.0 - low) / (high - low) * (tpr[position] - tpr[position - 1])

    def smooth_form(self, batch: Batch) -> Ranking:
        def best(curve: Curve, relative: Tensor | float) -> Tensor:
            return torch.minimum(curve.tp / curve.positives, 1.0 - curve.fp / curve.negatives).amax()

        return curve_ranking(batch, best, _both, has_cut=False)

    def default_engine(self) -> Engine:
        """Half of it the logistic loss of pairs, as for average precision."""
        return SmoothEngine(0.5, anchor=0.5, anchor_temperature=0.5)


def _both(curve: Curve) -> Tensor:
    return torch.minimum(curve.positives, curve.negatives) > 0
