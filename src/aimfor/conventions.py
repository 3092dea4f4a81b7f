"""What the losses of PyTorch take as well: a label to ignore, a weight for each class, a loss for each list."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .engine import Batch, Engine, EngineOutput, Status
from .errors import InputError
from .metrics.average_precision import AveragePrecision
from .metrics.base import Metric

#: Layouts whose first dimension counts things that stand for themselves: ranked lists, and images.
ROWS = {"lists": "lists", "masks": "images"}


def ignored_label(value: Any) -> int | None:
    """``ignore_index``: a whole number, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise InputError("ignore_index", repr(value), "a whole number, such as 255 or -100, or None")
    return value


def counted(targets: Any, where: Any, label: int) -> Any:
    """``where`` without the entries whose target is ``label``. What is no tensor is left for the gate to refuse."""
    if not isinstance(targets, Tensor):
        return where
    kept = (targets if targets.is_floating_point() else targets.long()) != label  # in uint8, -100 would be 156
    if where is None:
        return kept
    if not isinstance(where, Tensor) or where.dtype != torch.bool or where.numel() != kept.numel():
        return where
    return where & kept.reshape(where.shape)


def class_weights(given: Sequence[float] | Tensor | None, metric: Metric, engine: Engine) -> Tensor | None:
    """One weight >= 0 for each class, ``(c,)`` float64; binary metrics have two, for 0 and for 1."""
    if given is None:
        return None
    try:
        weights = torch.as_tensor(given, dtype=torch.float64).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        raise InputError("class_weights", repr(given), "one number for each class, e.g. [1.0, 5.0]") from None
    if weights.ndim != 1 or len(weights) < 2:
        raise InputError(
            "class_weights",
            f"shape {tuple(weights.shape)}",
            "one weight for each class, at least two",
            "For a weight of the positives alone pass [1.0, weight].",
        )
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()) or not bool((weights > 0).any()):
        raise InputError("class_weights", str(weights.tolist()), "finite weights >= 0, one of them above 0")
    if metric.layout not in ("binary", "multiclass", "masks") and not isinstance(metric, AveragePrecision):
        raise InputError(
            "class_weights",
            "weights of classes",
            f"None: {metric!r} has no weights of single labels",
            "Pass weights= with one entry for each list or example.",
        )
    if not engine.takes_weights:
        raise InputError("class_weights", "weights of classes", f"None: {type(engine).__name__} takes no weights")
    return weights


def weighted(batch: Batch, by_class: Tensor) -> Batch:
    """The checked batch with every entry's weight multiplied by that of its class."""
    classes = 2 if batch.targets.dtype == torch.bool else batch.scores.shape[-1]
    if len(by_class) != classes:
        raise InputError("class_weights", f"{len(by_class)} weights", f"one for each of {classes} classes")
    if batch.weights is not None and batch.weights.shape != batch.targets.shape:
        raise InputError(
            "weights",
            "one for each list, beside class weights",
            "weights of items, or none",
            "Multiply them into weights of items, and leave class_weights= out.",
        )
    weights = by_class.to(batch.scores)[batch.targets.long()]
    if batch.where is not None:
        weights = torch.where(batch.where, weights, weights.new_zeros(()))
    return dataclasses.replace(batch, weights=weights if batch.weights is None else weights * batch.weights)


def reduction(value: Any, metric: Metric, engine: Engine) -> str:
    """``"mean"``, or ``"none"`` where that has a meaning: lists or images, and an engine without a memory."""
    if value not in ("mean", "none"):
        raise InputError("reduction", repr(value), "'mean' or 'none'")
    if value == "none" and metric.layout not in ROWS:
        raise InputError(
            "reduction",
            "'none'",
            f"'mean': {metric!r} is one number of the whole batch",
            "Metrics of lists (ap, ndcg@10, map@r) and IoU(average='image') have a loss for each row.",
        )
    if value == "none" and not engine.stateless:
        raise InputError(
            "reduction",
            f"'none' with {engine!r}",
            "an engine that remembers nothing: each row is solved by itself",
            "Pass one without a bank or a schedule, e.g. aimfor.SmoothEngine(anchor=0.5).",
        )
    return str(value)


def each_row(engine: Engine, metric: Metric, batch: Batch) -> EngineOutput:
    """A loss for every list or image, ``(b,)``, times its weight if it has one; 0 where the metric is undefined."""
    if not len(batch.scores):
        return EngineOutput(batch.scores.flatten(), Status.undefined_batch)
    outputs = [engine(metric, row) for row in rows(batch)]
    losses = torch.stack([output.loss for output in outputs])
    if batch.weights is not None and batch.weights.shape != batch.targets.shape:
        losses = losses * batch.weights[:, 0]
    undefined = sum(output.status is Status.undefined_batch for output in outputs)
    status = Status.undefined_batch if undefined == len(outputs) else Status.ok
    zero = all(output.stats.get("zero_gradient", False) for output in outputs)
    return EngineOutput(losses, status, {"undefined_rows": undefined, "zero_gradient": zero})


def rows(batch: Batch) -> Iterator[Batch]:
    """The lists or images of a batch, as batches of one."""
    for i in range(len(batch.scores)):
        row = slice(i, i + 1)
        weights, where = (None if values is None else values[row] for values in (batch.weights, batch.where))
        yield Batch(batch.scores[row], batch.targets[row], weights, where)
