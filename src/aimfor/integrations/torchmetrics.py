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

    def __init__(self, metric: Metric | str, *, ignore_index: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.metric = metric_from_name(metric) if isinstance(metric, str) else metric
        if not isinstance(self.metric, Metric):
            raise InputError("metric", f"a {type(metric).__name__}", "a Metric or a metric's name")
        self.ignore_index = conventions.ignored_label(ignore_index)
        for name in ("scores", "targets", "masses"):
            self.add_state(name, default=[], dist_reduce_fx="cat")
        # A MetricCollection lets metrics whose states are equal share them; equal by chance must not be enough.
        by_rows = self.metric.layout in conventions.ROWS
        self._counts = isinstance(self.metric, (CountMetric, ClassFBeta)) and not by_rows
        key = zlib.crc32(repr((self.ignore_index, self.metric if by_rows else None)).encode())
        self.add_state("key", default=torch.tensor(key), dist_reduce_fx="max")

    def update(self, scores: Tensor, targets: Tensor, **rest: Any) -> None:
        """One more batch; ``weights``, ``where`` and ``groups`` as for `Metric.value`."""
        if self.ignore_index is not None:
            rest["where"] = conventions.counted(targets, rest.get("where"), self.ignore_index)
        with torch.no_grad():
            batch = self.metric.check(scores, targets, **rest)
            self._keep(self._smaller(batch))

    def compute(self) -> Tensor:
        """The metric as a float64 scalar; NaN where it is undefined, also before the first batch."""
        if not len(self.scores):
            return torch.tensor(torch.nan, dtype=torch.float64, device=self.device)
        scores, targets, masses = (torch.cat(part) for part in self._kept())
        if targets.dtype == torch.float64:  # one value for each list or image
            return (scores * masses).sum() / masses.sum()
        batch = Batch(scores, targets, masses)
        if self.metric.layout == "lists":
            batch = Batch(scores[None], targets[None], masses[None])
        return self.metric.exact(batch)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """One value or several over time, as every torchmetrics metric draws them."""
        return self._plot(val, ax)

    def _smaller(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, targets and masses that are as good as the batch for the final value."""
        if self.metric.layout in conventions.ROWS and not batch.one_list:
            return self._values(batch)
        scores, targets, weights = batch.scores, batch.targets, batch.effective_weights()
        masses = torch.ones_like(targets, dtype=torch.float64) if weights is None else weights.double()
        masses = masses.expand_as(targets)
        if batch.one_list:
            return scores[0], targets[0], masses[0]
        if self._counts:
            return self._tallied(scores, targets, masses)
        if batch.where is None or self.metric.layout == "multilabel":
            return scores, targets, masses
        return scores[batch.where], targets[batch.where], masses[batch.where]

    def _values(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(value, 0, weight) of each list or image on which the metric is defined."""
        values = torch.stack([self.metric.exact(row) for row in conventions.rows(batch)] or [batch.scores.new_zeros(0)])
        values = values.double().reshape(-1)
        by_row = batch.weights is not None and batch.weights.shape != batch.targets.shape
        masses = batch.weights[:, 0].double() if by_row and batch.weights is not None else torch.ones_like(values)
        defined = ~values.isnan()
        return values[defined], torch.zeros_like(values[defined]), masses[defined]

    def _keep(self, parts: tuple[Tensor, Tensor, Tensor]) -> None:
        if len(self.targets) and (self.targets[0].dtype == torch.float64) != (parts[1].dtype == torch.float64):
            raise InputError("scores", "one list in some batches and many in others", "one kind of batch until reset()")
        scores, targets, masses = ([*old, new] for old, new in zip(self._kept(), parts, strict=True))
        if self._counts:
            scores, targets, masses = ([part] for part in self._tallied(*map(torch.cat, (scores, targets, masses))))
        self.scores, self.targets, self.masses = scores, targets, masses

    def _kept(self) -> tuple[list[Tensor], ...]:
        """The states as lists; after synchronisation each is one tensor."""
        states: tuple[Any, ...] = (self.scores, self.targets, self.masses)
        return tuple([part] if isinstance(part, Tensor) else list(part) for part in states)

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
        place = torch.arange(classes * classes, device=scores.device)
        return sides[place % classes], (place // classes).to(targets.dtype), table
