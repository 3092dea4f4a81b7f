"""What to minimise so that a metric rises: convex stand-ins first, the metric's own loss to finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from ..engine import Batch
from ..errors import UnsupportedPairError
from ..metrics.auroc import AUROC
from ..metrics.base import Metric
from ..metrics.confusion import CountMetric
from ..sorted import HasPairs, SortedEngine
from .features import FeatureRows, class_weights


@dataclass(frozen=True)
class HeadObjective:
    """A loss of the scores of the whole data set.

    Attributes:
        name: What the record of a fit calls it.
        convex: In the scores, hence in the layer: one optimum, found to the tolerance. Others start at the best
            convex candidate and end in a local optimum.
        loss: From scores, shaped as the metric takes them, to a scalar.
        smooth: False where the gradient jumps (which negatives are at the top): solved approximately.
    """

    name: str
    convex: bool
    loss: Callable[[Tensor], Tensor]
    smooth: bool = True


def objectives_for(metric: Metric, rows: FeatureRows) -> list[HeadObjective]:
    """The objectives tried for a metric on this data set (see `HeadFitter`), convex ones first.

    All pairs for every binary metric: a ranking that is good everywhere is good at the top too.
    """
    if rows.kind == "binary":
        objectives = _binary(metric, rows.batch)
    elif rows.kind == "multiclass":
        objectives = _multiclass(metric, rows.batch)
    else:
        objectives = [HeadObjective("listwise softmax", True, partial(_listwise, rows.batch))]
    if not isinstance(metric, HasPairs):
        objectives += _own(metric, rows)
    return sorted(objectives, key=lambda objective: not objective.convex)


def _pairs(name: str, metric: Metric, batch: Batch) -> HeadObjective:
    engine = SortedEngine("squared_hinge")
    smooth = getattr(metric, "max_fpr", None) in (None, 1, 1.0)
    return HeadObjective(name, True, lambda scores: engine(metric, replace(batch, scores=scores)).loss, smooth)


def _binary(metric: Metric, batch: Batch) -> list[HeadObjective]:
    ranking = metric if isinstance(metric, HasPairs) else AUROC()
    objectives = [_pairs("all pairs" if ranking == AUROC() else repr(ranking), ranking, batch)]
    if metric != AUROC():
        # A sum over the top of convex increasing terms is a maximum over subsets, hence convex as well.
        objectives.append(_pairs("top pairs", AUROC(max_fpr=0.1), batch))
    if isinstance(metric, CountMetric):
        objectives.append(HeadObjective("soft counts", False, partial(_soft_counts, metric, batch)))
    return objectives + _entropies(_binary_entropy, batch)


def _multiclass(metric: Metric, batch: Batch) -> list[HeadObjective]:
    pairs = [_pairs("all pairs", metric, batch)] if isinstance(metric, HasPairs) else []
    return pairs + _entropies(_softmax_entropy, batch)


def _entropies(loss: Callable[[Batch, Tensor, Tensor], Tensor], batch: Batch) -> list[HeadObjective]:
    return [
        HeadObjective(name, True, partial(loss, batch, class_weights(batch, balanced).to(batch.scores.dtype)))
        for name, balanced in (("cross-entropy", False), ("balanced cross-entropy", True))
    ]


def _own(metric: Metric, rows: FeatureRows) -> list[HeadObjective]:
    """The metric's own loss, by an engine that needs no memory (duals per example need their own loop)."""
    try:
        engine = metric.engine_for_logits().for_one_batch()
    except UnsupportedPairError:
        engine = None
    return (
        []
        if engine is None
        else [HeadObjective("metric", False, lambda scores: engine(metric, rows.as_seen(scores)).loss)]
    )


def _soft_counts(metric: CountMetric, batch: Batch, scores: Tensor) -> Tensor:
    """``1 − metric`` of the counts with ``sigmoid(score)`` for the decision: smooth, not convex."""
    given = batch.effective_weights()
    mass = torch.ones_like(scores, dtype=torch.float64) if given is None else given.double()
    decided = mass * torch.sigmoid(scores.double() - metric.threshold)
    positive = batch.targets.double()
    tp, everything = torch.dot(decided, positive), torch.dot(mass, positive)
    fp, others = decided.sum() - tp, mass.sum() - everything
    return (1.0 - metric.of_counts(tp, fp, everything - tp, others - fp)).to(scores.dtype)


def _binary_entropy(batch: Batch, weights: Tensor, scores: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, batch.targets.to(scores.dtype), weights, reduction="sum")


def _softmax_entropy(batch: Batch, weights: Tensor, scores: Tensor) -> Tensor:
    losses = functional.cross_entropy(scores, batch.targets, reduction="none")
    return torch.dot(losses, weights.to(losses.dtype))


def _listwise(batch: Batch, scores: Tensor) -> Tensor:
    """Cross-entropy between the grades' shares of a list and the softmax of its scores (ListNet); convex."""
    if batch.where is not None:
        scores = scores.masked_fill(~batch.where, -torch.inf)
    grades = batch.targets.to(scores.dtype)
    total = grades.sum(1, keepdim=True)
    share = grades / total.clamp_min(torch.finfo(scores.dtype).tiny)
    # 0 · (−inf) of masked entries would be NaN.
    terms = torch.where(share > 0, share * torch.log_softmax(scores, 1), torch.zeros_like(scores)).sum(1)
    defined = (total.squeeze(1) > 0).to(scores.dtype)
    return -(terms * defined).sum() / defined.sum().clamp_min(1.0)
