"""MetricLoss: the module users call. It joins a metric (what) with an engine (how)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import checks, compiled, conventions, distributed
from .engine import Batch, Engine, EngineOutput
from .errors import InputError, UnsupportedPairError
from .metrics.base import Metric
from .metrics.registry import engines_for, metric_from_name, trainers
from .watch import BatchCounts, DegenerateWatch, ProbabilityWatch


class MetricLoss(nn.Module):
    """A loss to minimise that stands for ``1 − metric``.

    Args:
        metric: A `Metric`, or its name (``"auroc"``, ``"fbeta=2"``, ``"recall@precision=0.9"``, …).
        engine: An `Engine`; None takes the metric's best.
        threshold: Where scores are decided, for metrics of decisions (F_β, IoU, accuracy, …): 0 for raw scores, 0.5 for
            probabilities. It replaces the metric's own, in the loss and in `value` alike. None leaves it.
        ignore_index: A label that does not count, such as 255 in masks: as ``where=targets != ignore_index``, in the
            loss and in `value` alike.
        class_weights: One weight for each class, as in ``torch.nn.CrossEntropyLoss``; ``[1.0, w]`` is ``pos_weight`` of
            binary cross-entropy. They weigh the loss; `value` is the plain metric, which is what you are judged by.
        reduction: ``"none"`` gives one loss for each list (or image, for a mean over images), ``(b,)``, times its
            weight if it has one; 0 where the metric is undefined. Rows are solved one by one.
        validate: False skips the checks that read values off the device (NaN, label domain); shapes and types
            are always checked.
        gather: Under ``torch.distributed``, rank the joined batch of all processes (training mode only, with
            exact gradients). False keeps every process to its own batch.
        process_group: Whose batches are joined: the data-parallel group of a job that also cuts the model among
            processes. None is all processes.

    Shape:
        Binary metrics take ``(n,)`` or ``(n, 1)``, multi-class ``(n, c)`` with ``(n,)`` class ids, ranked lists
        ``(b, l)`` with ``where``, or ``(n,)`` with ``groups``, one whole number per row, equal in the rows of a list.

    Attributes:
        counts: How many training batches there were, how many left the metric undefined, and how many had a gradient
            of exactly 0 (`BatchCounts`). `detailed` has the same numbers in its ``stats``. Not in ``state_dict``.

    Warns:
        DegenerateBatchWarning: At the first undefined batch of a process, and once for each loss that meets many.
        ProbabilityWarning: Once, when probabilities are decided at a threshold of 0 or less.

    Raises:
        InputError: For a threshold that the metric does not have.
        UnsupportedPairError: At construction, when no such pair exists; lists those that do.

    Example:
        >>> import torch, aimfor
        >>> loss_fn = aimfor.MetricLoss("auroc")
        >>> scores = torch.tensor([2.0, -1.0, 0.5], requires_grad=True)
        >>> loss = loss_fn(scores, torch.tensor([1, 0, 1]))
        >>> loss.backward()
    """

    _tick: Tensor

    def __init__(
        self,
        metric: Metric | str,
        engine: Engine | None = None,
        *,
        threshold: float | None = None,
        ignore_index: int | None = None,
        class_weights: Sequence[float] | Tensor | None = None,
        reduction: str = "mean",
        validate: bool = True,
        gather: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(metric, str):
            metric = metric_from_name(metric)
        if not isinstance(metric, Metric):
            raise InputError("metric", _kind_of(metric), "a Metric or a metric's name")
        if threshold is not None:
            metric = _decided_at(metric, threshold)
        if engine is None:
            engine = _default_engine(metric)
        if not isinstance(engine, Engine):
            raise InputError(
                "engine", _kind_of(engine), "an Engine instance, e.g. aimfor.SmoothEngine()", _who_can(metric)
            )
        reason = engine.refuses(metric)
        if reason is not None:
            raise UnsupportedPairError(f"{type(engine).__name__} cannot train {metric!r}: {reason}. {_who_can(metric)}")
        self.metric = metric
        self.engine = engine
        self.ignore_index = conventions.ignored_label(ignore_index)
        self.class_weights: Tensor | None
        self.register_buffer(
            "class_weights", conventions.class_weights(class_weights, metric, engine), persistent=False
        )
        self.reduction = conventions.reduction(reduction, metric, engine)
        self.validate = validate
        self.gather = gather
        self._processes = distributed.Processes(process_group)
        self.counts = BatchCounts()
        self._probabilities, self._degenerate = ProbabilityWatch(), DegenerateWatch()
        self._handle = compiled.register(self)
        self.register_buffer("_tick", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(
        self,
        scores: Tensor,
        targets: Tensor,
        *,
        weights: Tensor | None = None,
        where: Tensor | None = None,
        index: Tensor | None = None,
        groups: dict[str, Tensor] | Tensor | None = None,
    ) -> Tensor:
        """The loss, attached to the graph and finite: a scalar, or ``(b,)`` with ``reduction="none"``."""
        if torch.compiler.is_compiling():
            if not self.engine.has_duals and groups is None and self.reduction == "mean":
                return compiled.metric_loss(scores, targets, weights, where, index, self._tick, self._handle)
            return compiled.outside_the_graph(self, scores, targets, weights, where, index, groups)
        if compiled.transforms_active():
            if self.reduction == "none":
                raise InputError("reduction", "'none' inside torch.func", "'mean'", "Map over the lists with vmap.")
            return compiled.transformed(self, scores, targets, weights, where, index, groups)
        rest = {"weights": weights, "where": where, "index": index, "groups": groups}
        return self._without_autocast(scores, targets, rest).loss

    def detailed(
        self,
        scores: Tensor,
        targets: Tensor,
        *,
        weights: Tensor | None = None,
        where: Tensor | None = None,
        index: Tensor | None = None,
        groups: dict[str, Tensor] | Tensor | None = None,
    ) -> EngineOutput:
        """As `forward`, with the status of the solve and numbers worth logging. Same arguments."""
        rest = {"weights": weights, "where": where, "index": index, "groups": groups}
        return self._without_autocast(scores, targets, rest).with_stats(self.counts.stats())

    def _without_autocast(self, scores: Tensor, targets: Tensor, rest: dict[str, Any]) -> EngineOutput:
        if isinstance(scores, Tensor) and not scores.is_meta and torch.is_autocast_enabled(scores.device.type):
            with torch.autocast(scores.device.type, enabled=False):
                return self._run(scores, targets, rest)
        return self._run(scores, targets, rest)

    def _run(self, scores: Tensor, targets: Tensor, rest: dict[str, Any]) -> EngineOutput:
        if self.ignore_index is not None:
            rest["where"] = conventions.counted(targets, rest.get("where"), self.ignore_index)

        def check() -> Batch:
            limit = checks.largest_score(scores)
            batch = self.metric.check(scores, targets, values=self.validate, limit=limit, **rest)
            return batch if self.class_weights is None else conventions.weighted(batch, self.class_weights)

        by_row = self.reduction == "none"  # a list's own loss needs nobody else's scores
        if not by_row and self.gather and self.training and torch.is_grad_enabled() and self._processes.size() > 1:
            given = tuple(rest.get(name) is not None for name in ("weights", "where", "index", "groups"))
            batch = distributed.joined_batch(check, given, self._processes)
        else:
            batch = check()
        try:
            solve = conventions.each_row if by_row else Engine.__call__
            engine = self.engine.for_batch_of(batch.targets.numel() // batch.pixels)
            output: EngineOutput = solve(engine, self.metric, batch)
        except InputError as error:
            if error.argument != "weights":
                raise
            advice = f"{error.remedy} {self._about_weights()}".strip()
            raise InputError(error.argument, error.came, error.expected, advice) from None
        self._notice(scores, batch, output)
        return output

    def _about_weights(self) -> str:
        """Which engines would take any weights, read off the registry."""
        takers = [
            engine.__name__
            for engine in trainers(self.metric)
            if engine.takes_weights and not engine.whole_weights_only and not isinstance(self.engine, engine)
        ]
        if not takers:
            return f"No engine takes other weights for {self.metric!r}."
        return f"Any weights >= 0 are taken for {self.metric!r} by: {', '.join(takers)}."

    def _notice(self, scores: Tensor, batch: Batch, output: EngineOutput) -> None:
        """Warnings and counters; nothing here changes the loss."""
        checked = batch.scores if self.validate else None
        self._probabilities.observe(scores, checked, self.metric.decided_at(batch))
        if self.training and torch.is_grad_enabled():  # a loss outside the model is seldom told to evaluate
            wait = self.validate or output.unread is None
            self.counts.add(output, wait)
            if wait:
                bank = getattr(self.engine, "bank", False) is None
                self._degenerate.observe(output, self.counts, self.metric, bank)

    def value(
        self,
        scores: Tensor,
        targets: Tensor,
        *,
        weights: Tensor | None = None,
        where: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        """The exact metric, as `Metric.value`; labels to ignore are left out, weights of classes are not applied."""
        if self.ignore_index is not None:
            where = conventions.counted(targets, where, self.ignore_index)
        return self.metric.value(scores, targets, weights=weights, where=where, groups=groups)

    def end_epoch(self) -> None:
        """Call once per epoch: engines with dual variables take their step here, others do nothing."""
        self.engine.end_epoch()

    def extra_repr(self) -> str:
        return f"metric={self.metric!r}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._handle = compiled.register(self)  # a copy is a module of its own


def _default_engine(metric: Metric) -> Engine:
    try:
        return metric.default_engine()
    except UnsupportedPairError as error:
        raise UnsupportedPairError(f"{error} Pass one as the second argument. {_who_can(metric)}") from None


def _kind_of(value: Any) -> str:
    """What came instead of a metric or an engine; most often its class, or a name."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not {value.__name__}()"
    return repr(value) if isinstance(value, str) else f"a {type(value).__name__}"


def _who_can(metric: Metric) -> str:
    return f"Engines that can: {', '.join(engines_for(metric)) or 'none yet'}."


def _decided_at(metric: Metric, threshold: float) -> Metric:
    """The same metric with another threshold."""
    if not hasattr(metric, "threshold"):
        raise InputError(
            "threshold",
            repr(threshold),
            f"None: {metric!r} decides nothing at a threshold",
            "Metrics of decisions have one: f1, fbeta=2, iou, accuracy.",
        )
    return dataclasses.replace(metric, threshold=threshold)  # type: ignore[type-var]
