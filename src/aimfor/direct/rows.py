"""A checked batch as rows of entries that each count once: what combinatorial inference can work on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from .lists import within


@dataclass(frozen=True)
class Rows:
    """Lists or images as rows; entries outside ``where`` do not exist.

    Attributes:
        scores: ``(b, l)``, attached to the graph.
        positive: ``(b, l)`` bool.
        where: ``(b, l)`` bool or None.
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
