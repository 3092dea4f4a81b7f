"""What combinatorial inference works on: rows of entries that each count once, and their classes apart and sorted.

`Rows` is a checked batch, whole-number weights as repetitions. `Lists` are its two classes laid end to end, without
padding: one long list, a thousand queries and the classes of a multi-label problem are the same object, so every
algorithm in this package is written once, for flat tensors with a list number beside each entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from ..ordering import ordered


@dataclass(frozen=True)
class Rows:
    """Lists or images as rows; entries outside ``where`` do not exist.

    Attributes:
        scores: ``(b, l)``, attached to the graph.
        positive: ``(b, l)`` bool.
        where: ``(b, l)`` bool or None.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.direct import Rows
        >>> Rows(torch.zeros(1, 3), torch.tensor([[True, False, True]]), None).counted().tolist()
        [[True, True, True]]
    """

    scores: Tensor
    positive: Tensor
    where: Tensor | None

    def counted(self) -> Tensor:
        """``(b, l)`` bool: the entries that exist."""
        return torch.ones_like(self.positive) if self.where is None else self.where

    def sizes(self) -> Tensor:
        """``(b,)`` how many entries exist in each row."""
        if self.where is None:
            b, length = self.positive.shape
            return self.positive.new_full((b,), length, dtype=torch.int64)
        return self.where.sum(1)


def rows_of(batch: Batch, *, by_list: bool = False, threshold: float = 0.0) -> Rows:
    """Rows of a batch in the layout ``(n,)`` or ``(b, l)``; whole-number weights become repetitions.

    A weight of 2.5 has no meaning for an output made of whole decisions or places, and is refused.

    Args:
        batch: Checked input.
        by_list: The weights are per list, not per entry, and are the caller's business.
        threshold: Taken off the scores.

    Raises:
        InputError: For weights that are not whole numbers.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.direct import rows_of
        >>> rows_of(aimfor.FBeta(1.0).check(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]))).positive.tolist()
        [[True, False]]
    """
    scores = batch.scores if batch.scores.ndim == 2 else batch.scores[None]
    scores = scores - threshold if threshold else scores
    positive, where = batch.targets.reshape(scores.shape), batch.where
    where = None if where is None else where.reshape(scores.shape)
    if batch.weights is None or by_list:
        return Rows(scores, positive, where)
    weights = batch.weights.reshape(scores.shape)
    times = weights.round().long()
    if not torch.equal(times.to(weights.dtype), weights):
        raise InputError(
            "weights",
            "values that are not whole numbers",
            "weights that are whole numbers, which the direct engine takes as repetitions",
            "Leave them out, or round them.",
        )
    if where is not None:
        times = times * where
    if not times.numel() or int(times.max()) <= 1:
        return Rows(scores, positive, times > 0)
    return _repeated(scores, positive, times)


def _repeated(scores: Tensor, positive: Tensor, times: Tensor) -> Rows:
    b, length = scores.shape
    source = torch.arange(scores.numel(), device=scores.device).repeat_interleave(times.reshape(-1))
    size = times.sum(1)
    row = source // length
    column = within(row, size.cumsum(0) - size)
    at = source.new_zeros((b, int(size.max())))
    where = torch.zeros_like(at, dtype=torch.bool)
    at[row, column], where[row, column] = source, True
    return Rows(scores.reshape(-1)[at], positive.reshape(-1)[at] & where, where)


@dataclass(frozen=True)
class Lists:
    """Scores of b lists, highest first inside each list, list after list.

    Attributes:
        positives: ``(p,)`` float64.
        negatives: ``(q,)`` float64.
        positive_list: ``(p,)`` the list that each positive belongs to.
        negative_list: ``(q,)``.
        p: ``(b,)`` positives per list.
        q: ``(b,)`` negatives per list.
    """

    positives: Tensor
    negatives: Tensor
    positive_list: Tensor
    negative_list: Tensor
    p: Tensor
    q: Tensor

    @property
    def first_positive(self) -> Tensor:
        """``(b,)`` where each list's positives start."""
        return self.p.cumsum(0) - self.p

    @property
    def first_negative(self) -> Tensor:
        """``(b,)`` where each list's negatives start."""
        return self.q.cumsum(0) - self.q

    def rank(self) -> Tensor:
        """``(p,)`` 1 for the best positive of its list, 2 for the next, …"""
        index = torch.arange(1, self.positives.numel() + 1, device=self.p.device)
        return index - self.first_positive[self.positive_list]


@dataclass(frozen=True)
class Sorted:
    """The two classes of a batch of lists, and where they came from.

    Attributes:
        lists: Scores, sorted.
        positive_at: ``(p,)`` flat positions of the sorted positives in the batch.
        negative_at: ``(q,)``.
    """

    lists: Lists
    positive_at: Tensor
    negative_at: Tensor


