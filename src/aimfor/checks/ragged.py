"""Ranked lists of different lengths: rows in any order with the number of their list, laid out as padded lists."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .tensors import core_shape, describe, mask_like, reshape_like, same_device, tensor

#: Cells of the padded table: 0.5 GB in float64.
MOST = 1 << 26


def padded_lists(
    scores: Tensor, targets: Tensor, groups: Any, weights: Any, where: Any
) -> tuple[Tensor, Tensor, Any, Tensor]:
    """Rows ``(n,)`` as ``(b, longest)`` lists, one for each group id in rising order, with the mask of what is there.

    Args:
        scores: ``(n,)`` or ``(n, 1)``, attached to the graph.
        targets: As scores.
        groups: ``(n,)`` whole numbers: rows with the same number are one list.
        weights: One per row, one per list in the order of the ids, or None.
        where: As scores, or None.

    Raises:
        InputError: Group ids that are not one whole number per row, or lengths so uneven that the table is too large.
    """
    ids = tensor("groups", groups)
    same_device("groups", ids, scores)
    if core_shape(scores.shape) != core_shape(scores.shape[:1]):
        raise InputError(
            "scores",
            f"shape {tuple(scores.shape)}",
            "one score per row, (n,), with groups=",
            "Leave groups= out for (b, l).",
        )
    n = scores.numel()
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise InputError("groups", describe(ids), "whole numbers: rows with the same number are one list")
    if ids.numel() != n:
        raise InputError("groups", f"{ids.numel()} ids for {n} scores", "one group id per score")
    targets = reshape_like("targets", targets, scores.shape).reshape(-1)
    mask = mask_like(where, scores.shape, scores)
    places, there = _layout(ids.reshape(-1))
    if weights is not None and tensor("weights", weights).numel() == n:
        weights = torch.where(there, weights.reshape(-1)[places], weights.new_zeros(()))
    counted = there if mask is None else there & mask.reshape(-1)[places]
    return scores.reshape(-1)[places], targets[places], weights, counted


def _layout(ids: Tensor) -> tuple[Tensor, Tensor]:
    """``(b, longest)``: the row at each place of each list, and False where a list has ended."""
    _, list_of, sizes = ids.unique(return_inverse=True, return_counts=True)
    lists, longest = len(sizes), int(sizes.max()) if len(sizes) else 0
    if lists * longest > MOST:
        raise InputError(
            "groups",
            f"{lists} lists, the longest of {longest} rows",
            f"at most {MOST} cells when padded to the longest",
            "Put long and short lists into different batches.",
        )
    order = list_of.argsort(stable=True)
    first = sizes.cumsum(0) - sizes
    places = ids.new_zeros((lists, longest), dtype=torch.int64)
    column = torch.arange(len(ids), device=ids.device) - first[list_of[order]]
    places[list_of[order], column] = order
    return places, torch.arange(longest, device=ids.device) < sizes[:, None]
