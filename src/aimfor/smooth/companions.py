"""Anchors: softmax cross-entropy of lists and of classes, logistic loss of pairs and of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from ..engine import Number, number
from .form import LazyValue, SmoothForm, Softness, undefined_number
from .ranks import queried_items, sums_of
from .sums import DifferenceSums, blocks, bounded_scores, divided


def listwise_entropy(
    scores: Tensor, grades: Tensor, where: Tensor | None, shares: Tensor | None, *, ordered: bool = False
) -> tuple[Number, Tensor]:
    """``−Σ_lists share Σ_j (g_j / Σ g) log softmax(s)_j``, softmax cross-entropy of each list, and its gradient.

    A list whose items have all one grade says nothing about an order, and has no part in it.

    Args:
        scores: ``(b, l)``, detached.
        grades: ``(b, l)``, bool or numbers >= 0, 0 where an item does not count.
        where: ``(b, l)`` bool, the items that count; None for all of them.
        shares: ``(b,)`` float64 share of each list; None for one list that is all there is.
        ordered: It is known that such a list has more than one grade.

    Returns:
        The sum, and ``(b, l)``.

    Example:
        >>> import torch
        >>> from aimfor.smooth import listwise_entropy
        >>> found, slope = listwise_entropy(torch.zeros(1, 2), torch.tensor([[1, 0]]), None, torch.ones(1).double())
        >>> round(found, 4), slope.tolist()
        (0.6931, [[-0.5, 0.5]])
    """
    if not scores.numel():
        return 0.0, torch.zeros_like(scores)
    x = bounded_scores(scores)
    x = x if where is None else x.masked_fill(~where, -0.25 * torch.finfo(x.dtype).max)
    if shares is None and not x.is_cpu:
        shares = torch.ones(1, dtype=torch.float64, device=x.device)
    if len(x) == 1 and x.is_cpu:
        items = x.shape[1] if where is None else int(where.sum())
        return _entropy_of_one(x, grades, math.inf if ordered else items, 1.0 if shares is None else float(shares))
    assert shares is not None
    worth, size = grades.double(), x.shape[1] if where is None else where.sum(1, keepdim=True)
    total = worth.sum(1, keepdim=True)
    differ = (total > 0) & (total < worth.amax(1, keepdim=True) * size)
    share = shares[:, None] * differ
    target = (worth * (share / torch.where(differ, total, 1.0))).to(x)
    logs = torch.log_softmax(x, 1)
    return number(-(target * logs).sum(dtype=torch.float64)), torch.addcmul(-target, logs.exp(), share.to(x))


def _entropy_of_one(x: Tensor, grades: Tensor, size: float, share: float) -> tuple[Number, Tensor]:
    """The same for one list, whose sums are plain numbers; of infinite size if its grades are known to differ."""
    total = float(grades.sum(dtype=torch.float64))
    if not share or not total or (size < math.inf and total >= float(grades.amax()) * size):
        return 0.0, torch.zeros_like(x)
    target, logs = (grades * (share / total)).to(x), torch.log_softmax(x, 1)
    loss = -float((target * logs).sum(dtype=torch.float64))
    shares = logs.exp_()
    return loss, (shares if share == 1.0 else shares.mul_(share)).sub_(target)


def pairwise_logistic(scores: Tensor, positive: Tensor, negative: Tensor, shares: Tensor) -> tuple[Number, Tensor]:
    """``Σ_lists share mean_ij log(1 + exp(s_j − s_i))``, i a positive and j a negative of the list, and its gradient.

    Args:
        scores: ``(b, l)``, detached.
        positive: ``(b, l)`` bool.
        negative: The same; an item may be neither.
        shares: ``(b,)`` float64 share of each list; one without a pair adds nothing.

    Returns:
        The sum, and ``(b, l)``.

    Example:
        >>> import torch
        >>> from aimfor.smooth import pairwise_logistic
        >>> first = torch.tensor([[True, False]])
        >>> found, slope = pairwise_logistic(torch.zeros(1, 2), first, ~first, torch.ones(1).double())
        >>> round(found, 4), slope.tolist()
        (0.6931, [[-0.5, 0.5]])
    """
    queries = queried_items(positive)
    pairs = (positive.sum(1) * negative.sum(1)).double()
    each = (shares / pairs.clamp_min(1.0)).to(scores)[:, None].expand(-1, queries.positions.shape[1])
    weight = each if queries.there is None else each * queries.there
    return binary_logistic(weight, negative.to(scores), sums_of(scores, queries.positions))


def balanced_entropy(scores: Tensor, positive: Tensor, negative: Tensor) -> tuple[Number, Tensor]:
    """Mean over the rows of their logistic loss, in which positives together weigh as much as negatives.

    A row without positives, or without negatives, has no part in it.

    Args:
        scores: ``(b, l)``, detached.
        positive: ``(b, l)`` weight of each item as a positive.
        negative: The same as a negative.

    Returns:
        The mean, and ``(b, l)``, its gradient.

    Example:
        >>> import torch
        >>> from aimfor.smooth import balanced_entropy
        >>> found, slope = balanced_entropy(torch.zeros(1, 3), torch.tensor([[1, 0, 0]]), torch.tensor([[0, 1, 1]]))
        >>> round(found, 4), slope.tolist()
        (0.6931, [[-0.25, 0.125, 0.125]])
    """
    sizes = torch.cat((positive.sum(1, keepdim=True), negative.sum(1, keepdim=True)), 1)
    defined = (sizes > 0).all(1, keepdim=True)
    shares = 0.5 * defined / (torch.where(defined, sizes, 1.0) * defined.sum().clamp_min(1))
    up, down = shares.to(scores).split(1, 1)
    a, b = positive.to(scores) * up, negative.to(scores) * down
    weight, x = a + b, bounded_scores(scores)
    # a · softplus(−x) + b · softplus(x), as softplus(−x) = softplus(x) − x
    loss = (weight * functional.softplus(x) - a * x).sum(dtype=torch.float64)
    return number(loss), torch.addcmul(-a, weight, torch.sigmoid(x))


def binary_logistic(weight: Tensor, below: Tensor, sums: DifferenceSums) -> tuple[Number, Tensor]:
    """``Σ v_i w_j log(1 + exp(s_j − s_i))`` of all lists, and its gradient.

    Args:
        weight: ``(b, p)`` weight v of the queries; 0 for padding.
        below: ``(b, l)`` weight w of the items; 0 where an item is no j.
        sums: Of the scores.

    Returns:
        The sum, and ``(b, l)``.
    """
    masses, weights = below[..., None], weight[..., None]
    total = sums.weighed("softplus", masses, weights)
    return number(total), sums.gradient("sigmoid", masses, weights)


def graded_logistic(
    scores: Tensor, positions: Tensor, weight: Tensor, grades: Tensor, mass: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Per list, ``Σ (g_i − g_j)₊ v_i w_j log(1 + exp(s_j − s_i))``, its gradient, and the sum of the weights.

    Args:
        scores: ``(b, l)``, detached.
        positions: ``(b, p)`` positions of the items i; every item above the lowest grade.
        weight: ``(b, p)`` weight v of the items i; 0 for padding.
        grades: ``(b, l)``.
        mass: ``(b, l)`` weight w of each item, 0 where it does not count.

    Returns:
        ``(b,)``, ``(b, l)``, ``(b,)``.
    """
    scores = bounded_scores(scores)
    own, grade = scores.gather(1, positions), grades.gather(1, positions)
    total, weights = (scores.new_zeros(len(scores), dtype=torch.float64) for _ in range(2))
    of_items, of_queries = torch.zeros_like(scores), torch.zeros_like(own)
    for rows, some in blocks(positions, scores.shape[1]):
        gap = scores[rows, None, :] - own[rows, some, None]
        share = (grade[rows, some, None] - grades[rows, None, :]).clamp_min_(0.0)
        share.mul_(weight[rows, some, None]).mul_(mass[rows, None, :])
        total[rows] += (share * functional.softplus(gap)).sum((1, 2), dtype=torch.float64)
        weights[rows] += share.sum((1, 2), dtype=torch.float64)
        steep = share.mul_(gap.sigmoid_())
        of_items[rows] += steep.sum(1)
        of_queries[rows, some] = steep.sum(2)
    return total, of_items.scatter_add_(1, positions, -of_queries), weights