def sort_lists(scores: Tensor, positive: Tensor, where: Tensor | None) -> Sorted:
    """Sort ``(b, l)`` scores once and part the classes; masked entries belong to neither."""
    given = scores.detach()
    order = ordered(given, descending=True)[1]
    b, length = given.shape
    if b > 1:
        order = order + length * torch.arange(b, device=order.device)[:, None]
    flat, given = order.reshape(-1), given.reshape(-1)
    is_positive = positive.reshape(-1)[flat]
    is_negative = ~is_positive
    if where is not None:
        counted = where.reshape(-1)[flat]
        is_positive, is_negative = is_positive & counted, is_negative & counted
    parts = []
    for member in (is_positive, is_negative):
        at = flat[member]
        number = torch.zeros_like(at) if b == 1 else at // length
        parts.append((at, given.index_select(0, at).double(), number, member.reshape(b, length).sum(1)))
    (positive_at, up, up_list, p), (negative_at, down, down_list, q) = parts
    return Sorted(Lists(up, down, up_list, down_list, p, q), positive_at, negative_at)


def negatives_above(lists: Lists, strictly: bool) -> Tensor:
    """``(p,)`` negatives scored above each positive, or not below it when not ``strictly``."""
    if lists.p.numel() == 1:
        return torch.searchsorted(-lists.negatives, -lists.positives, right=not strictly)
    # Padding to rows: searchsorted takes one sorted row per row of questions.
    keys = to_rows(-lists.negatives, lists.negative_list, lists.first_negative, lists.q, float("inf"))
    questions = to_rows(-lists.positives, lists.positive_list, lists.first_positive, lists.p, float("inf"))
    column = within(lists.positive_list, lists.first_positive)
    return torch.searchsorted(keys, questions, right=not strictly)[lists.positive_list, column]


def positives_above(n: Tensor, lists: Lists) -> Tensor:
    """``(q,)`` number of positives above each negative, from the number of negatives above each positive."""
    slots = lists.negatives.numel() + lists.q.numel()  # q + 1 in each list
    if lists.q.numel() == 1:
        return torch.bincount(n, minlength=slots).cumsum(0)[:-1]
    first = lists.first_negative + torch.arange(lists.q.numel(), device=n.device)
    through = torch.bincount(n + first[lists.positive_list], minlength=slots).cumsum(0)
    shift = torch.arange(lists.negatives.numel(), device=n.device) + lists.negative_list
    return through[shift] - lists.first_positive[lists.negative_list]


def within(group: Tensor, first: Tensor) -> Tensor:
    """Position of each entry inside its list, from 0."""
    return torch.arange(group.numel(), device=group.device) - first[group]


def to_rows(values: Tensor, group: Tensor, first: Tensor, count: Tensor, fill: float) -> Tensor:
    """Flat entries as a padded ``(b, longest)`` table."""
    rows = values.new_full((count.numel(), int(count.max()) if count.numel() else 0), fill)
    rows[group, within(group, first)] = values
    return rows


def mean_over_ties(values: Tensor, scores: Tensor, group: Tensor) -> Tensor:
    """Replace each value by its mean over the run of equal scores it stands in (scores sorted inside groups).

    Examples that a model cannot tell apart then get the same gradient, whatever their order in the batch.
    """
    tied = same_as_next(scores, group)
    if not bool(tied.any()):
        return values
    edge = tied.new_zeros(1)
    member = torch.cat((tied, edge)) | torch.cat((edge, tied))
    at = member.nonzero().squeeze(1)  # usually few: random float32 scores of a large batch collide now and then
    run = (~torch.cat((edge, tied)))[at].long().cumsum(0) - 1
    size = torch.bincount(run)
    total = values.new_zeros(size.numel()).index_add_(0, run, values[at])
    return values.index_copy(0, at, (total / size)[run])


def same_as_next(values: Tensor, group: Tensor) -> Tensor:
    """``(n − 1,)`` True where two neighbours are equal and of the same group."""
    return (values[1:] == values[:-1]) & (group[1:] == group[:-1])


def last_of_ties(values: Tensor, scores: Tensor, group: Tensor) -> Tensor:
    """Replace each value by the largest of the run of equal scores it stands in, for values that rise in a group."""
    tied = same_as_next(scores, group)
    if not bool(tied.any()):
        return values
    index = torch.arange(values.numel(), device=values.device)
    ends = index.masked_fill(torch.cat((tied, tied.new_zeros(1))), values.numel())
    nearest = ends.flip(0).cummin(0).values.flip(0)  # the end at or after each place
    return values[nearest]
