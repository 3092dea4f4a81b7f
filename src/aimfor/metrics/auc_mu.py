"""AUC_mu: the multi-class AUC that keeps AUC's meaning, one binary AUC for each pair of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..engine import Batch, Engine
from ..errors import InputError
from ..ordering import joined
from ..smooth import QUICK, ByClasses, SmoothEngine, SmoothForm
from ..sorted import SIDE_BY_SIDE, PairForm, PairProblem, SortedEngine
from .auroc import mean_of_problems
from .curve import nan_like
from .pairs import OfPairs

Matrix = tuple[tuple[float, ...], ...]

#: Up to so many scores in all, every pair of classes keeps the examples of the other classes, at weight 0: taking them
#: out needs more operations than it saves. On a device the host would have to wait for how many examples a class has.
WHOLE_ROWS, WHOLE_ROWS_THERE = 1 << 12, 1 << 24


#: Two saved costs tie when they differ by at most so many roundings of the largest score (times the largest cost):
#: float scores that should tie, such as probabilities of a softmax, are off by one or two.
TIES = 4.0


@dataclass(frozen=True)
class AUCMu(OfPairs):
    """Mean over pairs of classes of the AUC that a cost matrix asks for.

    ``AUC_μ = 2/(c(c−1)) Σ_{k<k'} AUC(class k against class k', by the score ⟨A_k' − A_k, f(x)⟩)``

    A row's product ``⟨A_k, f(x)⟩`` is the cost of deciding class k, so the score is what deciding k saves. With
    equal costs, ``A = 1 − I``, it is ``f_k − f_k'``. Every pair of classes counts alike, however rare.
    Undefined (NaN) if a class has no example; training takes the mean over the pairs of classes in the batch.
    Saved costs are differences of rounded scores: those within `TIES` roundings of the largest score tie.

    Args:
        partition: The cost matrix ``A``, ``(c, c)``, zero on the diagonal: nested lists or a tensor. None is 1 − I.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 1.0, 3.0]])
        >>> float(aimfor.AUCMu().value(scores, torch.tensor([0, 1, 2])))
        1.0

    References:
        Kleiman and Page, AUC_mu: a performance metric for multi-class machine learning models, 2019.
    """

    partition: Matrix | Sequence[Sequence[float]] | Tensor | None = None

    layout: ClassVar[str] = "multiclass"
    remembers: ClassVar[str] = "scores"

    def __post_init__(self) -> None:
        if self.partition is not None:
            object.__setattr__(self, "partition", _matrix(self.partition))

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        batch = super().check(scores, targets, **rest)
        classes = batch.scores.shape[1]
        if self.partition is not None and len(self.partition) != classes:
            raise InputError(
                "scores",
                f"{classes} columns",
                f"{len(self.partition)}, as the partition matrix has rows",
                "Give the partition matrix one row and one column per class.",
            )
        return batch

    def exact(self, batch: Batch) -> Tensor:
        double = Batch(batch.scores.double(), batch.targets, batch.weights, batch.where)
        form = self.pair_form(double)
        classes = batch.scores.shape[1]
        if not len(batch.scores) or len(form.single()) != classes * (classes - 1) // 2:
            return nan_like(batch)
        largest = float(batch.scores.abs().max()) * (1.0 if self.partition is None else _steepest(self.partition))
        within = TIES * torch.finfo(batch.scores.dtype).eps * largest
        tied = tuple(replace(problem, scores=joined(problem.scores, within)) for problem in form.single())
        return mean_of_problems(PairForm(form.scores, tied))

    def pair_form(self, batch: Batch, fresh: Tensor | None = None) -> PairForm:
        rows, classes = batch.scores.shape
        most = WHOLE_ROWS if batch.scores.is_cpu else WHOLE_ROWS_THERE
        if self.partition is None and rows * classes * (classes - 1) // 2 <= most:
            return PairForm(batch.scores, (_whole_rows(batch, fresh),))
        counts = torch.bincount(batch.targets, minlength=classes).tolist()
        present, longest = [k for k, count in enumerate(counts) if count], max(counts)
        pairs = list(combinations(present, 2))
        if pairs and len(pairs) * 2 * longest <= SIDE_BY_SIDE:
            return PairForm(batch.scores, (self._side_by_side(batch, fresh, present, longest),))
        # Rows are sorted by class once; a pair of classes is then two slices, 2n/c rows instead of a mask over n.
        order = batch.targets.argsort(stable=True)
        gain = self._gain(batch.scores.index_select(0, order), counts)
        weights, recent = _by_class(batch.effective_weights(), order, counts), _by_class(fresh, order, counts)
        problems = []
        for k, other in pairs:
            scores = torch.cat((gain(k, k, other), gain(other, k, other)))
            problems.append(
                PairProblem(
                    scores,
                    torch.arange(scores.numel(), device=scores.device) < counts[k],
                    None if weights is None else torch.cat((weights[k], weights[other])),
                    None if recent is None else torch.cat((recent[k], recent[other])),
                    scale=1.0 / len(pairs),
                )
            )
        return PairForm(batch.scores, tuple(problems))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        pairs = super().smooth_form(batch)
        if self.partition is not None:  # costs ask for other scores than cross-entropy's
            return pairs
        return ByClasses(batch.scores, pairs, batch.targets, batch.effective_weights())

    def default_engine(self) -> Engine:
        """Softmax cross-entropy of twice the scores: sums over pairs of classes lost to it from scratch."""
        if self.partition is not None:
            return SortedEngine()
        return SmoothEngine(anchor=1.0, anchor_temperature=2 * QUICK)

    def engine_for_logits(self) -> Engine:
        return SortedEngine()

    def _side_by_side(self, batch: Batch, fresh: Tensor | None, present: list[int], longest: int) -> PairProblem:
        """All pairs of classes as the rows of one problem: class k's examples, padded, then the other's, padded."""
        device = batch.scores.device
        classes, pairs = torch.tensor(present, device=device), _pairs(len(present), device)
        # Sorted by membership, each class has its own examples first; what follows is padding of weight 0.
        inside, members = (batch.targets == classes.unsqueeze(-1)).sort(stable=True, descending=True)
        rows, inside = (table[:, :longest][pairs.t()].flatten(1) for table in (members, inside))
        columns = classes[pairs]
        if self.partition is None:
            # Both columns by one look-up: its backward pass fills one matrix, not two.
            cells = rows * batch.scores.shape[1] + columns.unsqueeze(-1)
            own, others = batch.scores.reshape(-1).index_select(0, cells.reshape(-1)).view(cells.shape).unbind(0)
            scores = own - others
        else:
            costs = torch.as_tensor(self.partition, dtype=batch.scores.dtype, device=device)
            k, other = costs[columns].unsqueeze(2).unbind(0)
            scores = ((other - k) * batch.scores.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)).sum(-1)
        positive = (torch.arange(2 * longest, device=device) < longest).expand_as(rows)
        given = batch.effective_weights()
        weights = inside if given is None else given[rows] * inside
        recent = None if fresh is None else fresh[rows]
        return PairProblem(scores, positive, weights, recent, scale=1.0 / len(rows))

    def _gain(self, scores: Tensor, counts: list[int]) -> Callable[[int, int, int], Tensor]:
        """A function (c, k, k') → ⟨A_k' − A_k, f⟩ of the rows of class c, for scores sorted by class."""
        if self.partition is None:
            # Slices of whole columns: backward sums slices, where indexing a matrix would fill it with zeros each time.
            columns = [column.split(counts) for column in scores.t().contiguous().unbind(0)]
            return lambda c, k, other: columns[k][c] - columns[other][c]
        slices = scores.t().contiguous().split(counts, 1)
        costs = torch.as_tensor(self.partition, dtype=scores.dtype, device=scores.device)
        # Not a matrix product: its rounding may depend on a row's place, and equal rows must tie.
        return lambda c, k, other: ((costs[other] - costs[k])[:, None] * slices[c]).sum(0)


def _whole_rows(batch: Batch, fresh: Tensor | None) -> PairProblem:
    """All pairs of classes as the rows of one problem, each with every example: those of other classes weigh 0."""
    pairs, columns = _pairs(batch.scores.shape[1], batch.scores.device), batch.scores.t()
    own, others = columns.index_select(0, pairs.view(-1)).view(*pairs.shape, -1).unbind(0)
    positive, negative = (batch.targets == pairs.unsqueeze(-1)).unbind(0)
    inside, given = positive | negative, batch.effective_weights()
    weights = inside if given is None else given * inside
    recent = None if fresh is None else fresh.expand_as(positive)
    return PairProblem(own - others, positive, weights, recent, scale=1.0 / len(inside))


def _pairs(classes: int, device: torch.device) -> Tensor:
    """Every pair of that many classes, ``(2, pairs)``."""
    return torch.triu_indices(classes, classes, 1, device=device)


def _by_class(values: Tensor | None, order: Tensor, counts: list[int]) -> tuple[Tensor, ...] | None:
    return None if values is None else values.index_select(0, order).split(counts)


def _steepest(costs: Any) -> float:
    """The largest sum of absolute differences between two rows of costs: what one unit of score can be worth."""
    table = torch.as_tensor(costs, dtype=torch.float64)
    return float((table[:, None] - table[None]).abs().sum(-1).max())


def _matrix(given: Any) -> Matrix:
    """The partition matrix as nested tuples, so that the metric stays hashable and prints as it was written."""
    try:
        rows = given.tolist() if hasattr(given, "tolist") else given
        matrix = tuple(tuple(float(cost) for cost in row) for row in rows)
    except (TypeError, ValueError):
        raise InputError("partition", repr(given), "a square matrix of numbers") from None
    if len(matrix) < 2 or any(len(row) != len(matrix) for row in matrix):
        came = f"{len(matrix)} rows of length {', '.join(map(str, sorted({len(row) for row in matrix})))}"
        raise InputError("partition", came, "a square matrix, one row per class, at least two classes")
    if not all(math.isfinite(cost) for row in matrix for cost in row):
        raise InputError("partition", "values not finite", "finite costs")
    if any(matrix[k][k] != 0 for k in range(len(matrix))):
        diagonal = [matrix[k][k] for k in range(len(matrix))]
        raise InputError("partition", f"the diagonal {diagonal}", "zeros there: a right decision costs nothing")
    return matrix
