"""Ties in sorted rows: where a run of equal values begins and ends, and what its places are worth on average.

Rows are ``(l,)`` or ``(b, l)``, sorted either way. All is found from the places that equal the one before them, so that
it costs one comparison where ties are few.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def joined(values: Tensor, within: float) -> Tensor:
    """The values, ``(…, n)``, where neighbours in order that differ by at most ``within`` become one (the lowest).

    For sums of rounded numbers, whose ties are off by rounding.

    Example:
        >>> import torch
        >>> joined(torch.tensor([2.0, 1.0625, 1.0]), 0.125).tolist()
        [2.0, 1.0, 1.0]
    """
    ordered, order = values.sort(-1)
    opens = torch.ones_like(ordered, dtype=torch.bool)
    torch.gt(ordered.diff(), within, out=opens[..., 1:])
    first = torch.where(opens, torch.arange(ordered.shape[-1], device=values.device), 0).cummax(-1).values
    return torch.empty_like(values).scatter_(-1, order, ordered.gather(-1, first))


class Runs(NamedTuple):
    """The runs of two and more equal values, in the rows laid end to end.

    Attributes:
        first: ``(r,)`` the run's first place.
        others: ``(m,)`` all places of runs but their first, in order.
        run: ``(m,)`` the run of each of them.
        more: ``(r,)`` how many of them a run has.
    """

    first: Tensor
    others: Tensor
    run: Tensor
    more: Tensor


def runs_of(ordered: Tensor) -> Runs | None:
    """None where no value occurs twice in a row."""
    repeated = torch.zeros(ordered.shape, dtype=torch.bool, device=ordered.device)
    torch.eq(ordered[..., 1:], ordered[..., :-1], out=repeated[..., 1:])
    others = repeated.view(-1).nonzero().view(-1)
    if not len(others):
        return None
    # The first place of a run repeats nothing, so there is a gap before every run.
    opens = torch.ones_like(others, dtype=torch.bool)
    torch.ne(others[1:], others[:-1] + 1, out=opens[1:])
    run = opens.cumsum(0) - 1
    return Runs(others[opens] - 1, others, run, torch.bincount(run))


def first_places(ordered: Tensor) -> Tensor:
    """For each place the first place of its run, as the rows."""
    return of_first(ordered, _places(ordered))


def last_places(ordered: Tensor) -> Tensor:
    """For each place the last place of its run, as the rows."""
    return of_last(ordered, _places(ordered))


def _places(ordered: Tensor) -> Tensor:
    return torch.arange(ordered.shape[-1], device=ordered.device).expand(ordered.shape)


def of_first(ordered: Tensor, values: Tensor) -> Tensor:
    """Values of the places, as the rows, with every place of a run having its first place's."""
    found = runs_of(ordered)
    return values if found is None else _with(values, found.others, values.reshape(-1)[found.first][found.run])


def of_last(ordered: Tensor, values: Tensor) -> Tensor:
    """Values of the places, as the rows, with every place of a run having its last place's."""
    found = runs_of(ordered)
    if found is None:
        return values
    last = values.reshape(-1)[found.first + found.more]
    return _with(values, torch.cat((found.first, found.others)), torch.cat((last, last[found.run])))


def shared_worth(ordered: Tensor, worth: Tensor) -> Tensor:
    """Each place ``(l,)`` has a worth; the places of a run share theirs equally. As the rows."""
    whole, found = worth.expand(ordered.shape), runs_of(ordered)
    if found is None:
        return whole
    own = whole.reshape(-1)
    mean = own[found.first].index_add(0, found.run, own[found.others]) / (found.more + 1)
    return _with(whole, torch.cat((found.first, found.others)), torch.cat((mean, mean[found.run])))


def _with(rows: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """A copy of the rows with other values at places of the rows laid end to end."""
    copy = rows.clone(memory_format=torch.contiguous_format)
    copy.view(-1)[places] = values
    return copy
