"""MultiLabel: a binary metric of ``(n, c)`` scores with 0/1 targets, over labels, examples or all decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine
from ..errors import InputError
from ..smooth import QUICK, Decisions, HasSmooth, Ratio, SmoothEngine, SmoothForm
from ..smooth.form import Measure
from ..sorted import PairForm, PairProblem
from .auroc import AUROC
from .average_precision import AveragePrecision
from .base import Metric
from .confusion import CountMetric, binary_counts, something_to_find
from .curve import BestThreshold, nan_like
from .pairs import balanced_rows
from .programs import RatioOfCounts

AVERAGES = ("macro", "micro", "samples")


@dataclass(frozen=True)
class MultiLabel(Metric, HasSmooth):
    """A metric of several labels that an example may have at once.

    ``"macro"``: the metric of every label (column), then the mean; with average precision it is mAP. ``"micro"``: of
    all decisions together. ``"samples"``: the metric of every example (row), then the mean. Labels (examples) whose
    metric is undefined are left out of the mean, and the value is NaN if none is left: for F_β those that have no
    positive and none decided, as in scikit-learn with ``zero_division=nan``; for average precision those without a
    positive, for AUROC those without a negative too. In the loss, a label that has no positive and whose F_β is
    therefore 0 whatever is decided is left out as well.

    Args:
        metric: A metric of decisions (`FBeta`, `IoU`, …), `AveragePrecision` or `AUROC`, or its name.
        average: One of the above.
        thresholds: One per label, for metrics of decisions, in place of the metric's own; see `decide`.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.metrics import MultiLabel
        >>> scores = torch.tensor([[2.0, -1.0], [-1.0, 1.0], [1.0, -2.0]])
        >>> targets = torch.tensor([[1, 0], [0, 1], [1, 1]])
        >>> round(float(MultiLabel("f1").value(scores, targets)), 4), float(MultiLabel("ap").value(scores, targets))
        (0.8333, 0.9166666666666666)
    """

    metric: Metric | str = "f1"
    average: str = "macro"
    thresholds: tuple[float, ...] | Tensor | None = None

    layout: ClassVar[str] = "multilabel"

    def __post_init__(self) -> None:
        if isinstance(self.metric, str):
            from .registry import metric_from_name  # the registry knows every metric, this one included

            object.__setattr__(self, "metric", metric_from_name(self.metric))
        one_row = isinstance(self.metric, CountMetric) and self.metric.layout == "binary"
        whole = isinstance(self.metric, AUROC) and self.metric.max_fpr in (None, 1)
        if not (one_row or whole or isinstance(self.metric, AveragePrecision)):
            raise InputError("metric", repr(self.metric), "a metric of binary decisions, average precision or AUROC")
        checks.one_of("average", self.average, AVERAGES)
        if self.thresholds is not None:
            if not isinstance(self.metric, CountMetric):
                raise InputError("thresholds", "numbers", f"None: {self.metric!r} makes no decisions")
            given = self.thresholds.tolist() if isinstance(self.thresholds, Tensor) else self.thresholds
            object.__setattr__(self, "thresholds", tuple(checks.number("thresholds", float(t)) for t in given))

    @property
    def order_only(self) -> bool:  # type: ignore[override]
        return not isinstance(self.metric, CountMetric)

    @property
    def copies_tie(self) -> bool:  # type: ignore[override]
        return isinstance(self.metric, AveragePrecision) and self.average != "samples"

    @property
    def remembers(self) -> str:  # type: ignore[override]
        return "counts" if isinstance(self.metric, CountMetric) and self.average != "samples" else "nothing"

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        batch = checks.multilabel(scores, targets, **rest)
        if self.thresholds is not None and len(self.thresholds) != batch.scores.shape[1]:
            raise InputError("thresholds", f"{len(self.thresholds)}", f"one per label, {batch.scores.shape[1]}")
        return batch

    def exact(self, batch: Batch) -> Tensor:
        rows = self._rows(batch)
        if isinstance(self.metric, CountMetric):
            return _weighted_mean(self.metric.of_counts(*binary_counts(rows, 0.0)), self._of_examples(batch))
        if isinstance(self.metric, AveragePrecision):
            return self.metric.exact(rows)
        values = []
        for number in range(len(rows.scores)):
            weights = None if rows.weights is None else rows.weights[number]
            values.append(self.metric.exact(Batch(rows.scores[number], rows.targets[number], weights)))  # type: ignore[union-attr]
        each = torch.stack(values) if values else nan_like(batch)[None]
        return _weighted_mean(each, self._of_examples(batch))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        rows = self._rows(batch)
        if isinstance(self.metric, CountMetric):
            plain = self._of_examples(batch) is None  # with weights their mean is not the ratio's
            ratio = Ratio(*self.metric.lines()) if plain and isinstance(self.metric, RatioOfCounts) else None
            return Decisions(batch.scores, rows.scores, rows.targets, rows.weights, self._soft_mean(batch), ratio)
        if isinstance(self.metric, AveragePrecision):
            return self.metric.smooth_form(rows)
        if self._of_examples(batch) is not None:
            raise InputError(
                "weights", "some with AUROC of examples", "None", 'Weights of examples need average="macro" or "micro".'
            )
        problem = PairProblem(rows.scores, rows.targets, rows.weights, scale=1.0 / max(1, len(rows.scores)))
        return balanced_rows(PairForm(batch.scores, (problem,)))

    def decide(self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The threshold of each label that is best for the metric *of that label* on this data, ``(c,)``.

        Choose them on validation data, and pass them as ``thresholds``. A label without a positive keeps the metric's
        own threshold.

        Raises:
            InputError: For a metric without decisions.
        """
        if not isinstance(self.metric, CountMetric):
            raise InputError("metric", repr(self.metric), "a metric of decisions")
        with torch.no_grad():
            batch = checks.multilabel(scores, targets, weights=weights)
            weights = None if batch.weights is None else batch.weights[:, 0]
            columns = zip(batch.scores.t(), batch.targets.t(), strict=True)
            thresholds = [
                self.metric.best_of(Batch(column, positive, weights)).threshold for column, positive in columns
            ]
        return torch.stack(thresholds)

    def best_threshold(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> BestThreshold:
        if self.average != "macro" or where is not None:
            came = f"average={self.average!r}" if where is None else "where="
            raise InputError("metric", f"{self!r} with {came}", 'average="macro" and no mask: each label by itself')
        thresholds = self.decide(scores, targets, weights=weights)
        return BestThreshold(thresholds, replace(self, thresholds=thresholds).value(scores, targets, weights=weights))

    def default_engine(self) -> Engine:
        if isinstance(self.metric, AUROC):
            return SmoothEngine(anchor=1.0, anchor_temperature=2 * QUICK)
        anchor = 0.5 if isinstance(self.metric, AveragePrecision) else 1.0
        return SmoothEngine(QUICK, anchor=anchor, anchor_temperature=QUICK)

    def _soft_mean(self, batch: Batch) -> Measure:
        """The mean of the rows' values, from their soft counts."""
        assert isinstance(self.metric, CountMetric)
        of_counts, of_examples = self.metric.of_counts, self._of_examples(batch)
        return lambda *counts: _weighted_mean(something_to_find(of_counts(*counts), counts), of_examples)

    def _of_examples(self, batch: Batch) -> Tensor | None:
        """``(n,)`` float64 weights of the examples, where each is a row of its own; else they are in the counts."""
        if self.average != "samples" or batch.weights is None:
            return None
        return batch.weights.amax(1).double()  # of an example, or of its entries, of which some may be masked

    def _rows(self, batch: Batch) -> Batch:
        """One row for each mean: labels, examples, or everything; scores above the threshold if there is one."""
        scores, weights, of_examples = batch.scores, batch.effective_weights(), self._of_examples(batch)
        if of_examples is not None and weights is not None and isinstance(self.metric, AveragePrecision):
            # Lists with one weight each.
            return Batch(scores, batch.targets, of_examples[:, None].to(scores), weights.expand_as(scores) > 0)
        if isinstance(self.metric, CountMetric):
            given = self.metric.threshold if self.thresholds is None else self.thresholds
            if given:  # not the threshold 0, from which scores are counted already
                scores = scores - torch.as_tensor(given, dtype=scores.dtype, device=scores.device)
        if weights is not None:
            weights = weights.expand_as(scores)

        def rows(table: Tensor | None) -> Tensor | None:
            if table is None or self.average == "samples":
                return table
            return table.t() if self.average == "macro" else table.reshape(1, -1)

        return Batch(rows(scores), rows(batch.targets), rows(weights))  # type: ignore[arg-type]


def _weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Over the values that are defined; NaN if there is none."""
    if weights is None:
        return values.nanmean()
    mass = torch.where(values.isnan(), 0.0, weights)
    return (mass * values.nan_to_num(0.0)).sum() / mass.sum()
