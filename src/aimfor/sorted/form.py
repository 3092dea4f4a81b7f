"""PairForm: a metric as weighted means over positive-negative pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ..engine import Batch


@dataclass(frozen=True)
class PairProblem:
    """One binary ranking problem: every positive should score above every negative.

    Or g of them side by side, ``(g, m)`` instead of ``(m,)`` and padded by weights of 0: many small problems cost
    one pass of tensor operations instead of g.

    Attributes:
        scores: ``(m,)`` or ``(g, m)``, attached to the graph.
        positive: As scores; bool.
        weights: As scores (bool for ones and zeros), or None; a pair weighs the product of its two weights.
        fresh: As scores, bool, or None; pairs without a fresh member (both from the score bank) do not count.
        top: Fraction of the negatives' weight that counts, taken from the highest scores down (1 = all). One problem
            only.
        scale: Factor on the mean (on each of g), so that the sum of all problems is on the scale of 1 − metric.

    Example:
        >>> import torch
        >>> problem = PairProblem(torch.tensor([2.0, 0.5, 1.0]), torch.tensor([True, True, False]))
        >>> problem.count, len(list(problem.single()))
        (1, 1)
    """

    scores: Tensor
    positive: Tensor
    weights: Tensor | None = None
    fresh: Tensor | None = None
    top: float = 1.0
    scale: float = 1.0

    @property
    def count(self) -> int:
        """How many problems these are."""
        return 1 if self.scores.ndim == 1 else self.scores.shape[0]

    def single(self) -> Iterator[PairProblem]:
        """One after the other, for whoever solves them one by one."""
        if self.scores.ndim == 1:
            yield self
            return
        for row in range(self.count):
            weights, fresh = (None if rows is None else rows[row] for rows in (self.weights, self.fresh))
            yield PairProblem(self.scores[row], self.positive[row], weights, fresh, self.top, self.scale)


#: Up to so many scores in all, problems are laid side by side; beyond it, one after the other needs less memory and
#: loses no time.
SIDE_BY_SIDE = 1 << 17


@dataclass(frozen=True)
class PairForm:
    """Sum of `PairProblem` terms; ``scores`` is the tensor the user passed, for degenerate batches.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([2.0, 0.5, 1.0])
        >>> form = PairForm(scores, (PairProblem(scores, torch.tensor([True, True, False])),))
        >>> aimfor.SortedEngine("hinge").solve(form).loss.item()  # hinges 0 and 1.5 of two pairs
        0.75
    """

    scores: Tensor
    problems: tuple[PairProblem, ...]

    def single(self) -> list[PairProblem]:
        """Every problem by itself."""
        return [single for problem in self.problems for single in problem.single()]


class HasPairs(ABC):
    """Capability: the metric is a mean over ordered pairs.

    Example:
        >>> import aimfor
        >>> issubclass(aimfor.AUROC, HasPairs), issubclass(aimfor.FBeta, HasPairs)
        (True, False)
    """

    @abstractmethod
    def pair_form(self, batch: Batch, fresh: Tensor | None = None) -> PairForm:
        """The batch as pair problems. ``fresh`` marks the rows that are not from the score bank."""
