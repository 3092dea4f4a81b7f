"""Sorted rows of scores, and the ties in them: where a run of equal values begins and ends, what its places are worth.

Rows are ``(l,)`` or ``(b, l)``. On a CPU long rows of floats are sorted by their bits, by radix, in a seventh of the
time, and ties are found from the places that equal the one before them: one comparison where ties are few.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: From so many on torch sorts a vector of integers by radix, on a CPU; rows a quarter as long are filled up.
LONG = 1 << 15
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def ordered(rows: Tensor, *, descending: bool = False) -> tuple[Tensor, Tensor]:
    """``(l,)`` or ``(b, l)`` floats without NaN, and their places, each row sorted; equal ones keep their order.

    Example:
        >>> import torch
        >>> from aimfor.ordering import ordered
        >>> ordered(torch.tensor([[2.0, -1.0, 0.5]]))[1].tolist()
        [[1, 2, 0]]
    """
    if rows.shape[-1] < LONG // 4 or not rows.is_cpu or rows.dtype not in BITS:
        return torch.sort(rows, stable=True, descending=descending)
    kind = BITS[rows.dtype]
    bits = (rows + 0.0).view(kind)  # 0 for −0, which equals it
    # The bits of floats >= 0 are in their order; those of the others the other way round, below them.
    keys = torch.where(bits < 0, bits ^ torch.iinfo(kind).max, bits)
    keys = (~keys if descending else keys).view(-1, rows.shape[-1])
    if keys.shape[1] < LONG:
        keys = torch.cat((keys, keys.new_full((len(keys), LONG - keys.shape[1]), torch.iinfo(kind).max)), 1)
    orders = [key.sort(stable=True).indices[: rows.shape[-1]] for key in keys]
    order = (torch.stack(orders) if len(orders) > 1 else orders[0]).view(rows.shape)
    return rows.gather(-1, order), order


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
    return torch.empty_like(values).scatter_(-1, order, ordered.gather(-1, _latest(opens)))


def _latest(opens: Tensor) -> Tensor:
    """For each place the last one at or before it that is True, as the rows."""
    return torch.where(opens, _positions(opens), 0).cummax(-1).values


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
    return of_first(ordered, _positions(ordered))


def last_places(ordered: Tensor) -> Tensor:
    """For each place the last place of its run, as the rows."""
    return of_last(ordered, _positions(ordered))


def _positions(rows: Tensor) -> Tensor:
    return torch.arange(rows.shape[-1], device=rows.device).expand(rows.shape)


def of_first(ordered: Tensor, values: Tensor) -> Tensor:
    """Values of the places, as the rows, with every place of a run having its first place's."""
    if not ordered.is_cpu:  # which would have to wait for the number of ties
        opens = torch.ones_like(ordered, dtype=torch.bool)
        torch.ne(ordered[..., 1:], ordered[..., :-1], out=opens[..., 1:])
        return values.gather(-1, _latest(opens))
    runs = runs_of(ordered)
    return values if runs is None else _with(values, runs.others, values.reshape(-1)[runs.first][runs.run])


def of_last(ordered: Tensor, values: Tensor) -> Tensor:
    """Values of the places, as the rows, with every place of a run having its last place's."""
    if not ordered.is_cpu:
        return of_first(ordered.flip(-1), values.flip(-1)).flip(-1)
    runs = runs_of(ordered)
    if runs is None:
        return values
    last = values.reshape(-1)[runs.first + runs.more]
    return _with(values, torch.cat((runs.first, runs.others)), torch.cat((last, last[runs.run])))


def shared_worth(ordered: Tensor, worth: Tensor) -> Tensor:
    """Each place ``(l,)`` has a worth; the places of a run share theirs equally. As the rows."""
    whole, runs = worth.expand(ordered.shape), runs_of(ordered)
    if runs is None:
        return whole
    own = whole.reshape(-1)
    mean = own[runs.first].index_add(0, runs.run, own[runs.others]) / (runs.more + 1)
    return _with(whole, torch.cat((runs.first, runs.others)), torch.cat((mean, mean[runs.run])))


def _with(rows: Tensor, positions: Tensor, values: Tensor) -> Tensor:
    """A copy of the rows with other values at positions of the rows laid end to end."""
    copy = rows.clone(memory_format=torch.contiguous_format)
    copy.view(-1)[positions] = values
    return copy
