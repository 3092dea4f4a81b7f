"""The fair protocol, in code: everyone gets the same model, optimizer, grid, steps, batches and looks at validation.

A rival and our own recipe differ in the loss and in how batches are drawn, and in nothing else. Choices (learning
rate, when to stop, threshold) are made on validation data by the exact metric; test data is read once, by `Chosen`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

#: From scores (n,) or (n, c), targets and the training set's class shares to a scalar.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
State = dict[str, Tensor]


@dataclass(frozen=True)
class Part:
    """Inputs and targets of one part of a data set; targets are 0/1 or class ids, int64."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Task:
    """A data set in three parts, and the model that every method trains."""

    train: Part
    validation: Part
    test: Part
    make_model: Callable[[], nn.Module]
    classes: int = 2

    def class_shares(self) -> Tensor:
        return torch.bincount(self.train.y, minlength=self.classes).float() / len(self.train)


@dataclass(frozen=True)
class Budget:
    """What every method may spend.

    Attributes:
        steps: Of training from scratch.
        extra: Further steps at a tenth of the rate, from the chosen checkpoint: our metric fine-tuning, and the
            rivals' own loss again.
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
class Method:
    """A way to train: a loss, and whether batches hold each class alike."""

    name: str
    loss: Loss
    balanced: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A trained model at one moment, with its scores on validation data."""

    name: str
    state: State
    validation: Tensor
    rate: float


# ---------------------------------------------------------------- the rivals


def cross_entropy(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    if scores.ndim == 1:
        return functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype))
    return functional.cross_entropy(scores, targets)


def weighted_cross_entropy(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """Each class weighs the same in the whole data set, whatever its share."""
    weights = 1.0 / (shares.clamp_min(1e-12) * len(shares))
    if scores.ndim == 1:
        return functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), weights[targets])
    return functional.cross_entropy(scores, targets, weights)


def focal(scores: Tensor, targets: Tensor, shares: Tensor, gamma: float = 2.0) -> Tensor:
    """``(1 − p)^γ`` times cross-entropy, p the probability of the true class (Lin 2017)."""
    if scores.ndim == 1:
        loss = functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), reduction="none")
    else:
        loss = functional.cross_entropy(scores, targets, reduction="none")
    return ((1.0 - torch.exp(-loss)).pow(gamma) * loss).mean()


RIVALS: tuple[Method, ...] = (
    Method("cross-entropy", cross_entropy),
    Method("weighted", weighted_cross_entropy),
    Method("balanced batches", cross_entropy, balanced=True),
    Method("focal", focal),
)
