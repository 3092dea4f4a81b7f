"""Sorting rows of scores. Long rows of floats are sorted by their bits, by radix: a seventh of the time."""

from __future__ import annotations

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
    if rows.shape[-1] < LONG // 4 or rows.device.type != "cpu" or rows.dtype not in BITS:
        return torch.sort(rows, stable=True, descending=descending)
    kind = BITS[rows.dtype]
    bits = (rows + 0.0).view(kind)  # 0 for −0, which equals it
    # The bits of floats >= 0 are in their order; those of the others the other way round, below them.
    keys = torch.where(bits < 0, bits ^ torch.iinfo(kind).max, bits)
    keys = (~keys if descending else keys).view(-1, rows.shape[-1])
    if keys.shape[1] < LONG:
        keys = torch.cat((keys, keys.new_full((len(keys), LONG - keys.shape[1]), torch.iinfo(kind).max)), 1)
    found = [key.sort(stable=True).indices[: rows.shape[-1]] for key in keys]
    order = (torch.stack(found) if len(found) > 1 else found[0]).view(rows.shape)
    return rows.gather(-1, order), order