@dataclass(frozen=True)
class ByClasses(SmoothForm):
    """A metric of the ranks of several classes, with softmax cross-entropy for its anchor.

    Attributes:
        scores: ``(n, c)``, attached to the graph.
        form: The metric itself.
        targets: ``(n,)`` class ids.
        mass: ``(n,)``, or None for ones.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.AUCMu()
        >>> batch = metric.check(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1]))
        >>> type(metric.smooth_form(batch)).__name__
        'ByClasses'
    """

    scores: Tensor
    form: SmoothForm
    targets: Tensor
    mass: Tensor | None

    def spread(self) -> Number:
        return self.form.spread()

    def holds(self, softness: Softness) -> tuple[str, ...]:
        return self.form.holds(softness) if softness.anchor < 1.0 else ()

    def loss(self, softness: Softness) -> tuple[Tensor, LazyValue, Tensor | None]:
        share = softness.anchor
        if share == 1.0:
            with torch.no_grad():
                loss, value = self.scores, self.form.lazy_value(softness)
        else:
            loss, value, _ = self.form.loss(replace(softness, anchor=0.0))
        if not share or undefined_number(value):
            return self.scores.sum() * 0.0 if undefined_number(value) else loss, value, None
        tempered = divided(self.scores, softness.anchor_temperature)
        if self.mass is None:
            entropy = functional.cross_entropy(tempered, self.targets)
        else:
            each = functional.cross_entropy(tempered, self.targets, reduction="none")
            entropy = (each * (self.mass / self.mass.sum())).sum()
        return entropy if share == 1.0 else (1.0 - share) * loss + share * entropy, value, None
