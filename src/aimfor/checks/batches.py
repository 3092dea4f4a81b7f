"""Whole batches, by layout: what a user passes comes out as a `Batch` the mathematics may trust."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from .tensors import (
    binary_values,
    blank_masked,
    class_values,
    core_shape,
    describe,
    finite,
    floating_scores,
    groups_like,
    index_like,
    mask_like,
    pixels_of,
    relevance_values,
    reshape_like,
    same_device,
    scores_and_targets,
    tensor,
    weights_like,
)


def binary(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
    limit: float = math.inf,
) -> Batch:
    """Layout "binary": one score and one 0/1 label per entry, flattened to ``(n,)``; ``targets`` become bool."""
    scores, targets = scores_and_targets(scores, targets)
    if scores.ndim == 2 and scores.shape[1] != 1 and core_shape(targets.shape) == core_shape(scores.shape[:1]):
        raise InputError(
            "scores",
            f"shape {tuple(scores.shape)} with targets of shape {tuple(targets.shape)}",
            f"one score per example, ({scores.shape[0]},) or ({scores.shape[0]}, 1)",
            "For a two-column output pass scores[:, 1] - scores[:, 0]; for classes use auroc_ovr or auc_mu.",
        )
    if targets.is_complex():
        raise InputError("targets", describe(targets), "0/1 labels")
    if scores.ndim > 2 and targets.shape == scores.shape[:1] + scores.shape[2:] != scores.shape:
        raise InputError(
            "scores",
            f"shape {tuple(scores.shape)} with targets of shape {tuple(targets.shape)}",
            f"one score per pixel, {tuple(targets.shape)}",
            "Pass scores.squeeze(1)." if scores.shape[1] == 1 else "For classes use miou, f1_macro or accuracy.",
        )
    shape, targets = scores.shape, reshape_like("targets", targets, scores.shape)
    mask, checked = mask_like(where, shape, scores), weights_like(weights, shape, scores, False)
    scores, targets = blank_masked(scores, targets, mask)
    if checked is not None and mask is not None:
        checked = torch.where(mask, checked, checked.new_zeros(()))
    if values:
        finite("scores", scores, limit)
        binary_values(targets)
        weights_like(checked, shape, scores, True)
    n, pixels = scores.numel(), pixels_of(scores.shape)
    if scores.ndim != 1:  # a view that changes nothing would still be a step of the backward pass
        scores, targets = scores.reshape(-1), targets.reshape(-1)
    return Batch(
        scores,
        targets.bool(),
        None if checked is None else checked.reshape(-1),
        None if mask is None else mask.reshape(-1),
        index_like(index, n, scores, values),
        groups_like(groups, n, scores),
        pixels=pixels,
    )


def multiclass(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
    limit: float = math.inf,
) -> Batch:
    """Layout "multiclass": ``(n, c)`` scores and ``(n,)`` class ids; more dimensions are flattened to it."""
    scores, targets = scores_and_targets(scores, targets)
    if scores.ndim < 2 or scores.shape[1] < 2:
        raise InputError(
            "scores",
            f"shape {tuple(scores.shape)}",
            "one column per class, (n, c) with c >= 2",
            "For one score per example use a binary metric such as auroc.",
        )
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
        raise InputError(
            "targets", describe(targets), "class ids as whole numbers", "For one-hot use targets.argmax(1)."
        )
    classes = scores.shape[1]
    shape = torch.Size([scores.shape[0], *scores.shape[2:]])
    pixels = pixels_of(shape)
    targets = reshape_like("targets", targets, shape).reshape(-1).long()
    if scores.ndim > 2:  # views that change nothing would still be steps of the backward pass
        scores = scores.movedim(1, 0).reshape(classes, -1).mT  # class after class in memory, as they came
    mask = mask_like(where, shape, scores)
    checked = weights_like(weights, shape, scores, False)
    if mask is not None:
        mask = mask.reshape(-1)
        targets = targets.masked_fill(~mask, 0)
        scores = torch.where(mask[:, None], scores, scores.new_zeros(()))
    if checked is not None:
        checked = checked.reshape(-1)
        checked = checked if mask is None else torch.where(mask, checked, checked.new_zeros(()))
    if values:
        finite("scores", scores, limit)
        class_values(targets, classes)
        weights_like(checked, targets.shape, scores, True)
    n = targets.numel()
    index, groups = index_like(index, n, scores, values), groups_like(groups, n, scores)
    return Batch(scores, targets, checked, mask, index, groups, pixels=pixels)


def multilabel(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
    limit: float = math.inf,
) -> Batch:
    """Layout "multilabel": ``(n, c)`` scores and 0/1 targets, one column per label.

    ``weights`` has one entry per example, ``(n,)``, and comes out as ``(n, 1)``; ``where`` is ``(n, c)``.
    """
    scores, targets = scores_and_targets(scores, targets)
    if scores.ndim != 2:
        raise InputError("scores", f"shape {tuple(scores.shape)}", "one column per label, (n, c)")
    if targets.shape != scores.shape:
        ids = targets.numel() == len(scores)
        raise InputError(
            "targets",
            f"shape {tuple(targets.shape)}",
            f"0/1 for every label, {tuple(scores.shape)}",
            "For class ids use torch.nn.functional.one_hot, or a multi-class metric." if ids else "",
        )
    if index is not None or groups is not None:
        raise InputError("index" if index is not None else "groups", "a value", "None with several labels")
    mask, n = mask_like(where, scores.shape, scores), torch.Size([len(scores)])
    checked = weights_like(weights, n, scores, values)
    scores, targets = blank_masked(scores, targets, mask)
    if values:
        finite("scores", scores, limit)
        binary_values(targets)
    return Batch(scores, targets.bool(), None if checked is None else checked.reshape(-1, 1), mask)


def masks(scores: Any, targets: Any, *, by_class: bool, index: Any = None, groups: Any = None, **rest: Any) -> Batch:
    """Layout "masks": one image per row, ``(b, l)`` with 0/1 labels, or ``(b, l, c)`` with class ids when ``by_class``.

    Comes in as ``(b, h, w)`` with ``(b, h, w)``, or ``(b, c, h, w)`` with ``(b, h, w)``.
    """
    scores = floating_scores(scores)
    least = 3 if by_class else 2
    if scores.ndim < least:
        wanted = "(b, c, h, w)" if by_class else "(b, h, w)"
        raise InputError("scores", f"shape {tuple(scores.shape)}", f"images along the first dimension, {wanted}")
    if index is not None or groups is not None:
        raise InputError("index" if index is not None else "groups", "a value", "None: masks carry no example index")
    flat = (multiclass if by_class else binary)(scores, targets, **rest)
    rows = (scores.shape[0], flat.targets.numel() // max(scores.shape[0], 1))
    return Batch(
        flat.scores.reshape(*rows, *flat.scores.shape[1:]),
        flat.targets.reshape(rows),
        None if flat.weights is None else flat.weights.reshape(rows),
        None if flat.where is None else flat.where.reshape(rows),
    )


def lists(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
    limit: float = math.inf,
    graded: bool = False,
) -> Batch:
    """Layout "lists": ``(b, l)`` ranked lists, or one list; 0/1 labels, or relevance >= 0 when ``graded``.

    One list comes as ``(l,)``, or as ``(l, 1)``, the column that a model with one output returns. (As lists of one
    item each, a column would have nothing to rank.) ``weights`` may have one entry per list, ``(b,)``, or (not when
    graded) one per item, ``(b, l)``; it comes out as ``(b, 1)`` or ``(b, l)``. ``targets`` come out as bool, or in
    scores' dtype when graded.

    With ``groups``, one whole number per row, scores are ``(n,)`` and rows with the same number are one list.
    """
    scores, targets = scores_and_targets(scores, targets)
    if scores.ndim > 2:
        raise InputError("scores", f"shape {tuple(scores.shape)}", "lists as rows, (b, l), or one list, (l,)")
    if index is not None or isinstance(groups, Mapping):
        raise InputError(
            "index" if index is not None else "groups",
            "a value",
            "None: ranked lists carry no example index",
            "" if groups is None else "For lists of different lengths pass groups= one whole number per row.",
        )
    if targets.is_complex():
        raise InputError("targets", describe(targets), "labels or relevance grades")
    ragged = groups is not None
    if ragged:
        scores, targets, weights, where = padded_lists(scores, targets, groups, weights, where)
    shape = scores.shape
    targets, mask = reshape_like("targets", targets, shape), mask_like(where, shape, scores)
    one_list = not ragged and (len(shape) == 1 or core_shape(shape) == core_shape(shape[:1]))
    rows = shape
    if one_list:
        rows = torch.Size([1, scores.numel()])
        scores, targets = scores.reshape(rows), targets.reshape(rows)
        mask = None if mask is None else mask.reshape(rows)
    scores, targets = blank_masked(scores, targets, mask)
    checked = _list_weights(weights, rows, mask, scores, graded)
    if values:
        finite("scores", scores, limit)
        if checked is not None:
            weights_like(checked, checked.shape, scores, True)
        if graded:
            relevance_values(targets)
        else:
            binary_values(targets)
    targets = targets.to(scores.dtype) if graded else targets.bool()
    return Batch(scores, targets, checked, mask, one_list=one_list)


def _list_weights(weights: Any, rows: torch.Size, mask: Tensor | None, scores: Tensor, graded: bool) -> Tensor | None:
    if weights is None:
        return None
    weights = tensor("weights", weights)
    if weights.numel() == rows[0] and weights.shape != rows and (graded or rows[1] != 1):
        return weights_like(weights.reshape(-1), torch.Size([rows[0]]), scores, False).reshape(-1, 1)  # type: ignore[union-attr]
    if graded:
        raise InputError(
            "weights",
            f"shape {tuple(weights.shape)}",
            f"one weight per list, ({rows[0]},)",
            "An item's weight has no meaning in a discounted gain; put it into the relevance.",
        )
    column = core_shape(weights.shape) == core_shape(weights.shape[:1])
    weights = weights.reshape(rows) if weights.numel() == rows.numel() and column else weights
    checked = weights_like(weights, rows, scores, False)
    assert checked is not None
    return checked if mask is None else torch.where(mask, checked, checked.new_zeros(()))


#: Cells of the padded table: 0.5 GB in float64.
MOST_CELLS = 1 << 26


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
    rows, there = _layout(ids.reshape(-1))
    if weights is not None and tensor("weights", weights).numel() == n:
        weights = torch.where(there, weights.reshape(-1)[rows], weights.new_zeros(()))
    counted = there if mask is None else there & mask.reshape(-1)[rows]
    return scores.reshape(-1)[rows], targets[rows], weights, counted


def _layout(ids: Tensor) -> tuple[Tensor, Tensor]:
    """``(b, longest)``: the row at each place of each list, and False where a list has ended."""
    _, list_of, sizes = ids.unique(return_inverse=True, return_counts=True)
    lists, longest = len(sizes), int(sizes.max()) if len(sizes) else 0
    if lists * longest > MOST_CELLS:
        raise InputError(
            "groups",
            f"{lists} lists, the longest of {longest} rows",
            f"at most {MOST_CELLS} cells when padded to the longest",
            "Put long and short lists into different batches.",
        )
    order = list_of.argsort(stable=True)
    first = sizes.cumsum(0) - sizes
    rows = ids.new_zeros((lists, longest), dtype=torch.int64)
    column = torch.arange(len(ids), device=ids.device) - first[list_of[order]]
    rows[list_of[order], column] = order
    return rows, torch.arange(longest, device=ids.device) < sizes[:, None]
