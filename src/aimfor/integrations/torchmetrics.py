"""torchmetrics: the exact metrics as `Metric` objects, with state, synchronisation and plots.

torchmetrics' own AUROC and average precision squash a batch of raw scores by a sigmoid as soon as one of them lies
outside [0, 1]; here scores stay what they are, and the value is that of all batches and processes together.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric as TorchMetric

from .. import conventions
from ..engine import Batch
from ..errors import InputError
from ..metrics import ClassFBeta, CountMetric, Metric, metric_from_name

__all__ = ["ExactMetric"]

#: What a state holds, by its number: nothing yet, targets of these dtypes, or (the last) one value for each list.
KINDS = (None, torch.bool, torch.int64, torch.float64, torch.float64)
VALUES = 4


class ExactMetric(TorchMetric):
    """An exact metric over all batches since `reset`, and over all processes.

    What is kept depends on the metric. Metrics of decisions (F_β, IoU over a data set, accuracy, …) keep a table of
    true and decided classes, whatever the number of rows. Metrics of ranked lists ``(b, l)`` and means over images
    keep one value for each list or image, which must be complete in its batch. All others keep every score: the exact
    value needs them.

    Args:
        metric: A `Metric`, or its name.
        ignore_index: A label that does not count, such as 255 in masks.
        **options: As for ``torchmetrics.Metric`` (``dist_sync_on_step``, ``compute_on_cpu``, …).

    Raises:
        InputError: On `update`, as for `Metric.value`, before the state changes; also for one list after many lists.

    Example:
        >>> import torch
        >>> from aimfor.integrations.torchmetrics import ExactMetric
        >>> auroc = ExactMetric("auroc")
        >>> auroc.update(torch.tensor([3.0, -2.0]), torch.tensor([1, 0]))
        >>> auroc.update(torch.tensor([0.4, 0.9]), torch.tensor([1, 0]))
        >>> float(auroc.compute())
        0.75
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    scores: list[Tensor]
    targets: list[Tensor]
    masses: list[Tensor]
    columns: Tensor
    kind: Tensor

    def __init__(self, metric: Metric | str, *, ignore_index: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.metric = metric_from_name(metric) if isinstance(metric, str) else metric
        if not isinstance(self.metric, Metric):
            raise InputError("metric", f"a {type(metric).__name__}", "a Metric or a metric's name")
        self.ignore_index = conventions.ignored_label(ignore_index)
        by_rows = self.metric.layout in conventions.ROWS
        self._counts = isinstance(self.metric, (CountMetric, ClassFBeta)) and not by_rows
        # All in one dimension and one dtype, which is what torchmetrics sends for a process that has seen nothing.
        for name in ("scores", "targets", "masses"):
            self.add_state(name, default=[], dist_reduce_fx="cat")
        self.set_dtype(torch.float64)
        for name in ("columns", "kind"):
            self.add_state(name, default=torch.tensor(0), dist_reduce_fx="max")
        # A MetricCollection lets metrics whose states are equal share them; equal by chance must not be enough.
        key = zlib.crc32(repr((self.ignore_index, self.metric if by_rows else None)).encode())
        self.add_state("key", default=torch.tensor(key), dist_reduce_fx="max")

    def update(self, scores: Tensor, targets: Tensor, **rest: Any) -> None:
        """One more batch; ``weights``, ``where`` and ``groups`` as for `Metric.value`."""
        if self.ignore_index is not None:
            rest["where"] = conventions.counted(targets, rest.get("where"), self.ignore_index)
        with torch.no_grad():
            batch = self.metric.check(scores, targets, **rest)
            rows = self.metric.layout in conventions.ROWS and not batch.one_list
            kind = (
                VALUES if rows else KINDS.index(batch.targets.dtype if batch.targets.dtype in KINDS else torch.float64)
            )
            if int(self.kind) not in (0, kind):
                raise InputError(
                    "scores", "one list in some batches and many in others", "one kind of batch until reset()"
                )
            self._keep(kind, *(self._values(batch) if rows else self._examples(batch)))

    def compute(self) -> Tensor:
        """The metric as a float64 scalar; NaN where it is undefined, also before the first batch."""
        if not int(self.kind):
            return torch.tensor(torch.nan, dtype=torch.float64, device=self.device)
        scores, targets, masses = self._kept()
        if int(self.kind) == VALUES:
            return (scores * masses).sum() / masses.sum()
        if self.metric.layout == "lists":
            scores, targets, masses = scores[None], targets[None], masses[None]
        return self.metric.exact(Batch(scores, targets, masses))

    def reset(self) -> None:
        """To the state before the first batch, in new lists: `Running` holds those of its window."""
        self.scores, self.targets, self.masses = [], [], []
        super().reset()

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """One value or several over time, as every torchmetrics metric draws them."""
        return self._plot(val, ax)

    def _examples(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, targets and masses of the entries that count."""
        scores, targets, weights = batch.scores, batch.targets, batch.effective_weights()
        masses = torch.ones_like(targets, dtype=torch.float64) if weights is None else weights.double()
        masses = masses.expand_as(targets)
        if batch.one_list:
            return scores[0], targets[0], masses[0]
        if batch.where is None or self.metric.layout == "multilabel":
            return scores, targets, masses
        return scores[batch.where], targets[batch.where], masses[batch.where]

    def _values(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(value, 0, weight) of each list or image on which the metric is defined."""
        exact = [self.metric.exact(row) for row in conventions.rows(batch)]
        values = torch.stack(exact).double() if exact else batch.scores.new_zeros(0, dtype=torch.float64)
        by_row = batch.weights is not None and batch.weights.shape != batch.targets.shape
        masses = batch.weights[:, 0].double() if by_row and batch.weights is not None else torch.ones_like(values)
        defined = ~values.isnan()
        return values[defined], torch.zeros_like(values[defined]), masses[defined]

    def _keep(self, kind: int, scores: Tensor, targets: Tensor, masses: Tensor) -> None:
        columns = scores.shape[1] if scores.ndim == 2 else 0
        self.kind, self.columns = torch.full_like(self.kind, kind), torch.full_like(self.columns, columns)
        if self._counts:
            if len(self.scores):
                pairs = zip(self._kept(), self._tallied(scores, targets, masses), strict=True)
                scores, targets, masses = (torch.cat(pair) for pair in pairs)
            scores, targets, masses = self._tallied(scores, targets, masses)
            self.scores, self.targets, self.masses = [], [], []
        for state, values in ((self.scores, scores), (self.targets, targets), (self.masses, masses)):
            state.append(values.double().reshape(-1))

    def _kept(self) -> tuple[Tensor, Tensor, Tensor]:
        """The states in the shapes and dtypes of a batch. After synchronisation each is one tensor."""
        states: tuple[Any, ...] = (self.scores, self.targets, self.masses)
        scores, targets, masses = (state if isinstance(state, Tensor) else torch.cat(state) for state in states)
        targets, columns = targets.to(KINDS[int(self.kind)]), int(self.columns)
        if not columns:
            return scores, targets, masses
        if self.metric.layout == "multilabel":
            targets, masses = targets.reshape(-1, columns), masses.reshape(-1, columns)
        return scores.reshape(-1, columns), targets, masses

    def _tallied(self, scores: Tensor, targets: Tensor, masses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One example for each pair of true and decided class, with the mass of all that it stands for."""
        threshold = self.metric.decided_at(Batch(scores, targets))
        if threshold is not None:  # two classes: a score on either side of the threshold
            decided, classes = (scores > threshold).long(), 2
            sides = torch.tensor([threshold - 1.0, threshold + 1.0], dtype=torch.float64, device=scores.device)
        else:
            decided, classes = scores.argmax(-1), scores.shape[-1]
            sides = torch.eye(classes, dtype=torch.float64, device=scores.device)
        table = masses.new_zeros(classes * classes).index_add_(0, targets.long() * classes + decided, masses)
        pair = torch.arange(classes * classes, device=scores.device)
        return sides[pair % classes], (pair // classes).to(targets.dtype), table
