"""Exact metrics over a stream of scores: several metrics in the same passes, each a fold over blocks of the curve."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ... import checks
from ...errors import InputError
from ...metrics import AUPRC, AUROC, AveragePrecision, Metric, PrecisionAtRecall, metric_from_name
from ...metrics.at_rate import AtRate
from ...metrics.confusion import CountMetric
from ...metrics.curve import Curve
from ...rates.form import grid
from .sources import ScoreSource
from .sweep import Block, Totals, sweep

#: Bytes of the buffer where none were given.
MEMORY = 512 << 20


@dataclass(frozen=True)
class Found:
    """What a stream says about a metric.

    Attributes:
        value: The exact metric, as `Metric.value` gives it; NaN where undefined.
        best: The metric at the best threshold, for metrics that have one; else None.
        threshold: That threshold: decide positive where ``score > threshold``. It lies halfway to the next lower
            score; among equally good ones it is the highest; +inf (decide nothing) where nothing is better.

    Example:
        >>> from aimfor.fitting.streamed import from_arrays
        >>> evaluate(from_arrays(np.array([2.0, 1.0, 0.0]), np.array([1, 1, 0])), ["f1"])["f1"]
        Found(value=1.0, best=1.0, threshold=0.5)
    """

    value: float
    best: float | None = None
    threshold: float | None = None


def evaluate(source: ScoreSource, metrics: Iterable[str | Metric], memory: int = MEMORY) -> dict[str, Found]:
    """Exact metrics of scores that need not fit in memory.

    Args:
        source: See `from_arrays`, `from_parquet` and `from_chunks`.
        metrics: Names or metrics of binary decisions and rankings: auroc (also partial), ap, f1, fbeta=2, iou,
            accuracy, recall@precision=0.9, precision@recall=0.8, tpr@fpr=0.1, auprc@10.
        memory: Bytes of the buffer. With fewer than the scores take, they are read more often.

    Raises:
        InputError: A metric without a streamed value, a bad chunk, or a source that changes between passes.

    Example:
        >>> import numpy as np
        >>> from aimfor.fitting import streamed
        >>> source = streamed.from_arrays(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
        >>> found = streamed.evaluate(source, ["auroc", "f1"])
        >>> found["auroc"].value
        0.75
        >>> round(found["f1"].threshold, 6), round(found["f1"].best, 6)
        (0.225, 0.8)
    """
    checks.integer("memory", memory, at_least=1)
    wanted = {str(one): metric_from_name(one) if isinstance(one, str) else one for one in metrics}
    cuts = {metric.threshold for metric in wanted.values() if isinstance(metric, CountMetric)}
    kinds = {name: _kind(name, metric) for name, metric in wanted.items()}
    totals, blocks = sweep(source, memory, cuts)
    folds = {name: kind(metric, totals) for (name, kind), metric in zip(kinds.items(), wanted.values(), strict=True)}
    for block in blocks:
        for fold in folds.values():
            fold.add(block)
    found = {name: fold.result() for name, fold in folds.items()}
    return _between(source, found)


def _kind(name: str, metric: Metric) -> type[_Fold]:
    for kind in (_Area, _Precision, _Count, _AtRate, _Grid):
        if isinstance(metric, kind.of):
            if isinstance(metric, CountMetric) and not (metric.curved and metric.layout == "binary"):
                break
            return kind
    raise InputError(
        "metrics", repr(name), "a metric of one score per row that is monotone in hits and false alarms",
        "auroc, ap, f1, fbeta=…, iou, accuracy, recall@precision=…, precision@recall=…, tpr@fpr=…, auprc@… are.",
    )  # fmt: skip


class _Fold(ABC):
    """A metric as a fold over the blocks of the curve, in any order."""

    of: type[Metric]

    def __init__(self, metric: Metric, totals: Totals) -> None:
        self.metric, self.totals = metric, totals

    @abstractmethod
    def add(self, block: Block) -> None: ...

    @abstractmethod
    def result(self) -> Found: ...

    def curve(self, block: Block) -> Curve:
        tp, fp = (torch.from_numpy(part.astype(np.float64)) for part in (block.tp, block.fp))
        ends = [
            torch.tensor(float(part), dtype=torch.float64) for part in (self.totals.positives, self.totals.negatives)
        ]
        return Curve(tp, fp, torch.from_numpy(block.scores), ends[0], ends[1])


class _Area(_Fold):
    """AUROC: every positive counts the negatives below it and half of those beside it. Whole numbers until the end."""

    of = AUROC

    def __init__(self, metric: Metric, totals: Totals) -> None:
        super().__init__(metric, totals)
        assert isinstance(metric, AUROC)
        self.part, self.pairs, self.areas = metric.max_fpr or 1.0, 0, [0.0]

    def add(self, block: Block) -> None:
        if self.part == 1.0:
            self.pairs += int((block.count * (2 * self.totals.negatives - block.fp - block.above)).sum())
            return
        # Each tie of a positive with negatives is a slope of the curve, cut off at the limit.
        limit, tied = self.part * self.totals.negatives, (block.fp - block.above).astype(np.float64)
        beyond = np.clip(limit - block.above, 0.0, None)
        inside = np.minimum(beyond, tied)
        slope = np.divide(inside**2, 2 * tied, out=np.zeros_like(tied), where=tied > 0)
        self.areas.append(float((block.count * (slope + beyond - inside)).sum()))

    def result(self) -> Found:
        pairs = self.totals.positives * self.totals.negatives
        if not pairs:
            return Found(math.nan)
        if self.part == 1.0:
            return Found(self.pairs / (2 * pairs))
        least = self.part**2 / 2
        return Found(0.5 * (1 + (math.fsum(self.areas) / pairs - least) / (self.part - least)))


class _Precision(_Fold):
    """Average precision: the mean over the positives of the precision at their scores."""

    of = AveragePrecision

    def __init__(self, metric: Metric, totals: Totals) -> None:
        super().__init__(metric, totals)
        self.sums = [0.0]

    def add(self, block: Block) -> None:
        self.sums.append(float((block.count * (block.tp / (block.tp + block.fp))).sum()))

    def result(self) -> Found:
        return Found(math.fsum(self.sums) / self.totals.positives if self.totals.positives else math.nan)


class _Best(_Fold):
    """A best value over the thresholds."""

    def __init__(self, metric: Metric, totals: Totals) -> None:
        super().__init__(metric, totals)
        self.best, self.score = -math.inf, math.inf

    @abstractmethod
    def values(self, curve: Curve) -> torch.Tensor:
        """What is maximised, at each threshold."""

    def add(self, block: Block) -> None:
        values = self.values(self.curve(block)).nan_to_num(-math.inf)
        place = len(values) - 1 - int(values.flip(0).argmax())  # the highest score among equals
        here = float(values[place]), float(block.scores[place])
        if here > (self.best, self.score if math.isfinite(self.score) else -math.inf):
            self.best, self.score = here


class _Count(_Best):
    """A metric of decisions: its value at its own threshold, and the best one."""

    of = CountMetric

    def values(self, curve: Curve) -> torch.Tensor:
        assert isinstance(self.metric, CountMetric)
        return self.metric.of_counts(curve.tp, curve.fp, curve.positives - curve.tp, curve.negatives - curve.fp)

    def _at(self, tp: int, fp: int) -> float:
        assert isinstance(self.metric, CountMetric)
        counts = (tp, fp, self.totals.positives - tp, self.totals.negatives - fp)
        return float(self.metric.of_counts(*(torch.tensor(float(part), dtype=torch.float64) for part in counts)))

    def result(self) -> Found:
        assert isinstance(self.metric, CountMetric)
        nothing = self._at(0, 0)
        value = self._at(*self.totals.decided[self.metric.threshold])
        if not self.best > nothing:
            return Found(value, nothing, math.inf)
        return Found(value, self.best, self.score)


class _AtRate(_Best):
    """The best of one rate over the thresholds that keep another at its floor."""

    of = AtRate

    def values(self, curve: Curve) -> torch.Tensor:
        assert isinstance(self.metric, AtRate)
        return self.metric.allowed(curve)

    def result(self) -> Found:
        if not self.totals.positives:
            return Found(math.nan)
        best = max(self.best, 0.0)
        return Found(best, best, self.score if self.best > 0 else math.inf)


class _Grid(_Fold):
    """The mean of the best precision over a grid of recalls."""

    of = AUPRC

    def __init__(self, metric: Metric, totals: Totals) -> None:
        super().__init__(metric, totals)
        assert isinstance(metric, AUPRC)
        self.parts = [_AtRate(PrecisionAtRecall(recall), totals) for recall in grid(metric.points)]

    def add(self, block: Block) -> None:
        for part in self.parts:
            part.add(block)

    def result(self) -> Found:
        return Found(math.fsum(part.result().value for part in self.parts) / len(self.parts))


def _between(source: ScoreSource, found: dict[str, Found]) -> dict[str, Found]:
    """Moves every threshold from the lowest score it lets through to halfway below it, by one more pass."""
    scores = sorted({one.threshold for one in found.values() if one.threshold is not None} - {math.inf})
    if not scores:
        return found
    moved = dict(zip(scores, _halfway(source, scores), strict=True))
    return {
        name: one if one.threshold is None else replace(one, threshold=moved.get(one.threshold, one.threshold))
        for name, one in found.items()
    }


def _halfway(source: ScoreSource, scores: Sequence[float]) -> list[float]:
    lower = [-math.inf] * len(scores)
    kind = np.dtype(np.float64)
    for chunk, _ in next(source.passes()):
        kind = chunk.dtype
        for place, score in enumerate(scores):
            lower[place] = float(np.max(chunk, where=chunk < score, initial=lower[place]))
    cuts = []
    for score, below in zip(scores, lower, strict=True):
        if below == -math.inf:
            cuts.append(float(np.nextafter(kind.type(score), kind.type(-math.inf))))
        else:
            middle = float(kind.type(0.5 * (score + below)))
            cuts.append(middle if middle < score else below)  # neighbouring floats have nothing between them
    return cuts
