"""Loss-augmented inference over interleavings of two sorted lists, exact, for both signs.

A ranking is described by ``n_1 ≤ n_2 ≤ … ≤ n_p``, the number of negatives above the i-th best positive. With
Song's score (mean over pairs of ``y_ij (φ_i − φ_j)``), times ``p q / 2`` and up to a constant, the objective is

    Σ_i  [ Σ_{l ≤ n_i} (φ⁻_l − φ⁺_i)  −  sign · reward · gain(i, n_i) ],

where the metric is a constant plus a multiple of ``Σ gain(i, n_i)``: ``i / (i + n)`` for average precision, the
discount of position ``i + n`` for the discounted gain.

sign = +1: each term is concave in ``n_i`` because ``gain`` is convex. The problem then decomposes by thresholds:
which positives have ``n_i > k`` is decided by the marginal gains at k alone, as the best *suffix* of positives.
All thresholds are searched by one bisection that keeps an interval per positive; positives that share an interval
form a block, and a block whose signs are out of order is cut at its best suffix (this is what pooling adjacent
violators does). O(p log q) after the sort.

sign = −1: the terms are not concave and no such shortcut is known. The dynamic program needs one cumulative maximum
per positive: ``H_i(j) = max_{k ≤ j} (H_{i−1}(k) + g_i(k))``. Only ``n_i ≤`` (negatives scored above i) can be
optimal, which leaves ``(1 − AUC) · p q`` of the cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import checks
from ..errors import InputError
from .lists import Lists, negatives_above, same_as_next, to_rows, within

#: The choices of the row recursion are kept for the way back: 8 bytes per cell.
MOST_CELLS = 1 << 28

#: Cells of the row recursion prepared at once.
BLOCK = 1 << 18


@dataclass(frozen=True)
class Gain:
    """What positive i earns with k negatives above it: decreasing and convex in k.

    Attributes:
        at: ``gain(i, k)``.
        drop: ``gain(i, k) − gain(i, k + 1)``, written so that nothing cancels.
    """

    at: Callable[[Tensor, Tensor], Tensor]
    drop: Callable[[Tensor, Tensor], Tensor]


def _discount_drop(i: Tensor, k: Tensor) -> Tensor:
    now, then = torch.log2(1.0 + i + k), torch.log2(2.0 + i + k)
    return torch.log1p(1.0 / (1.0 + i + k)) / (now * then * 0.6931471805599453)


PRECISION = Gain(lambda i, k: i / (i + k), lambda i, k: i / ((i + k) * (i + k + 1.0)))

DISCOUNT = Gain(lambda i, k: 1.0 / torch.log2(1.0 + i + k), _discount_drop)


def interleave(lists: Lists, reward: Tensor, gain: Gain, sign: int) -> Tensor:
    """The best ``n`` of every list, ``(p,)`` int64; among equals the one nearest to the order of the scores.

    Args:
        lists: Sorted scores.
        reward: ``(b,)`` weight of the gain in each list, > 0.
        gain: What to earn.
        sign: +1 for the worst metric (``F + ε Δ``), −1 for the best.
    """
    return _by_thresholds(lists, reward, gain) if sign > 0 else _by_rows(lists, reward, gain)


# ---------------------------------------------------------------- sign +1


def _by_thresholds(lists: Lists, reward: Tensor, gain: Gain) -> Tensor:
    group = lists.positive_list
    low, high = torch.zeros_like(group), lists.q[group]
    if not lists.negatives.numel():
        return low
    rank, weight, base = lists.rank().double(), reward[group], lists.first_negative[group]
    last = lists.negatives.numel() - 1
    for _ in range(int(lists.q.max()).bit_length()):
        middle = (low + high) // 2
        at = (base + middle).clamp_max_(last)
        marginal = lists.negatives.index_select(0, at) - lists.positives + weight * gain.drop(rank, middle.double())
        more = _best_suffix(marginal, low, group)
        low = torch.where(more & (low < high), middle + 1, low)
        high = torch.where(more, high, torch.minimum(high, middle))
    return low


def _best_suffix(marginal: Tensor, low: Tensor, group: Tensor) -> Tensor:
    """True for the members of each block's most profitable suffix; blocks are runs of equal (group, low)."""
    more = marginal > 0
    together = same_as_next(low, group)
    violated = more[:-1] & ~more[1:] & together
    if not bool(violated.any()):
        return more
    block = torch.cat((group.new_zeros(1), (~together).long().cumsum(0)))
    blocks = int(block[-1]) + 1
    bad = torch.zeros(blocks, dtype=torch.bool, device=group.device)
    bad[block[:-1][violated]] = True
    members = bad[block].nonzero().squeeze(1)
    more[members] = _suffix_by_sums(marginal[members], block[members], blocks)
    return more


def _suffix_by_sums(marginal: Tensor, block: Tensor, blocks: int) -> Tensor:
    """The best suffix by prefix sums: cut where the sum before is least, as late as possible."""
    through = marginal.cumsum(0)
    before = through - marginal
    total = marginal.new_zeros(blocks).index_add_(0, block, marginal)
    opening = torch.ones_like(block, dtype=torch.bool)
    opening[1:] = block[1:] != block[:-1]
    start = marginal.new_zeros(blocks).index_copy_(0, block[opening], before[opening])
    before = before - start[block]
    least = total.scatter_reduce(0, block, before, "amin")  # "nobody moves" is the cut after the last member
    index = torch.arange(block.numel(), device=block.device)
    chosen = before == least[block]
    chosen &= (least < total)[block]
    start_of_suffix = torch.full_like(total, block.numel(), dtype=torch.int64)
    start_of_suffix.scatter_reduce_(0, block[chosen], index[chosen], "amax", include_self=False)
    return index >= start_of_suffix[block]


