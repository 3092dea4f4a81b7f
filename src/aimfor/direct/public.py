"""The interleavings as plain functions: give scores, get the number of negatives above each positive."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import checks
from ..errors import InputError
from .interleave import DISCOUNT, PRECISION, interleave
from .lists import Lists

SIGNS = (1, -1)


def ap_interleave(
    positives: Tensor,
    negatives: Tensor,
    epsilon: float,
    sign: int = 1,
    *,
    positives_where: Tensor | None = None,
    negatives_where: Tensor | None = None,
) -> Tensor:
    """The ranking that maximises ``F + sign · ε · (1 − AP)``, as the number of negatives above each positive.

    ``F`` is the mean over pairs of ``y_ij (φ_i − φ_j)`` with ``y_ij = 1`` when positive i stands above negative j
    and −1 when below. sign = +1 takes O(n log n), sign = −1 takes O((1 − AUC) · p · q).

    Where several rankings are equally good, the one nearest to the order of the scores is returned; among equal
    scores ``sign=+1`` puts negatives first and ``sign=-1`` positives.

    Args:
        positives: ``(p,)`` or ``(b, p)`` scores, in any order.
        negatives: ``(q,)`` or ``(b, q)`` scores.
        epsilon: > 0.
        sign: +1 or −1.
        positives_where: Mask of the positives that are there, for lists of different lengths.
        negatives_where: As above.

    Returns:
        ``(p,)`` or ``(b, p)`` int64, for the positives in descending order of score; −1 past the end of a list.

    Raises:
        InputError: For ε ≤ 0, an unknown sign, scores that are not finite or shapes that do not fit.

    Example:
        >>> import torch
        >>> from aimfor.direct import ap_interleave
        >>> ap_interleave(torch.tensor([2.0, 0.5]), torch.tensor([1.0, 0.0, -1.0]), epsilon=1.0, sign=+1)
        tensor([0, 1])

    References:
        Song, Schwing, Zemel, Urtasun, Training deep neural networks via direct loss minimization, 2016.
    """
    lists, shape = _checked(positives, negatives, positives_where, negatives_where, epsilon, sign)
    return _to_rows(interleave(lists, 0.5 * epsilon * lists.q.double(), PRECISION, sign), lists, shape)


def ndcg_interleave(
    positives: Tensor,
    negatives: Tensor,
    epsilon: float,
    sign: int = 1,
    *,
    positives_where: Tensor | None = None,
    negatives_where: Tensor | None = None,
) -> Tensor:
    """As `ap_interleave`, for 1 − NDCG with two grades of relevance.

    Only the difference of the two grades' gains enters, and it cancels in the ratio when the lower gain is 0:
    ``NDCG = Σ_i D(i + n_i) / Σ_i D(i)`` with ``D(r) = 1 / log2(1 + r)``. More than two grades, or a cut at k: see
    `PositionForm`, which is exact for any grades because it scores positions instead of pairs.

    Example:
        >>> import torch
        >>> from aimfor.direct import ndcg_interleave
        >>> ndcg_interleave(torch.tensor([2.0, 0.5]), torch.tensor([1.0, 0.0, -1.0]), epsilon=3.0, sign=-1)
        tensor([0, 0])
    """
    lists, shape = _checked(positives, negatives, positives_where, negatives_where, epsilon, sign)
    p, q = lists.p.double(), lists.q.double()
    ranks = torch.arange(1, int(lists.p.max()) + 1 if p.numel() else 1, dtype=p.dtype, device=p.device)
    discounts = torch.cat((p.new_zeros(1), (1.0 / torch.log2(1.0 + ranks)).cumsum(0)))
    ideal = discounts[lists.p].clamp_min(1.0)  # a list without positives has nothing to place
    return _to_rows(interleave(lists, 0.5 * epsilon * p * q / ideal, DISCOUNT, sign), lists, shape)


def _checked(
    positives: Tensor,
    negatives: Tensor,
    positives_where: Tensor | None,
    negatives_where: Tensor | None,
    epsilon: float,
    sign: int,
) -> tuple[Lists, torch.Size]:
    """The lists and the shape that they came in; ε and sign are what they must be."""
    lists, shape = _to_lists(positives, negatives, positives_where, negatives_where)
    checks.number("epsilon", epsilon, above=0)
    checks.one_of("sign", sign, SIGNS)
    return lists, shape


def _to_lists(
    positives: Tensor, negatives: Tensor, positives_where: Tensor | None, negatives_where: Tensor | None
) -> tuple[Lists, torch.Size]:
    shape = checks.tensor("positives", positives).shape
    up, up_where = _rows("positives", positives, positives_where)
    down, down_where = _rows("negatives", negatives, negatives_where)
    if up.shape[0] != down.shape[0] or positives.ndim != negatives.ndim:
        raise InputError(
            "negatives",
            f"shape {tuple(negatives.shape)} with positives of shape {tuple(positives.shape)}",
            "as many lists as positives",
        )
    positive, positive_list, p = _flatten(up, up_where)
    negative, negative_list, q = _flatten(down, down_where)
    return Lists(positive, negative, positive_list, negative_list, p, q), shape


def _rows(name: str, scores: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor | None]:
    scores = checks.floating_scores(scores).detach()
    if scores.ndim not in (1, 2):
        raise InputError(name, f"shape {tuple(scores.shape)}", "one list, (n,), or lists as rows, (b, n)")
    if where is not None:
        if checks.tensor(f"{name}_where", where).dtype != torch.bool or where.shape != scores.shape:
            raise InputError(f"{name}_where", f"a {where.dtype} tensor of shape {tuple(where.shape)}", "a bool mask")
        scores = torch.where(where, scores, scores.new_zeros(()))
    checks.finite(name, scores)
    rows = scores.reshape(-1, scores.shape[-1]) if scores.ndim == 2 else scores[None]
    return rows, None if where is None else where.reshape(rows.shape)


def _flatten(rows: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    values, order = rows.double().sort(dim=1, descending=True)
    kept = torch.ones_like(order, dtype=torch.bool) if where is None else where.gather(1, order)
    number = torch.arange(rows.shape[0], device=rows.device)[:, None].expand_as(order)
    return values[kept], number[kept], kept.sum(1)


def _to_rows(n: Tensor, lists: Lists, shape: torch.Size) -> Tensor:
    answer = torch.full(shape, -1, dtype=torch.int64, device=n.device)
    rows = answer if len(shape) == 2 else answer[None]
    rows[lists.positive_list, lists.rank() - 1] = n
    return answer
