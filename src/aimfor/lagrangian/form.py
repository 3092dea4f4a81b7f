"""ConstraintForm: a metric as a program whose constraints get one multiplier per example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..engine import Batch


@dataclass(frozen=True)
class ConstraintProblem:
    """One F_β bound: group ``pair[0]`` should score above 0, group ``pair[1]`` below.

    Attributes:
        scores: ``(m,)``, attached to the graph.
        positive: ``(m,)`` bool.
        index: ``(m,)`` positions in the data set, or None.
        pair: Which two groups of the data set's labels; (1, 0) when there are two.

    Example:
        >>> import torch
        >>> problem = ConstraintProblem(torch.tensor([0.5, -1.0]), torch.tensor([True, False]), torch.tensor([7, 3]))
        >>> problem.pair, problem.index.tolist()
        ((1, 0), [7, 3])
    """

    scores: Tensor
    positive: Tensor
    index: Tensor | None
    pair: tuple[int, int] = (1, 0)


@dataclass(frozen=True)
class ConstraintForm:
    """Mean of `ConstraintProblem` terms with one β.

    Attributes:
        scores: The tensor the user passed, for degenerate batches.
        groups: ``(n,)`` group of each row, whole numbers: what the engine compares with its labels.
        index: ``(n,)`` positions in the data set, or None.
        problems: One for two groups, p(p − 1) for p groups.
        beta: > 0.

    Example:
        >>> import torch, aimfor
        >>> scores, positive = torch.tensor([0.5, -1.0]), torch.tensor([True, False])
        >>> form = aimfor.FBeta(2.0).constraint_form(aimfor.FBeta(2.0).check(scores, positive.long()))
        >>> len(form.problems), form.beta
        (1, 2.0)
    """

    scores: Tensor
    groups: Tensor
    index: Tensor | None
    problems: tuple[ConstraintProblem, ...]
    beta: float


class HasConstraints(ABC):
    """Capability: the metric is an F_β, or a mean of them, of groups known for the whole data set.

    Example:
        >>> import aimfor
        >>> issubclass(aimfor.FBeta, HasConstraints), aimfor.FBeta.group_count
        (True, 2)
    """

    #: How many groups the metric takes: 2, or None for three and more.
    group_count: ClassVar[int | None]

    @abstractmethod
    def constraint_form(self, batch: Batch) -> ConstraintForm:
        """The batch as F_β problems between groups; masked rows removed."""


def kept_rows(batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scores, targets and index without the masked rows.

    Example:
        >>> import torch, aimfor
        >>> scores, targets, where = torch.tensor([0.5, 3.0]), torch.tensor([1, 0]), torch.tensor([True, False])
        >>> batch = aimfor.FBeta(1.0).check(scores, targets, where=where)
        >>> kept_rows(batch)[0].tolist()
        [0.5]
    """
    if batch.where is None:
        return batch.scores, batch.targets, batch.index
    rows = batch.where.nonzero().squeeze(1)
    return batch.scores[rows], batch.targets[rows], None if batch.index is None else batch.index[rows]


def two_group_form(batch: Batch, threshold: float, beta: float) -> ConstraintForm:
    """F_β of a binary batch decided at ``score > threshold``.

    Example:
        >>> import torch, aimfor
        >>> batch = aimfor.FBeta(1.0).check(torch.tensor([0.5, 3.0]), torch.tensor([1, 0]))
        >>> two_group_form(batch, threshold=1.0, beta=1.0).problems[0].scores.tolist()
        [-0.5, 2.0]
    """
    scores, positive, index = kept_rows(batch)
    shifted = scores - threshold if threshold else scores
    return ConstraintForm(
        batch.scores, positive, index, (ConstraintProblem(shifted, positive, index),) if positive.numel() else (), beta
    )
