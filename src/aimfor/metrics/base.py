"""What a metric is: an exact value, the layout of its input, and (by mixins) the forms it can take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine
from ..errors import InputError, UnsupportedPairError
from ..watch import ProbabilityWatch
from .curve import BestThreshold

_GATES = {"binary": checks.binary, "multiclass": checks.multiclass, "lists": checks.lists}


class Metric(ABC):
    """WHAT to optimise. `value` is the exact metric, the single place that decides ties and undefined cases.

    Subclasses are frozen dataclasses, so that a metric prints as it was written and compares by its settings.
    Capabilities stand in the class line, e.g. ``class AUROC(Metric, HasPairs)``.
    """

    #: Which input gate reads the arguments: "binary", "multiclass", "lists" or "masks".
    layout: ClassVar[str]
    #: The smallest value it can have; the largest is 1.
    lowest: ClassVar[float] = 0.0
    #: True when the value depends on the order of the scores alone (any increasing map leaves it unchanged).
    order_only: ClassVar[bool] = False

    @abstractmethod
    def exact(self, batch: Batch) -> Tensor:
        """The metric of a checked batch: a float64 scalar, NaN where undefined."""

    def value(
        self,
        scores: Tensor,
        targets: Tensor,
        *,
        weights: Tensor | None = None,
        where: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        """The exact metric as a float64 scalar tensor; NaN where it is undefined (one class only, all masked, …).

        ``groups`` is for ranked lists of different lengths: ``(n,)`` scores; rows with the same number are one list.
        """
        with torch.no_grad():
            batch = self.check(scores, targets, weights=weights, where=where, groups=groups)
            ProbabilityWatch(batches=1).observe(scores, batch.scores, self.decided_at(batch))
            return self.exact(batch)

    def best_threshold(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> BestThreshold:
        """The threshold that is best for this metric on these scores, of all there are, and the value there.

        For metrics of decisions: one threshold, or one for each class (macro F1) or label. Choose it on validation
        data: what is best there is less good elsewhere. For a threshold with a guarantee see `aimfor.decide`.

        Raises:
            InputError: For a metric that decides nothing at a threshold.

        Example:
            >>> import torch, aimfor
            >>> scores, targets = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 1, 0, 1])
            >>> threshold, value = aimfor.FBeta(1.0).best_threshold(scores, targets)
            >>> float(threshold), round(float(value), 4)
            (0.5, 0.8571)
        """
        raise InputError(
            "metric",
            repr(self),
            "a metric of decisions at a threshold",
            "Say what to decide for, e.g. aimfor.FBeta(1.0).best_threshold(scores, targets).",
        )

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        """The input gate for this metric's layout. Raises `InputError`."""
        return _GATES[self.layout](scores, targets, **rest)

    def decided_at(self, batch: Batch) -> float | None:
        """The threshold above which a score of this batch is decided positive; None if the metric decides otherwise."""
        return None

    def default_engine(self) -> Engine:
        """The engine that does best for this metric; see the evidence page for why."""
        raise UnsupportedPairError(f"{self!r} has no default engine.")

    def engine_for_logits(self) -> Engine:
        """The engine for scores that are on cross-entropy's scale already, as a trained model's are."""
        return self.default_engine().for_logits()
