"""IoU: intersection over union of masks, over a data set or image by image, of one class or averaged over classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..direct import ArgmaxForm, CountForm, class_rows, mean_shares, rows_of
from ..engine import Batch
from ..errors import InputError
from ..smooth import ClassDecisions, Decisions, Ratio, SmoothForm
from .confusion import CountMetric, binary_counts, class_counts, something_to_find
from .programs import Coefficients, RatioOfCounts


@dataclass(frozen=True)
class IoU(RatioOfCounts, CountMetric):
    """Intersection over union (Jaccard): ``tp / (tp + fp + fn)``, of one mask, of a class, or averaged over classes.

    Which of the many IoUs it is stands in the two options. An image or class with an empty union (nothing there,
    nothing decided) is undefined and left out of means; the value is NaN if nothing is left.

    Args:
        average: ``"dataset"``: counts are summed over all pixels first. ``"image"``: one IoU per image (the first
            dimension), then the mean over images, so that large objects do not drown small ones.
        classes: ``"binary"``: one score per pixel, decided at ``score > threshold``. ``"mean"``: scores
            ``(b, c, h, w)``, targets ``(b, h, w)`` class ids, the highest score decides, mean over the classes.
            A whole number: as "mean", but the IoU of that class alone.
        threshold: Scores above it are decided positive (``classes="binary"`` only).

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[[1.0, 2.0], [-1.0, -1.0]], [[3.0, -1.0], [-1.0, -1.0]]])
        >>> masks = torch.tensor([[[1, 0], [1, 1]], [[1, 0], [0, 0]]])
        >>> float(aimfor.IoU().value(scores, masks)), float(aimfor.IoU(average="image").value(scores, masks))
        (0.4, 0.625)
    """

    average: str = "dataset"
    classes: str | int = "binary"
    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("average", self.average, ("dataset", "image"))
        if isinstance(self.classes, str):
            checks.one_of("classes", self.classes, ("binary", "mean"))
        else:
            checks.integer("classes", self.classes, at_least=0)

    @property
    def layout(self) -> str:  # type: ignore[override]
        if self.average == "image":
            return "masks"
        return "binary" if self.classes == "binary" else "multiclass"

    @property
    def order_only(self) -> bool:  # type: ignore[override]
        return self.classes != "binary"

    @property
    def remembers(self) -> str:  # type: ignore[override]
        return "counts" if self.average == "dataset" else "nothing"

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        by_class = self.classes != "binary"
        if self.layout == "masks":
            batch = checks.masks(scores, targets, by_class=by_class, **rest)
        else:
            batch = super().check(scores, targets, **rest)
        if isinstance(self.classes, int) and self.classes >= batch.scores.shape[-1]:
            raise InputError("classes", repr(self.classes), f"a column of scores, 0 to {batch.scores.shape[-1] - 1}")
        return batch

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 0.0)

    def no_program(self) -> str | None:
        one_mask = self.average == "dataset" and self.classes == "binary"
        return None if one_mask else 'its program needs average="dataset" and classes="binary"'

    def exact(self, batch: Batch) -> Tensor:
        return self._mean(self._table(batch))

    def _mean(self, table: Tensor) -> Tensor:
        if isinstance(self.classes, int):
            table = table[:, self.classes, None]
        # The inner mean over classes leaves NaN for images without any defined class; the outer one skips those.
        return table.nanmean(1).nanmean()

    def table(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> Tensor:
        """Every IoU behind the mean: ``(images, classes)``, NaN where undefined.

        One row with ``average="dataset"``, one column with ``classes="binary"``.
        """
        with torch.no_grad():
            return self._table(self.check(scores, targets, weights=weights, where=where))

    def _table(self, batch: Batch) -> Tensor:
        counts = binary_counts(batch, self.threshold) if self.classes == "binary" else class_counts(batch)
        return self._as_table(self.of_counts(*counts))

    def _as_table(self, values: Tensor) -> Tensor:
        """``(images, classes)`` from values of images, of classes, or of both."""
        return values.reshape(-1, 1) if self.classes == "binary" else values.reshape(-1, values.shape[-1])

    def smooth_form(self, batch: Batch) -> SmoothForm:
        if self.layout == "binary":
            return super().smooth_form(batch)
        weights = batch.effective_weights()

        def measure(*counts: Tensor) -> Tensor:
            return self._mean(self._as_table(something_to_find(self.of_counts(*counts), counts)))

        if self.classes == "binary":
            rows = batch.scores - self.threshold
            return Decisions(batch.scores, rows, batch.targets, weights, measure)
        images = batch.scores if batch.scores.ndim == 3 else batch.scores[None]
        mass = None if weights is None else weights.reshape(images.shape[:2])
        plain = Ratio(*self.lines()) if self.classes == "mean" and len(images) == 1 else None
        return ClassDecisions(batch.scores, images, batch.targets.reshape(images.shape[:2]), mass, measure, plain)

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        table = self._table(batch)
        defined = ~table.isnan()
        if isinstance(self.classes, int):
            defined = defined & (torch.arange(defined.shape[1], device=defined.device) == self.classes)
        binary = self.classes == "binary"
        rows = rows_of(batch, threshold=self.threshold) if binary else class_rows(batch)
        return CountForm(rows, mean_shares(defined).reshape(-1), 1.0 - self._mean(table), self._rule())
