"""Ranked lists laid end to end: positives and negatives apart, each sorted, no padding.

One long list, a thousand queries and the classes of a multi-label problem are the same object, so every
algorithm in this package is written once, for flat tensors with a list number beside each entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
        place = torch.arange(1, self.positives.numel() + 1, device=self.p.device)
        return place - self.first_positive[self.positive_list]


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
    order = given.sort(dim=1, descending=True).indices
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
    asked = to_rows(-lists.positives, lists.positive_list, lists.first_positive, lists.p, float("inf"))
    column = within(lists.positive_list, lists.first_positive)
    return torch.searchsorted(keys, asked, right=not strictly)[lists.positive_list, column]


def positives_above(n: Tensor, lists: Lists) -> Tensor:
    """``(q,)`` number of positives above each negative, from the number of negatives above each positive."""
    places = lists.negatives.numel() + lists.q.numel()  # q + 1 in each list
    if lists.q.numel() == 1:
        return torch.bincount(n, minlength=places).cumsum(0)[:-1]
    first = lists.first_negative + torch.arange(lists.q.numel(), device=n.device)
    through = torch.bincount(n + first[lists.positive_list], minlength=places).cumsum(0)
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
    place = torch.arange(values.numel(), device=values.device)
    ends = place.masked_fill(torch.cat((tied, tied.new_zeros(1))), values.numel())
    nearest = ends.flip(0).cummin(0).values.flip(0)  # the end at or after each place
    return values[nearest]
