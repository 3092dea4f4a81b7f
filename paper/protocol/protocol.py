"""The fair protocol, in code: everyone gets the same model, optimizer, grid, steps, batches and looks at validation.

A rival and our own recipe differ in the loss and in how batches are drawn, and in nothing else. Choices (learning
rate, when to stop, threshold) are made on validation data by the exact metric; test data is read once (`choosing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aimfor import AveragePrecision, Metric
from aimfor.learners.networks import losses
from aimfor.metrics import AUROCOneVsRest

#: From scores (n,) or (n, c), targets and the training set's class shares to a scalar.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
State = dict[str, Tensor]


def of_batches(loss: nn.Module) -> Loss:
    """A loss of scores and targets alone, as the protocol calls losses."""

    def apply(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        value: Tensor = loss(scores, targets)
        return value

    return apply


@dataclass(frozen=True)
class Split:
    """Inputs and targets of one part of a data set.

    Targets are 0/1 or class ids ``(n,)``, or grades of ranked lists ``(n, l)`` with −1 where a list is padded.
    """

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    @property
    def where(self) -> Tensor | None:
        return self.y >= 0 if self.y.ndim == 2 else None

    def targets_for(self, metric: Metric) -> Tensor:
        """Targets as the metric takes them: average precision of graded lists counts any grade above 0."""
        return self.y.clamp(0, 1) if isinstance(metric, AveragePrecision) else self.y.clamp_min(0)


def scores_for(metric: Metric, scores: Tensor) -> Tensor:
    """Scores as the metric takes them: one class against the rest compares a column over rows, and no loss of the
    protocol but its own says where a row of scores lies, so it gets log-probabilities; others are not affected."""
    return scores.log_softmax(1) if isinstance(metric, AUROCOneVsRest) else scores


@dataclass(frozen=True)
class Contest:
    """A data set in three parts, and the model that every method trains."""

    train: Split
    validation: Split
    test: Split
    make_model: Callable[[], nn.Module]
    classes: int = 2

    @property
    def ranked(self) -> bool:
        """Whether its examples are ranked lists."""
        return self.train.where is not None

    def class_shares(self) -> Tensor:
        known = self.train.y[self.train.y >= 0]
        return torch.bincount(known, minlength=self.classes).float() / len(known)


@dataclass(frozen=True)
class Budget:
    """What every method may spend.

    Attributes:
        steps: Of training from scratch.
        extra: Steps of a further phase from the chosen checkpoint. Ours runs twice, once to be judged
            on validation data and once for good; the rivals' own loss goes on for twice as many, and once as ours does.
        batch: Examples per step from scratch.
        large: Examples per fine-tuning step.
        rates: Learning rates, tried by every method.
        looks: How often validation data is scored along the way; each look is a checkpoint to choose from.
    """

    steps: int
    extra: int
    batch: int = 128
    large: int = 1024
    rates: tuple[float, ...] = (1e-3, 1e-2)
    looks: int = 4
    decay: float = 1e-4


@dataclass(frozen=True)
class Checkpoint:
    """A trained model at one moment, with its scores on validation data."""

    name: str
    state: State
    validation: Tensor
    rate: float


@dataclass(frozen=True)
class Contender:
    """A way to train: a loss, and whether batches hold each class alike.

    ``trainer`` is for losses that come with an optimizer of their own: from task, budget and seed to checkpoints.
    Further training from these is then by ``loss``.
    """

    name: str
    loss: Loss
    balanced: bool = False
    trainer: Callable[[Contest, Budget, int], list[Checkpoint]] | None = None


# ---------------------------------------------------------------- the rivals


def cross_entropy(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    return losses.cross_entropy(scores, targets)


def weighted_cross_entropy(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """Each class weighs the same in the whole data set, whatever its share."""
    return losses.cross_entropy(scores, targets, 1.0 / (shares.clamp_min(1e-12) * len(shares)))


def focal(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """``(1 − p)²`` times cross-entropy, p the probability of the true class (Lin 2017)."""
    each = losses.cross_entropy(scores, targets, reduction="none")
    return ((1.0 - torch.exp(-each)).square() * each).mean()


RIVALS: tuple[Contender, ...] = (
    Contender("cross-entropy", cross_entropy),
    Contender("weighted", weighted_cross_entropy),
    Contender("balanced batches", cross_entropy, balanced=True),
    Contender("focal", focal),
)
