"""What every engine is: a solver of one kind of form, with a status that is never silent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, overload

import torch
from torch import Tensor, nn

__all__ = ["Batch", "Engine", "EngineOutput", "Status"]


class Status(Enum):
    """How a solve ended, with a sentence for the user and the next move.

    Example:
        >>> import aimfor
        >>> aimfor.Status.fallback.message, aimfor.Status.fallback.remedy
        ('the engine could not certify its own answer and HiGHS solved it', 'the answer is right; it was slower')
    """

    ok = ("solved", "")
    undefined_batch = (
        "the batch leaves the metric undefined (no positive, one class only, or all masked): loss 0, gradient 0",
        "ordinary in mini-batch training; if it happens often use larger or class-balanced batches",
    )
    fallback = ("the engine could not certify its own answer and HiGHS solved it", "the answer is right; it was slower")
    not_converged = (
        "the solver stopped before its residuals passed the tolerance",
        "raise the iteration limit or the tolerance, or rescale the data",
    )
    infeasible = (
        "no point satisfies all constraints",
        "loosen or drop a constraint; the certificate names the culprits",
    )
    unbounded = (
        "the objective has no finite optimum",
        "bound the variables; the ray in the result shows the direction",
    )

    @property
    def message(self) -> str:
        return str(self.value[0])

    @property
    def remedy(self) -> str:
        return str(self.value[1])


@dataclass(frozen=True)
class Batch:
    """Checked and formatted input: what the gate (`checks`) hands to metrics.

    Attributes:
        scores: Real scores, float32 or float64, in the metric's own layout (see `Metric.layout`).
        targets: Same leading shape; bool (binary), int64 (classes) or float (relevance).
        weights: Nonnegative, of scores' dtype, or None for all ones.
        where: True where an entry counts, or None for all.
        index: Position of each example in the data set, int64, or None.
        groups: Group label of each example by attribute name.
        one_list: The entries are one ranked list, ``(1, l)``: batches of several processes are joined along it.
        joined: The batches of all processes stand in it, so that nothing counted from it needs a sum over processes.
        pixels: How many entries are one example: those of a picture, else 1.

    Example:
        >>> import torch
        >>> from aimfor.engine import Batch
        >>> batch = Batch(torch.zeros(2), torch.tensor([True, False]), where=torch.tensor([True, False]))
        >>> batch.effective_weights().tolist()
        [1.0, 0.0]
    """

    scores: Tensor
    targets: Tensor
    weights: Tensor | None = None
    where: Tensor | None = None
    index: Tensor | None = None
    groups: Mapping[str, Tensor] = field(default_factory=dict)
    one_list: bool = False
    joined: bool = False
    pixels: int = 1

    def effective_weights(self) -> Tensor | None:
        """Weights with masked entries at zero; None when every entry counts once."""
        if self.where is None:
            return self.weights
        mask = self.where.to(self.scores.dtype)
        return mask if self.weights is None else mask * self.weights


class Stats(Mapping[str, Any]):
    """Numbers worth logging. One that costs more than the loss is given as a function, and found when it is read.

    Example:
        >>> from aimfor.engine import Stats
        >>> stats = Stats({"temperature": 1.0, "value": lambda: 0.5}) | {"batches": 3}
        >>> stats["value"], len(stats)
        (0.5, 3)
    """

    def __init__(self, numbers: Mapping[str, Any]) -> None:
        self._numbers: dict[str, Any] = dict(numbers._numbers if isinstance(numbers, Stats) else numbers)

    def __getitem__(self, name: str) -> Any:
        number = self._numbers[name]
        if callable(number):
            number = self._numbers[name] = number()
        return number

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __or__(self, more: Mapping[str, Any]) -> Stats:
        """Both, nothing found yet; where they share a name, the second's."""
        return Stats({**self._numbers, **Stats(more)._numbers})

    def __reduce__(self) -> tuple[type[Stats], tuple[dict[str, Any]]]:
        return Stats, (dict(self),)

    def __repr__(self) -> str:
        return repr(dict(self))


class EngineOutput:
    """A loss attached to the graph, how it came about, and numbers worth logging.

    Attributes:
        loss: Scalar tensor; finite, always.
        status: How the solve ended. It may be given as a flag on a device, True where the metric is defined: the host
            waits for it when the status is read, and not before.
        stats: Detached numbers for logs (names and meaning stand in the engine's documentation). Some are found when
            they are read (`Stats`), from the scores as they were; ``dict(output.stats)`` finds all.

    Example:
        >>> import torch, aimfor
        >>> output = aimfor.MetricLoss("auroc").detailed(torch.tensor([1.0, 0.0]), torch.tensor([1, 0]))
        >>> output.status.name, float(output.loss)
        ('ok', 0.0)
    """

    def __init__(
        self, loss: Tensor, status: Status | Tensor = Status.ok, stats: Mapping[str, Any] | None = None
    ) -> None:
        self.loss, self.stats = loss, stats or {}
        #: The flag, while nobody has read it.
        self.unread = None if isinstance(status, Status) else status
        self._status = status if isinstance(status, Status) else Status.ok

    @property
    def status(self) -> Status:
        if self.unread is not None:
            self._status = Status.ok if bool(self.unread) else Status.undefined_batch
            self.unread = None
        return self._status

    def __repr__(self) -> str:
        return f"EngineOutput(loss={self.loss!r}, status={self.status!s}, stats={self.stats!r})"

    def with_stats(self, more: Mapping[str, Any]) -> EngineOutput:
        """The same with more numbers."""
        stats = self.stats
        status = self._status if self.unread is None else self.unread
        return EngineOutput(self.loss, status, stats | more if isinstance(stats, Stats) else {**stats, **more})


