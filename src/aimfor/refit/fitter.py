"""HeadFitter: the last layer refitted on the whole data set for the metric, with a record of how it was chosen."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..errors import InputError
from ..metrics.base import Metric
from ..metrics.confusion import CountMetric
from ..metrics.registry import metric_from_name
from .choose import best_shift, held_out
from .features import FeatureRows, batch_part, class_weights, collect, last_linear, make_rows
from .minimise import Space, make_space, minimise
from .objectives import HeadObjective, objectives_for


@dataclass(frozen=True)
class HeadCandidate:
    """One layer that was tried, with the metric it reached on validation data."""

    objective: str
    ridge: float | None
    value: float
    convex: bool = True
    gradient: float = 0.0
    evaluations: int = 0


@dataclass(frozen=True)
class HeadRecord:
    """How a head was chosen.

    Attributes:
        metric: The metric, as written.
        chosen: The candidate that won.
        candidates: All of them; the original layer, where there is one, is first.
        examples: Number of rows fitted on.
        seconds: Wall time of the whole fit.

    Example:
        >>> import torch, aimfor
        >>> x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
        >>> record = aimfor.HeadFitter("auroc", ridges=[0.1]).fit(x, (x[:, 0] > 0).long()).record
        >>> record.metric, record.examples, record.original is None
        ('AUROC(max_fpr=None)', 64, True)
    """

    metric: str
    chosen: HeadCandidate
    candidates: tuple[HeadCandidate, ...] = field(repr=False)
    examples: int
    seconds: float

    @property
    def original(self) -> HeadCandidate | None:
        first = self.candidates[0]
        return first if first.objective == "original layer" else None

    def __str__(self) -> str:
        ridge = "" if self.chosen.ridge is None else f", ridge {self.chosen.ridge:g}"
        before = "" if self.original is None else f" (original layer {self.original.value:.4f})"
        return f"{self.metric}: {self.chosen.value:.4f} on validation data{before} by {self.chosen.objective}{ridge}"


@dataclass(frozen=True)
class HeadFit:
    """A fitted head.

    Attributes:
        layer: A plain ``nn.Linear`` on raw features.
        record: How it was chosen.

    Example:
        >>> import torch, aimfor
        >>> x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
        >>> fit = aimfor.HeadFitter("auroc", ridges=[0.1]).fit(x, (x[:, 0] > 0).long())
        >>> tuple(fit(x).shape), fit.layer
        ((80, 1), Linear(in_features=2, out_features=1, bias=True))
    """

    layer: nn.Linear
    record: HeadRecord

    def __call__(self, features: Tensor) -> Tensor:
        return self.layer(features)  # type: ignore[no-any-return]

    def install(self, model: nn.Module, layer: str) -> None:
        """Puts a copy of the layer in the place of the one of that name (see ``model.named_modules()``)."""
        target = dict(model.named_modules()).get(layer)
        if not isinstance(target, nn.Linear) or target.weight.shape != self.layer.weight.shape:
            wanted = f"the name of an nn.Linear of shape {tuple(self.layer.weight.shape)}"
            raise InputError("layer", repr(layer), wanted, "See model.named_modules().")
        parent, _, name = layer.rpartition(".")
        # A copy: training the network further must not change the fit.
        new = copy.deepcopy(self.layer).to(device=target.weight.device, dtype=target.weight.dtype)
        setattr(model.get_submodule(parent), name, new)


class HeadFitter:
    """Refits a network's last layer, on all data at once, for the metric you are judged by.

    With the features fixed, the scores are linear in the layer, so every convex loss of the scores has one optimum:

        min over (W, b) of  loss(X Wᵀ + b) + (ridge / 2) ‖W − W₀‖²,

    features standardised, ``W₀`` the original layer (rescaled to suit the loss) or zero. The losses are exact sums
    over the whole data set (all pairs in O(n log n)), the solver is full-batch L-BFGS with the features' covariance
    as preconditioner. Objective and ridge are chosen by the exact metric on validation data, **with the original
    layer among the candidates**: on that data the head cannot lose. For metrics that decide at a threshold
    (F_β, IoU) the bias is tuned there too, for every candidate alike.

    Convex: all pairs and top pairs (squared hinge), cross-entropy, class-balanced cross-entropy, listwise softmax.
    Not convex: the metric's own loss where it is no pair loss (F_β, average precision, recall at precision, NDCG);
    it starts at the best convex candidate.

    Args:
        metric: A `Metric` or its name.
        ridges: Above 0; tried from the largest down, each started at the one before.
        iterations: L-BFGS steps per fit, at most.
        tolerance: On the largest entry of the preconditioned gradient; None takes 1e-5 in float64
            (small data sets are solved in it whatever their dtype) and 1e-4 in float32.
        objectives: Names of the objectives to try (see `objectives_for`); None tries all that suit the metric.

    Example:
        >>> import torch, aimfor
        >>> x = torch.randn(400, 5)
        >>> y = (x[:, 0] + torch.randn(400) > 1.5).long()
        >>> fit = aimfor.HeadFitter("auroc").fit(x[:300], y[:300], validation=(x[300:], y[300:]))
        >>> fit.layer
        Linear(in_features=5, out_features=1, bias=True)
        >>> fit.record.chosen.objective in ("all pairs", "cross-entropy", "balanced cross-entropy")
        True
    """

    def __init__(
        self,
        metric: Metric | str,
        *,
        ridges: Sequence[float] = (1.0, 0.1, 1e-2, 1e-3, 1e-4),
        iterations: int = 100,
        tolerance: float | None = None,
        objectives: Sequence[str] | None = None,
    ) -> None:
        self.metric = metric_from_name(metric) if isinstance(metric, str) else metric
        if not isinstance(self.metric, Metric):
            raise InputError("metric", f"a {type(metric).__name__}", "a Metric or a metric's name")
        if not ridges:
            raise InputError("ridges", "none", "at least one number > 0")
        self.ridges = sorted((checks.number("ridges", ridge, above=0) for ridge in ridges), reverse=True)
        self.iterations = checks.integer("iterations", iterations, at_least=1)
        self.tolerance = None if tolerance is None else checks.number("tolerance", tolerance, at_least=0)
        self.objectives = objectives

    def fit(
        self,
        features: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
        *,
        validation: tuple[Tensor, ...] | float = 0.2,
        original: nn.Linear | None = None,
        where: Tensor | None = None,
        seed: int = 0,
    ) -> HeadFit:
        """Fits the layer and chooses objective and ridge.

        Args:
            features: ``(n, d)``; ``(b, l, d)`` for ranked lists. float32 or float64.
            targets: ``(n,)``; ``(b, l)`` for ranked lists.
            weights: As the metric takes them.
            validation: ``(features, targets)`` or ``(features, targets, weights)`` (the third part is ``where`` for
                ranked lists), or the fraction of the rows to hold out, drawn by class.
            original: The layer in use now: a candidate, and what the ridge pulls to.
            where: For ranked lists: True where an item counts.
            seed: Of the draw, when a fraction is held out.

        Raises:
            InputError: Bad shapes or values; a class missing from either part.
        """
        began = time.perf_counter()
        if not isinstance(validation, tuple):
            fraction = checks.number("validation", validation, above=0, below=1)
            whole = make_rows(self.metric, "features", features, targets, weights, where, original)
            kept, held = held_out(targets, whole.kind, fraction, seed)
            extra = where if whole.kind == "lists" else weights
            parts = (features, targets) if extra is None else (features, targets, extra)
            validation = tuple(tensor[held] for tensor in parts)
            features, targets = features[kept], targets[kept]
            weights, where = (None if tensor is None else tensor[kept] for tensor in (weights, where))
        candidates, layers = self.candidates(features, targets, weights, validation, original=original, where=where)
        best = max(range(len(candidates)), key=lambda i: (candidates[i].value, -i))
        count = int(where.sum()) if where is not None else features.shape[:-1].numel()
        record = HeadRecord(repr(self.metric), candidates[best], tuple(candidates), count, time.perf_counter() - began)
        return HeadFit(layers[best], record)

    def candidates(
        self,
        features: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        validation: tuple[Tensor, ...],
        *,
        original: nn.Linear | None = None,
        where: Tensor | None = None,
    ) -> tuple[list[HeadCandidate], list[nn.Linear]]:
        """Every layer `fit` chooses from, with its value on validation data, always in the same order."""
        if not 2 <= len(validation) <= 3:
            raise InputError("validation", f"{len(validation)} parts", "(features, targets[, weights or where])")
        train = make_rows(self.metric, "features", features, targets, weights, where, original)
        third = validation[2] if len(validation) > 2 else None
        weighed, mask = (None, third) if train.kind == "lists" else (third, None)
        validation_rows = make_rows(
            self.metric, "validation", validation[0], validation[1], weighed, mask, original, train.outputs
        )
        blank = train.rows.new_ones(len(train.rows))
        space = make_space(train.rows, blank if train.kind == "lists" else class_weights(train.batch, balanced=True))
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 1e-5 if space.z.dtype == torch.float64 else 1e-4
        candidates: list[HeadCandidate] = []
        layers: list[nn.Linear] = []

        def add(layer: nn.Linear, name: str, ridge: float | None = None, **facts: Any) -> None:
            candidates.append(HeadCandidate(name, ridge, self._value(layer, validation_rows), **facts))
            layers.append(layer)

        if original is not None:
            add(_copy(original, train.rows), "original layer")
        for objective in self._chosen_objectives(train):
            start, centre = self._start(objective, space, train, original, layers, candidates)
            for ridge in self.ridges:
                solution = minimise(objective, space, train.shape, start, centre, ridge, self.iterations, tolerance)
                facts = {"gradient": solution.gradient, "evaluations": solution.evaluations}
                layer = space.to_layer(solution.weight, solution.bias)
                add(layer, objective.name, ridge, convex=objective.convex, **facts)
                start = (solution.weight, solution.bias)
        return candidates, layers

    def from_model(
        self,
        model: nn.Module,
        loader: Iterable[Any],
        *,
        validation: Iterable[Any] | float = 0.2,
        layer: str | None = None,
        install: bool = False,
    ) -> HeadFit:
        """Collects the inputs of the model's last linear layer and refits that layer.

        Args:
            model: Run in eval mode without gradients; its mode is restored.
            loader: Batches ``(inputs, targets)`` or ``(inputs, targets, weights)`` (lists: ``where``).
            validation: A second loader, which the network should not have been trained on; or a fraction to hold out.
            layer: The layer's name; None finds the last one to run.
            install: Put the new layer into the model.
        """
        if layer is None:
            first = next(iter(loader), None)
            if first is None:
                raise InputError("loader", "no batch", "at least one batch of (inputs, targets)")
            layer = last_linear(model, batch_part(first, 0).to(next(model.parameters()).device))
        features, targets, third = collect(model, loader, layer)
        held = validation
        if not isinstance(held, int | float):
            held = tuple(tensor for tensor in collect(model, held, layer) if tensor is not None)
        weights, where = (None, third) if self.metric.layout == "lists" else (third, None)
        original = model.get_submodule(layer)
        assert isinstance(original, nn.Linear)
        fit = self.fit(features, targets, weights, validation=held, original=original, where=where)
        if install:
            fit.install(model, layer)
        return fit

    def _chosen_objectives(self, train: FeatureRows) -> list[HeadObjective]:
        objectives = objectives_for(self.metric, train)
        names = [objective.name for objective in objectives]
        chosen = names if self.objectives is None else [checks.one_of("objectives", n, names) for n in self.objectives]
        return [objective for objective in objectives if objective.name in chosen]

    def _start(
        self,
        objective: HeadObjective,
        space: Space,
        train: FeatureRows,
        original: nn.Linear | None,
        layers: list[nn.Linear],
        candidates: list[HeadCandidate],
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Where to begin, and where the ridge pulls to."""
        zero = torch.zeros(train.outputs, space.z.shape[1], dtype=torch.float64, device=space.z.device)
        if not objective.convex and layers:
            best = max(range(len(layers)), key=lambda i: candidates[i].value)
            weight, bias = space.from_layer(layers[best])
            return (weight, bias), weight
        if original is None:
            return (zero, zero.new_zeros(train.outputs)), zero
        weight, bias = space.from_layer(original)
        factor = _best_factor(objective, space, train, weight, bias)
        return (factor * weight, factor * bias), factor * weight

    def _value(self, layer: nn.Linear, validation_rows: FeatureRows) -> float:
        """The metric on validation data; the bias of a metric that decides at a threshold is tuned there first."""
        with torch.no_grad():
            batch = validation_rows.as_seen(validation_rows.shape(layer(validation_rows.rows)))
            if isinstance(self.metric, CountMetric) and validation_rows.kind == "binary":
                layer.bias.add_(best_shift(self.metric, batch))
                batch = validation_rows.as_seen(validation_rows.shape(layer(validation_rows.rows)))
            value = float(self.metric.exact(batch))
        if value != value:
            raise InputError("validation", "data on which the metric is undefined", "data with every class in it")
        return value


def _best_factor(objective: HeadObjective, space: Space, train: FeatureRows, weight: Tensor, bias: Tensor) -> float:
    """The scale of the original layer that suits the loss best: a network's scores have no fixed unit."""
    with torch.no_grad():
        scores = train.shape(space.z @ weight.to(space.z.dtype).T + bias.to(space.z.dtype))
        factors = (2.0**power for power in range(-8, 9))
        return min(factors, key=lambda factor: float(objective.loss(factor * scores)))


def _copy(layer: nn.Linear, rows: Tensor) -> nn.Linear:
    copy = nn.Linear(layer.in_features, layer.out_features, device=rows.device, dtype=rows.dtype)
    with torch.no_grad():
        copy.weight.copy_(layer.weight)
        copy.bias.zero_() if layer.bias is None else copy.bias.copy_(layer.bias)
    return copy
