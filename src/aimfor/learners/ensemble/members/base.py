"""What a member of the ensemble is: it learns from the training rows of a fold and scores any rows.

A member learns once and can score rows at several *checkpoints* (trees: after so many rounds; a network: after so many
steps; the linear member: at each strength of its penalty). Which checkpoint is used is decided once for all folds, by
the held-out rows of all folds together. One number chosen on all rows flatters them far less than each fold stopping
where its own held-out rows like it best, and no row has to be set aside inside a fold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from ....targets.objective import Objective
from ...networks.loop import never_stop


@dataclass(frozen=True)
class Rows:
    """Encoded rows: ``x`` (n, d) float32, not clipped; ``y`` (n,) class ids; ``weights`` (n,) or None.

    Rows of ranked lists have ``lists`` (n,), equal for the rows of one list, and grades for class ids. ``clusters``
    (n,) are equal for rows that belong together.
    """

    x: Tensor
    y: Tensor
    weights: Tensor | None = None
    lists: Tensor | None = None
    clusters: Tensor | None = None

    def take(self, rows: Tensor) -> Rows:
        further = (self.weights, self.lists, self.clusters)
        return Rows(self.x[rows], self.y[rows], *(None if values is None else values[rows] for values in further))


@dataclass(frozen=True)
class Job:
    """One cell: a member on one fold.

    Attributes:
        train: What it learns from.
        held: The fold's held-out rows; used only to decide when to stop.
        objective: The metric.
        outputs: 1 for one score per row, else the number of classes.
        seed: Decides everything random.
        stop: Asked often; true ends the work with `Interrupted`.
        start: The fitted member this one starts from, where it names one.
    """

    train: Rows
    held: Rows
    objective: Objective
    outputs: int
    seed: int
    stop: Callable[[], bool] = never_stop
    start: Fitted | None = None


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def over(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with the prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


class Fitted(ABC):
    """A member after learning, at one or several checkpoints. Nothing in its state needs pickle."""

    @property
    @abstractmethod
    def checkpoints(self) -> int:
        """At how many checkpoints it can score."""

    @property
    def ticks(self) -> list[int]:
        """Where the checkpoints stand on the axis of a learning curve; see `Member.unit`."""
        return list(range(1, self.checkpoints + 1))

    @abstractmethod
    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        """Log-odds ``(n,)``, or one score per class ``(n, c)``, float64; higher is more likely."""

    @abstractmethod
    def at(self, checkpoint: int) -> Self:
        """The member at this checkpoint alone, which is what is kept."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON facts; `restore` is the inverse."""

    @classmethod
    @abstractmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self: ...


class Member(ABC):
    """A way to learn. Members hold settings only, and are the same for every fold."""

    name: str
    title: str
    #: The member whose fitted state on the same fold this one starts from.
    starts_from: str | None = None
    #: Checkpoints are compared by the metric itself instead of cross-entropy.
    chosen_by_metric: bool = False
    #: What checkpoints are counted in.
    unit: str = "looks"

    #: What `fit` gives.
    fitted: type[Fitted]

    @abstractmethod
    def fit(self, job: Job) -> Fitted: ...

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Fitted:
        """A fitted member from its state."""
        return self.fitted.restore(tensors, facts)

    def restore_start(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Fitted:
        """The fitted member it starts from, which is of its own sort."""
        return self.restore(tensors, facts)

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        """A sentence when this member cannot learn here, else None."""
        return None
