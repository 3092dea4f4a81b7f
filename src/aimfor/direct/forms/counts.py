"""Decisions whose loss depends on the counts (tp, fp) alone: exact loss-augmented inference by counts.

``F(y) = mean_i y_i φ_i`` with ``y_i ∈ {0, 1}`` and φ the score above the threshold. Whatever the metric, the best
labelling with a true and b false positives takes the a best positives and the b best negatives, so the problem is

    max over (a, b) of   A[a] + B[b] − sign · ε n · metric(a, b),       A, B: prefix sums of the sorted scores.

* Any metric: the whole table, in blocks of bounded size. O(p q) time.
* A metric that never falls with tp, never rises with fp, and is convex in fp (sign +1) or concave in tp (sign −1)
  needs one bisection per row: for each a the best b, or for each b the best a. O(n log n), and F_β, IoU, accuracy
  and balanced accuracy are all of this kind. Moreover a ≤ its value in the prediction and b ≥ its for sign +1 (the
  reverse for sign −1), since any other choice loses both score and loss.

In both, ``F(y) ≥ F(y_w) − ε · span`` for the best y, where span is the range of the metric: counts that give up more
than that are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..engine import LinearForm
from ..lists import Lists, Rows, Sorted, mean_over_ties, sort_lists, within

#: Cells of one block of the table: 8 MB for each temporary.
BLOCK = 1 << 20


@dataclass(frozen=True)
class CountRule:
    """A metric of the counts, and what is known about its shape.

    Attributes:
        measure: Maps float64 (tp, fp, fn, tn) that broadcast to the metric; NaN counts as 0.
        convex_in_fp: Convex and never rising in fp, never falling in tp (then sign +1 is O(n log n)).
        concave_in_tp: Concave and never falling in tp, never rising in fp (then sign −1 is O(n log n)).
        span: Largest minus smallest value, or None if unknown.

    Example:
        >>> from aimfor.direct import CountRule
        >>> CountRule(lambda tp, fp, fn, tn: tp / (tp + fp + fn)).measure(2.0, 1.0, 1.0, 5.0)
        0.5
    """

    measure: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    convex_in_fp: bool = False
    concave_in_tp: bool = False
    span: float | None = None

    def worth(self, tp: Tensor, fp: Tensor, p: Tensor, q: Tensor) -> Tensor:
        """The metric with a given number of positives and negatives."""
        return self.measure(tp, fp, p - tp, q - fp).nan_to_num(nan=0.0)

    def needs_positives(self, negatives: Tensor) -> bool:
        """Whether no decision on so many negatives alone changes the metric (F_β and IoU: 0, or 0/0)."""
        fp = negatives * torch.linspace(0.0, 1.0, 33, dtype=torch.float64, device=negatives.device)
        none = torch.zeros_like(fp)
        values = self.measure(none, fp, none, negatives - fp)
        values = values[~values.isnan()]
        return not values.numel() or bool((values == values[0]).all())


class CountForm(LinearForm):
    """1 − metric of the counts in each row (an image, a class, a batch), and the mean over rows.

    Entries tied in score share the augmented decision, so the gradient does not depend on their order.

    Args:
        rows: Scores above the threshold, and classes.
        share: ``(b,)`` weight of each row in the mean, summing to 1; 0 for rows that are undefined.
        loss: The exact 1 − metric.
        rule: The metric.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.FBeta(1.0)
        >>> form = metric.argmax_form(metric.check(torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1, 1, 0])))
        >>> type(form).__name__, round(float(form.loss()), 4)
        ('CountForm', 0.5)
    """

    def __init__(self, rows: Rows, share: Tensor, loss: Tensor, rule: CountRule) -> None:
        super().__init__(rows.scores, loss)
        self._rows = rows
        self._share = share.double()
        self._rule = rule
        #: ε and what both signs share at that ε.
        self._prepared: tuple[float, tuple[_Side, _Side]] | None = None

    @cached_property
    def _sorted(self) -> Sorted:
        return sort_lists(self._rows.scores, self._rows.positive, self._rows.where)

    def loss(self) -> Tensor:
        """NaN also where no row that counts has a positive and the metric cannot be changed without one."""
        entries = self._rows.counted() & (self._share > 0)[:, None]
        if bool((self._rows.positive & entries).any()):
            return self._loss
        negatives = entries.sum().double()
        return self._loss.new_tensor(torch.nan) if self._rule.needs_positives(negatives) else self._loss

    def predict(self) -> Tensor:
        return self._coefficients((self._rows.scores > 0) & self._rows.counted())

    def truth(self) -> Tensor:
        return self._coefficients(self._rows.positive & self._rows.counted())

    def augment(self, epsilon: float, sign: int) -> Tensor:
        lists = self._sorted.lists
        reward = epsilon * (lists.p + lists.q).double()
        if self._prepared is None or self._prepared[0] != epsilon:
            self._prepared = (epsilon, _sides(lists, reward, self._rule.span))
        tp, fp = best_counts(lists, reward, sign, self._rule, self._prepared[1])
        decided = torch.zeros(self.scores.numel(), dtype=torch.float64, device=self.scores.device)
        for at, scores, group, first, count in (
            (self._sorted.positive_at, lists.positives, lists.positive_list, lists.first_positive, tp),
            (self._sorted.negative_at, lists.negatives, lists.negative_list, lists.first_negative, fp),
        ):
            chosen = (within(group, first) < count[group]).double()
            decided[at] = mean_over_ties(chosen, scores, group)
        return self._coefficients(decided.reshape(self.scores.shape))

    def _coefficients(self, decided: Tensor) -> Tensor:
        size = self._rows.sizes().clamp_min(1)
        return (decided * (self._share / size)[:, None]).to(self.scores.dtype)


def best_counts(
    lists: Lists, reward: Tensor, sign: int, rule: CountRule, sides: tuple[_Side, _Side] | None = None
) -> tuple[Tensor, Tensor]:
    """The best (tp, fp) of every row, ``(b,)`` each, for ``reward`` ``(b,)``, ε times the number of entries."""
    up, down = sides or _sides(lists, reward, rule.span)
    if sign > 0 and rule.convex_in_fp:
        return _search(up, down, reward, -1.0, rule.worth)
    if sign < 0 and rule.concave_in_tp:
        fp, tp = _search(down, up, reward, 1.0, lambda fp, tp, q, p: rule.worth(tp, fp, p, q))
        return tp, fp
    return _table(up, down, reward, -float(sign), rule)


@dataclass(frozen=True)
class _Side:
    """One class of every row: sorted scores, their prefix sums, and the counts that can be optimal.

    ``gains[first + k]`` is what the k-th entry adds (a closing 0 in each row), ``sums[first + k]`` the sum of the
    best k.
    """

    gains: Tensor
    sums: Tensor
    first: Tensor
    size: Tensor
    predicted: Tensor
    least: Tensor
    most: Tensor


def _sides(lists: Lists, reward: Tensor, span: float | None) -> tuple[_Side, _Side]:
    allowed = reward * (float("inf") if span is None else span * (1 + 1e-9))
    return (
        _side(lists.positives, lists.positive_list, lists.p, allowed),
        _side(lists.negatives, lists.negative_list, lists.q, allowed),
    )


def _side(scores: Tensor, group: Tensor, size: Tensor, allowed: Tensor) -> _Side:
    b = size.numel()
    number = torch.arange(b, device=size.device)
    first = size.cumsum(0) - size + number
    gains = scores.new_zeros(scores.numel() + b)
    at = torch.arange(scores.numel(), device=size.device) + group
    gains[at] = scores
    through = gains.cumsum(0) - gains
    sums = through - through[first].repeat_interleave(size + 1)
    row = number.repeat_interleave(size + 1)
    position = within(row, first)
    above = (gains > 0) & (position < size[row])
    predicted = torch.zeros_like(size).index_add_(0, row, above.long())
    # Prefix sums rise to the predicted count and fall after it, so the counts that may be optimal are one interval.
    kept = (sums[(first + predicted)][row] - sums <= allowed[row]).long()
    before = kept * (position < predicted[row])
    after = kept * (position > predicted[row])
    least = predicted - torch.zeros_like(size).index_add_(0, row, before)
    most = predicted + torch.zeros_like(size).index_add_(0, row, after)
    return _Side(gains, sums, first, size, predicted, least, most)


Worth = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _search(outer: _Side, inner: _Side, reward: Tensor, factor: float, worth: Worth) -> tuple[Tensor, Tensor]:
    """Maximise ``sums + factor · reward · worth`` over outer ≤ predicted and, by bisection, inner ≥ predicted."""
    candidates = outer.predicted - outer.least + 1
    row = torch.arange(candidates.numel(), device=candidates.device).repeat_interleave(candidates)
    chosen = outer.least[row] + within(row, candidates.cumsum(0) - candidates)
    low, high = inner.predicted[row], inner.most[row]
    weight, first = factor * reward[row], inner.first[row]
    outer_size, inner_size = outer.size[row].double(), inner.size[row].double()
    count = chosen.double()
    steps = int((inner.most - inner.predicted).max()).bit_length() if candidates.numel() else 0
    for _ in range(steps):
        middle = (low + high) >> 1
        now = middle.double()
        change = worth(count, now + 1.0, outer_size, inner_size) - worth(count, now, outer_size, inner_size)
        more = (inner.gains.index_select(0, first + middle) + weight * change > 0) & (low < high)
        low = torch.where(more, middle + 1, low)
        high = torch.where(more, high, torch.minimum(high, middle))
    value = outer.sums[outer.first[row] + chosen] + inner.sums[first + low]
    value = value + weight * worth(count, low.double(), outer_size, inner_size)
    best = _first_of_best(value, row, candidates.numel())
    return chosen[best], low[best]


def _first_of_best(value: Tensor, row: Tensor, rows: int) -> Tensor:
    """Where each row's largest value stands first; every row has one."""
    if rows == 1:
        return value.argmax()[None]
    top = torch.full((rows,), float("-inf"), dtype=value.dtype, device=value.device)
    top = top.scatter_reduce(0, row, value, "amax")
    hit = (value == top[row]).nonzero().squeeze(1)
    index = torch.full((rows,), value.numel(), dtype=torch.int64, device=value.device)
    return index.scatter_reduce(0, row[hit], hit, "amin")