class Engine(nn.Module, ABC):
    """Solves any form of its kind and defines the gradient. Engines never import metrics.

    A subclass names the capability a metric must have (an abstract mixin such as `HasPairs`, defined beside
    the form) and says what it costs; `aimfor.support()` is generated from these facts.
    """

    name: ClassVar[str]
    capability: ClassVar[type]
    cost: ClassVar[str]
    #: The loss depends on the batch alone: no bank, no schedule, no duals.
    stateless: ClassVar[bool] = True
    #: Parameters of its own take part in the gradient. All other engines are one operator to the compiler (`compiled`).
    has_duals: ClassVar[bool] = False
    #: False where example weights have no meaning for the engine's solver; it then refuses them by name.
    takes_weights: ClassVar[bool] = True
    #: True where a weight is a number of repetitions, so that a weight of 2.5 has no meaning.
    whole_weights_only: ClassVar[bool] = False
    #: What backward takes as constant although the loss depends on it; see `holds`.
    constants: ClassVar[tuple[str, ...]] = ()
    #: Engines that can be made without arguments take part in the law tests by being registered.
    default_constructible: ClassVar[bool] = True

    def for_one_batch(self) -> Engine | None:
        """This engine for a batch that is the whole data set, where there is nothing to remember; None without one."""
        return self if self.stateless else None

    def for_batch_of(self, rows: int) -> Engine:
        """This engine for a batch of so many examples: itself, unless they are more than it would remember."""
        return self

    def for_logits(self) -> Engine:
        """This engine for scores that are on cross-entropy's scale already, as a trained model's are.

        Itself, unless a low temperature makes it quick from scratch, where scores are small.
        """
        return self

    def holds(self, metric: Any, batch: Batch) -> tuple[str, ...]:
        """What backward takes as constant although the loss on this batch depends on it.

        Where it is empty, backward gives the loss's own gradient. Where it is not, it gives the gradient with these
        held fixed, which need not lower the loss, and a second derivative is refused.
        """
        return self.constants

    @abstractmethod
    def formulate(self, metric: Any, batch: Batch) -> Any:
        """The metric on this batch as this engine's kind of form."""

    @abstractmethod
    def solve(self, form: Any) -> EngineOutput:
        """Value, gradient and status of one form."""

    def forward(self, metric: Any, batch: Batch) -> EngineOutput:
        return self.solve(self.formulate(metric, batch))

    def refuses(self, metric: Any) -> str | None:
        """Why this engine cannot train this metric, or None if it can."""
        if isinstance(metric, self.capability):
            return None
        return f"it needs a metric with the capability {self.capability.__name__}"

    def end_epoch(self) -> None:
        """Called once per epoch by training loops; engines with dual variables take their step here."""


#: A plain number, or a scalar on a device.
Number = float | Tensor


def number(value: Tensor) -> Number:
    """A scalar as a plain number where that costs nothing, on a CPU; elsewhere the host would have to wait for it."""
    return float(value) if value.is_cpu else value


def clamped(value: Number, lowest: float, highest: float) -> Number:
    """Not below the one and not above the other."""
    return value.clamp(lowest, highest) if isinstance(value, Tensor) else min(max(value, lowest), highest)


def attached_zero(scores: Tensor) -> Tensor:
    """Zero with a zero gradient that keeps its place in the graph, so that DDP ranks stay in step."""
    return scores.sum() * 0.0 if scores.numel() else scores.sum()


def undefined(scores: Tensor, stats: Mapping[str, Any] | None = None) -> EngineOutput:
    """The one answer to a degenerate batch."""
    return EngineOutput(attached_zero(scores), Status.undefined_batch, stats or {})


#: The smallest unit of scores that an engine derives from their spread. Gradients are as large as its inverse, and
#: float16 must be able to hold them; scores closer together than this are still being spread out.
SMALLEST_UNIT = 1e-4


@overload
def unit_of(spread: float) -> float: ...


@overload
def unit_of(spread: Tensor) -> Tensor: ...


def unit_of(spread: Number) -> Number:
    """The unit of scores to work in, given their spread: not too small to divide by, and 1 where all are equal."""
    if isinstance(spread, Tensor):
        return torch.where(spread > 0, spread.clamp_min(SMALLEST_UNIT), 1.0)
    return max(spread, SMALLEST_UNIT) if spread > 0 else 1.0


def internal_dtype(scores: Tensor) -> torch.dtype:
    """Accumulate in float64 wherever the device has it (MPS does not)."""
    return torch.float32 if scores.device.type == "mps" else torch.float64
