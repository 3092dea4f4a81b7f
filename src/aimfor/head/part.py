"""One set of features and targets, checked by the metric's own gate and laid out as rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Batch
from ..errors import InputError
from ..metrics.base import Metric


@dataclass(frozen=True)
class Part:
    """Features as rows, and the way back from their scores to the metric's layout.

    Attributes:
        rows: ``(n, d)``; for ranked lists only the items that count.
        batch: Checked targets, weights and mask; its scores are blank.
        shape: From ``(n, k)`` scores of the rows to the scores the metric takes.
        outputs: k, the number of scores per row.
    """

    rows: Tensor
    batch: Batch
    shape: Callable[[Tensor], Tensor]
    outputs: int


def make_part(
    metric: Metric,
    name: str,
    features: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    where: Tensor | None,
    original: nn.Linear | None,
) -> Part:
    """Raises `InputError` under ``name`` for features of the wrong kind, and the gate's own errors for the rest."""
    features = checks.tensor(name, features).detach()
    if features.dtype not in (torch.float32, torch.float64):
        features = features.float()
    layout = metric.layout
    if features.ndim != (3 if layout == "lists" else 2) or not features.numel():
        shape = "(b, l, d)" if layout == "lists" else "(n, d)"
        raise InputError(name, f"shape {tuple(features.shape)}", f"shape {shape}, with at least one entry")
    outputs = 1
    if layout == "multiclass":
        outputs = original.out_features if original is not None else max(2, int(targets.max()) + 1)
    if original is not None and (original.in_features, original.out_features) != (features.shape[-1], outputs):
        raise InputError("original", repr(original), f"a layer from {features.shape[-1]} features to {outputs} scores")
    blank = features.new_zeros((*features.shape[:-1], outputs) if layout == "multiclass" else features.shape[:-1])
    batch = metric.check(blank, targets, weights=weights, where=where)
    if layout == "lists":
        return _lists(features, batch, name)
    checks.finite(name, features)
    if layout == "binary":
        return Part(features, batch, lambda scores: scores.squeeze(1), 1)
    return Part(features, batch, lambda scores: scores, outputs)


def _lists(features: Tensor, batch: Batch, name: str) -> Part:
    flat = features.reshape(-1, features.shape[-1])
    if batch.where is None:
        keep = torch.arange(flat.shape[0], device=flat.device)
    else:
        keep = batch.where.reshape(-1).nonzero().squeeze(1)
    rows, size, shape = flat[keep], flat.shape[0], batch.scores.shape
    checks.finite(name, rows)

    def to_lists(scores: Tensor) -> Tensor:
        return scores.new_zeros(size).index_copy(0, keep, scores.squeeze(1)).reshape(shape)

    return Part(rows, batch, to_lists, 1)


def row_counts(part: Part) -> Tensor:
    """Each row's share in mean, deviation and covariance: every class counts alike, as it does among pairs."""
    batch = part.batch
    if batch.targets.ndim == 2:
        return torch.ones(part.rows.shape[0], dtype=torch.float64, device=part.rows.device)
    labels = batch.targets.long()
    given = batch.effective_weights()
    mass = torch.ones_like(labels, dtype=torch.float64) if given is None else given.double()
    totals = torch.zeros(int(labels.max()) + 1, dtype=torch.float64, device=labels.device).index_add_(0, labels, mass)
    return mass / totals.clamp_min(torch.finfo(torch.float64).tiny)[labels]
