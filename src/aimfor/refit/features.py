"""One set of features and targets, checked by the metric's own gate and laid out as rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Batch
from ..errors import InputError
from ..metrics.base import Metric


@dataclass(frozen=True)
class FeatureRows:
    """Features as rows, and the way back from their scores to the metric's layout.

    Attributes:
        kind: Which losses suit: "binary", "multiclass" or "lists".
        rows: ``(n, d)``; for ranked lists only the items that count.
        batch: What the losses see: checked targets, weights and mask; its scores are blank.
        seen: What the metric sees. Differs from ``batch`` for one ranked list ``(n,)``, such as average precision
            of a data set, which is a binary problem to the losses.
        shape: From ``(n, k)`` scores of the rows to the scores of ``batch``.
        outputs: k, the number of scores per row.
    """

    kind: str
    rows: Tensor
    batch: Batch
    seen: Batch
    shape: Callable[[Tensor], Tensor]
    outputs: int

    def as_seen(self, scores: Tensor) -> Batch:
        """The metric's batch with these scores (already shaped) in it."""
        return replace(self.seen, scores=scores.reshape(self.seen.scores.shape))


def make_rows(
    metric: Metric,
    name: str,
    features: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    where: Tensor | None,
    original: nn.Linear | None,
    classes: int | None = None,
) -> FeatureRows:
    """Raises `InputError` under ``name`` for features of the wrong kind, and the gate's own errors for the rest."""
    features = checks.tensor(name, features).detach()
    if features.dtype not in (torch.float32, torch.float64):
        features = features.float()
    if metric.layout not in ("binary", "multiclass", "lists"):
        raise InputError("metric", repr(metric), "a metric of examples or ranked lists", "Its scores have no rows.")
    if features.ndim not in ((2, 3) if metric.layout == "lists" else (2,)) or not features.numel():
        shape = "(n, d) or (b, l, d)" if metric.layout == "lists" else "(n, d)"
        raise InputError(name, f"shape {tuple(features.shape)}", f"shape {shape}, with at least one entry")
    outputs = 1
    if metric.layout == "multiclass":
        outputs = _classes(targets) if classes is None else classes
        outputs = outputs if original is None else original.out_features
    if original is not None and (original.in_features, original.out_features) != (features.shape[-1], outputs):
        raise InputError("original", repr(original), f"a layer from {features.shape[-1]} features to {outputs} scores")
    leading = features.shape[:-1]
    blank = features.new_zeros((*leading, outputs) if metric.layout == "multiclass" else leading)
    seen = metric.check(blank, targets, weights=weights, where=where)
    _defined(name, metric, seen)
    if features.ndim == 3:
        return _lists(features, seen, name)
    checks.finite(name, features)
    if metric.layout == "multiclass":
        return FeatureRows("multiclass", features, seen, seen, lambda scores: scores, outputs)
    batch = seen if metric.layout == "binary" else checks.binary(blank, targets, weights=weights, where=where)
    return FeatureRows("binary", features, batch, seen, lambda scores: scores.squeeze(1), 1)


def _classes(targets: Tensor) -> int:
    """The number of classes: the highest id plus one."""
    ids = checks.tensor("targets", targets)
    return max(2, int(ids.max()) + 1) if ids.numel() else 2


def _defined(name: str, metric: Metric, batch: Batch) -> None:
    """Fitting needs what the metric needs: at least one example of two classes, one relevant item."""
    if not bool(torch.isfinite(metric.exact(batch))):
        raise InputError(name, "data on which the metric is undefined", "at least one example of each class")


def _lists(features: Tensor, batch: Batch, name: str) -> FeatureRows:
    flat = features.reshape(-1, features.shape[-1])
    if batch.where is None:
        keep = torch.arange(flat.shape[0], device=flat.device)
    else:
        keep = batch.where.reshape(-1).nonzero().squeeze(1)
    rows, size, shape = flat[keep], flat.shape[0], batch.scores.shape
    checks.finite(name, rows)

    def to_lists(scores: Tensor) -> Tensor:
        return scores.new_zeros(size).index_copy(0, keep, scores.squeeze(1)).reshape(shape)

    return FeatureRows("lists", rows, batch, batch, to_lists, 1)


def row_counts(part: FeatureRows) -> Tensor:
    """Each row's share in mean, deviation and covariance: every class counts alike, as it does among pairs."""
    batch = part.batch
    if part.kind == "lists":
        return torch.ones(part.rows.shape[0], dtype=torch.float64, device=part.rows.device)
    labels = batch.targets.long()
    given = batch.effective_weights()
    mass = torch.ones_like(labels, dtype=torch.float64) if given is None else given.double()
    totals = torch.zeros(int(labels.max()) + 1, dtype=torch.float64, device=labels.device).index_add_(0, labels, mass)
    return mass / totals.clamp_min(torch.finfo(torch.float64).tiny)[labels]
