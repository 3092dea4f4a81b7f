"""Features as rows: collected from a network over a whole loader, and checked by the metric's own gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Batch
from ..errors import InputError
from ..metrics.base import Metric


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, without gradients; its mode is restored."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def last_linear(model: nn.Module, inputs: Tensor) -> str:
    """The name of the linear layer that runs last on ``inputs`` and whose output is the model's output.

    Raises:
        InputError: There is none, or something follows it.
    """
    calls: list[tuple[str, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda _m, _i, output, name=name: calls.append((name, output)))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        with evaluating(model):
            output = model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if not calls:
        raise InputError(
            "model", f"a {type(model).__name__} that runs no nn.Linear", "a network with a linear last layer"
        )
    name, scores = calls[-1]
    if not isinstance(output, Tensor) or not torch.equal(output.flatten(), scores.flatten()):
        raise InputError(
            "model",
            f"a network with further layers after its last linear layer {name!r}",
            "one whose output is that layer's output",
            "Pass layer= with the name of the layer to refit, if what follows keeps the metric unchanged.",
        )
    return name


def collect(model: nn.Module, loader: Iterable[Any], layer: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features, targets and (where batches have a third part) weights or mask, of every batch in turn."""
    module = dict(model.named_modules()).get(layer)
    if not isinstance(module, nn.Linear):
        raise InputError("layer", repr(layer), "the name of an nn.Linear in the model", "See model.named_modules().")
    device = module.weight.device
    seen: list[Tensor] = []
    features, targets, rest = [], [], []
    hook = module.register_forward_pre_hook(lambda _m, args: seen.append(args[0].detach()))
    try:
        with evaluating(model):
            for batch in loader:
                seen.clear()
                model(batch_part(batch, 0).to(device))
                if len(seen) != 1:
                    raise InputError("layer", f"{layer!r}, called {len(seen)} times", "a layer called once per batch")
                features.append(seen[0])
                targets.append(batch_part(batch, 1).to(device))
                if len(batch) > 2:
                    rest.append(batch_part(batch, 2).to(device))
    finally:
        hook.remove()
    if not features:
        raise InputError("loader", "no batch", "at least one batch of (inputs, targets)")
    return torch.cat(features), torch.cat(targets), torch.cat(rest) if rest else None


def batch_part(batch: Any, position: int) -> Tensor:
    """One part of a batch ``(inputs, targets)`` or ``(inputs, targets, weights)``."""
    if not isinstance(batch, list | tuple) or not 2 <= len(batch) <= 3 or not isinstance(batch[position], Tensor):
        raise InputError(
            "loader",
            f"batches of type {type(batch).__name__}",
            "tuples of tensors (inputs, targets[, weights or where])",
        )
    return batch[position]  # type: ignore[no-any-return]


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
        ids = checks.tensor("targets", targets)
        outputs = classes or max(2, int(ids.max()) + 1 if ids.numel() else 2)
        outputs = outputs if original is None else original.out_features
    if original is not None and (original.in_features, original.out_features) != (features.shape[-1], outputs):
        raise InputError("original", repr(original), f"a layer from {features.shape[-1]} features to {outputs} scores")
    leading = features.shape[:-1]
    blank = features.new_zeros((*leading, outputs) if metric.layout == "multiclass" else leading)
    seen = metric.check(blank, targets, weights=weights, where=where)
    if not bool(torch.isfinite(metric.exact(seen))):  # fitting needs what the metric needs
        raise InputError(name, "data on which the metric is undefined", "at least one example of each class")
    if features.ndim == 3:
        return _lists(features, seen, name)
    checks.finite(name, features)
    if metric.layout == "multiclass":
        return FeatureRows("multiclass", features, seen, seen, lambda scores: scores, outputs)
    batch = seen if metric.layout == "binary" else checks.binary(blank, targets, weights=weights, where=where)
    return FeatureRows("binary", features, batch, seen, lambda scores: scores.squeeze(1), 1)


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


def class_weights(batch: Batch, balanced: bool) -> Tensor:
    """One weight per example, float64, with sum 1; each class has the same total, as among pairs, when ``balanced``."""
    labels, given = batch.targets.long(), batch.effective_weights()
    weights = torch.ones_like(labels, dtype=torch.float64) if given is None else given.double()
    if balanced:
        totals = torch.zeros(int(labels.max()) + 1, dtype=torch.float64, device=labels.device)
        totals.index_add_(0, labels, weights)
        weights = weights / totals.clamp_min(torch.finfo(torch.float64).tiny)[labels]
    return weights / weights.sum()