def _table(up: _Side, down: _Side, reward: Tensor, factor: float, rule: CountRule) -> tuple[Tensor, Tensor]:
    """The argmax over each row's table of counts, block by block."""
    answers = [_table_of_row(up, down, row, float(reward[row]) * factor, rule) for row in range(up.size.numel())]
    both = up.size.new_tensor(answers).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _table_of_row(up: _Side, down: _Side, row: int, weight: float, rule: CountRule) -> tuple[int, int]:
    a, up_sums = _window(up, row)
    b, down_sums = _window(down, row)
    p, q = up.size[row].double(), down.size[row].double()
    best, answer = -float("inf"), (0, 0)
    height = max(1, BLOCK // b.numel())
    for start in range(0, a.numel(), height):
        block = slice(start, start + height)
        value = up_sums[block, None] + down_sums + weight * rule.worth(a[block, None], b[None], p, q)
        top = int(value.argmax())
        if float(value.view(-1)[top]) > best:
            best = float(value.view(-1)[top])
            answer = (int(a[start + top // b.numel()]), int(b[top % b.numel()]))
    return answer


def _window(side: _Side, row: int) -> tuple[Tensor, Tensor]:
    least, most, first = int(side.least[row]), int(side.most[row]), int(side.first[row])
    counts = torch.arange(least, most + 1, dtype=side.sums.dtype, device=side.sums.device)
    return counts, side.sums[first + least : first + most + 1]