# ---------------------------------------------------------------- sign −1


def _by_rows(lists: Lists, reward: Tensor, gain: Gain, prune: bool = True) -> Tensor:
    """Row recursion over padded lists; the i-th step treats the i-th positive of every list at once."""
    answer = torch.zeros_like(lists.positive_list)
    if not lists.negatives.numel() or not answer.numel():
        return answer
    group, first = lists.positive_list, lists.first_positive
    bound = negatives_above(lists, strictly=True) if prune else lists.q[group]
    limit = to_rows(bound, group, first, lists.p, 0).cummax(1).values  # past a list's last positive: stay
    cells = limit.shape[0] * int((limit.amax(0) + 1).sum())
    if cells > MOST_CELLS:
        raise InputError(
            "sign",
            f"-1 with {cells:.1e} cells of the dynamic program to fill",
            f"at most {MOST_CELLS:.1e}",
            "Use sign=+1 (O(n log n)), smaller batches, or a model that is better already.",
        )
    scores = to_rows(lists.positives, group, first, lists.p, 0.0)
    negatives = to_rows(lists.negatives, lists.negative_list, lists.first_negative, lists.q, 0.0)
    prefix = torch.nn.functional.pad(negatives, (1, 0)).cumsum(1)
    best = _trace(_fill(scores, limit, prefix, reward, gain), limit, lists.p)
    return best[group, within(group, first)]


def _fill(scores: Tensor, limit: Tensor, prefix: Tensor, reward: Tensor, gain: Gain) -> list[Tensor]:
    """For each row i and each bound j: the best k ≤ j. Rows are as wide as the widest list still needs."""
    widths = (limit.amax(0) + 1).tolist()
    value = prefix.new_zeros((prefix.shape[0], 0))
    choices, row = [], 0
    while row < len(widths):
        # Bounds rise from row to row, so a block is as wide as its last row.
        height = max(1, BLOCK // (prefix.shape[0] * widths[min(row + 63, len(widths) - 1)]))
        rows = slice(row, min(row + min(height, 64), len(widths)))
        block = _terms(scores, limit, prefix[:, : widths[rows.stop - 1]], reward, gain, rows)
        for row_in_block, width in enumerate(widths[rows]):
            terms, filled = block[:, row_in_block, :width], value.shape[1]
            if filled:
                terms[:, :filled].add_(value)  # not +=, which would also copy the slice onto itself
                if width > filled:
                    terms[:, filled:].add_(value[:, -1:])
            value, chosen = terms.cummax(1)
            choices.append(chosen)
        row = rows.stop
    return choices


def _terms(scores: Tensor, limit: Tensor, prefix: Tensor, reward: Tensor, gain: Gain, rows: slice) -> Tensor:
    """``(b, rows, k)`` what each positive of a block of rows contributes with k negatives above it."""
    k = torch.arange(prefix.shape[1], dtype=prefix.dtype, device=prefix.device)
    rank = torch.arange(rows.start + 1, rows.stop + 1, dtype=prefix.dtype, device=prefix.device)
    terms = torch.addcmul(prefix[:, None], k, scores[:, rows, None], value=-1.0)
    terms = terms.addcmul_(gain.at(rank[:, None], k), reward[:, None, None])
    if len(limit) > 1:  # lists with a tighter bound than the widest
        terms = terms.masked_fill_(k > limit[:, rows, None], float("-inf"))
    return terms


def _trace(choices: list[Tensor], limit: Tensor, p: Tensor) -> Tensor:
    """Walk back from each list's last positive."""
    if limit.shape[0] == 1:
        j, path, bounds = int(limit[0, -1]), [], limit[0].tolist()
        for chosen, bound in zip(reversed(choices), reversed(bounds), strict=True):
            j = int(chosen[0, min(j, bound)])
            path.append(j)
        return limit.new_tensor(path[::-1])[None]
    best, now = torch.zeros_like(limit), limit[:, -1]
    for row in range(len(choices) - 1, -1, -1):
        here = choices[row].gather(1, torch.minimum(now, limit[:, row])[:, None]).squeeze(1).long()
        now = torch.where(row < p, here, now)
        best[:, row] = now
    return best


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
    lists, shape = _to_lists(positives, negatives, positives_where, negatives_where)
    epsilon, sign = checks.number("epsilon", epsilon, above=0), checks.one_of("sign", sign, SIGNS)
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
    lists, shape = _to_lists(positives, negatives, positives_where, negatives_where)
    epsilon, sign = checks.number("epsilon", epsilon, above=0), checks.one_of("sign", sign, SIGNS)
    p, q = lists.p.double(), lists.q.double()
    ranks = torch.arange(1, int(lists.p.max()) + 1 if p.numel() else 1, dtype=p.dtype, device=p.device)
    discounts = torch.cat((p.new_zeros(1), (1.0 / torch.log2(1.0 + ranks)).cumsum(0)))
    ideal = discounts[lists.p].clamp_min(1.0)  # a list without positives has nothing to place
    return _to_rows(interleave(lists, 0.5 * epsilon * p * q / ideal, DISCOUNT, sign), lists, shape)


def _to_lists(
    positives: Tensor, negatives: Tensor, positives_where: Tensor | None, negatives_where: Tensor | None
) -> tuple[Lists, torch.Size]:
    """The lists, and the shape that the positives came in."""
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
