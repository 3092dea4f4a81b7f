"""Which rows belong together."""

from __future__ import annotations

from torch import Tensor


def rows_of_each(ids: Tensor) -> list[Tensor]:
    """Row numbers, ascending, of every different id ``(n,)``, the ids ascending: one sort, however many there are.

    Example:
        >>> import torch
        >>> [rows.tolist() for rows in rows_of_each(torch.tensor([7, 3, 7]))]
        [[1], [0, 2]]
    """
    return list(ids.argsort(stable=True).split(ids.unique(return_counts=True)[1].tolist()))
