"""Rankings of lists as argmax forms: average precision by its pairs, discounted gains by their positions.

Discounted gains of graded lists need one sort. Score a ranking by its positions instead of its pairs, with the metric's
own discount D:

    F(π) = Σ_i D(π_i) φ_i / Σ_r D(r),        1 − NDCG(π) = 1 − Σ_i D(π_i) g_i / ideal.

F is largest when the list is sorted by φ (rearrangement inequality), so the prediction is the usual one. Both sums are
linear in the *same* discounts, hence

    F + sign ε Δ = const + Σ_i D(π_i) (φ_i / Σ D − sign ε g_i / ideal),

which is again largest for a sorted list: sorted by ``φ_i − sign · ε · ΣD · g_i / ideal``. Exact for any number of
grades, for both signs and for NDCG@k, in O(l log l), where Song's pairwise score needs an interleaving for two grades
and has no known exact method for more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from ...ordering import ordered, shared_worth
from ..engine import LinearForm
from ..interleave import PRECISION, interleave
from ..lists import Rows, Sorted, last_of_ties, mean_over_ties, negatives_above, positives_above, sort_lists, to_rows

#: Up to this many pairs in every list the dynamic program of sign −1 is cheap, and both signs are the default.
SHORT = 4096


class RankingForm(LinearForm):
    """1 − average precision over the pairs of each list, and the mean over lists.

    ``F(y) = Σ_lists weight · mean over pairs of y_ij (φ_i − φ_j)``. An output is described by ``n_i``, the negatives
    above each positive: positive i has the coefficient ``(q − 2 n_i) / (p q)`` and negative j, with ``m_j``
    positives above it, ``(p − 2 m_j) / (p q)``. Pairs tied in score count half in the prediction, and examples
    tied in score share the augmented coefficients, so the gradient does not depend on the order of the batch.

    Args:
        rows: Scores and classes of the lists.
        share: ``(b,)`` weight of each list in the mean, summing to 1; 0 for lists that are undefined.
        measure: The metric's own definition, of ``(b, positives)`` tables: 1 for each positive (0 for padding), the
            positives at or above it, and all items at or above it.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.AveragePrecision()
        >>> form = metric.argmax_form(metric.check(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 1])))
        >>> type(form).__name__, round(float(form.loss()), 4)
        ('RankingForm', 0.1667)
    """

    def __init__(self, rows: Rows, share: Tensor, measure: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        self.scores = rows.scores
        self._rows = rows
        self._share = share.double()
        self._measure = measure

    @cached_property
    def _sorted(self) -> Sorted:
        return sort_lists(self._rows.scores, self._rows.positive, self._rows.where)

    @cached_property
    def _not_below(self) -> Tensor:
        return negatives_above(self._sorted.lists, strictly=False)

    def loss(self) -> Tensor:
        """The metric's exact value, from the sort that inference needs anyway (half the cost of a step)."""
        lists = self._sorted.lists
        hits = last_of_ties(lists.rank(), lists.positives, lists.positive_list).double()
        return 1.0 - self._measure(
            *(self._table(counts) for counts in (torch.ones_like(hits), hits, hits + self._not_below))
        )

    def _table(self, values: Tensor) -> Tensor:
        lists = self._sorted.lists
        if lists.p.numel() == 1:
            return values[None]
        return to_rows(values, lists.positive_list, lists.first_positive, lists.p, 0.0)

    def truth(self) -> Tensor:
        return self._coefficients(torch.zeros_like(self._sorted.lists.positives))

    def predict(self) -> Tensor:
        lists = self._sorted.lists
        lost, lost_or_tied = negatives_above(lists, strictly=True), self._not_below
        won, won_or_tied = positives_above(lost_or_tied, lists), positives_above(lost, lists)
        return self._coefficients(0.5 * (lost + lost_or_tied), 0.5 * (won + won_or_tied))

    def augment(self, epsilon: float, sign: int) -> Tensor:
        lists = self._sorted.lists
        n = interleave(lists, 0.5 * epsilon * lists.q.double(), PRECISION, sign)
        m = positives_above(n, lists).double()
        n = mean_over_ties(n.double(), lists.positives, lists.positive_list)
        return self._coefficients(n, mean_over_ties(m, lists.negatives, lists.negative_list))

    @property
    def sign(self) -> int | str:  # type: ignore[override]
        lists = self._sorted.lists
        return "both" if int((lists.p * lists.q).amax()) <= SHORT else 1

    def auto_epsilon(self) -> float:
        """The root of the scores' deviation, times the mean of ``r²/(i q)`` over the positives, r the rank of the i-th.

        At rank r with i positives a pair changes places when it is closer than ``ε q i / (2 r²)``: what a given ε can
        reach depends on how rare the positives are and on how deep they stand; for scores of deviation 1 it is a half.
        Two things keep it from shrinking to nothing as training succeeds. The root lets scores outgrow ε, which a
        multiple of their deviation never allows. And where positives stand on top already, a third of the root of
        ``n²/(2 p q)``, the depth of a random order, stays as a margin.
        """
        lists = self._sorted.lists
        if not lists.positives.numel():
            return 0.0
        rank = lists.rank().double()
        depth = (rank + self._not_below).square() / (rank * lists.q.clamp_min(1)[lists.positive_list])
        p, q = lists.p.double(), lists.q.double()
        random = ((p + q).square() / (2.0 * p * q).clamp_min(1.0))[lists.p > 0].mean()
        deviation = torch.cat((lists.positives, lists.negatives)).std(correction=0)
        return float(deviation.sqrt() * torch.maximum(depth.mean(), random.sqrt() / 3.0))

    def _coefficients(self, n: Tensor, m: Tensor | None = None) -> Tensor:
        lists = self._sorted.lists
        p, q = lists.p.double(), lists.q.double()
        scale = self._share / (p * q).clamp_min(1.0)
        of_positive, of_negative = lists.positive_list, lists.negative_list
        result = torch.zeros(self.scores.numel(), dtype=torch.float64, device=self.scores.device)
        result[self._sorted.positive_at] = scale[of_positive] * (q[of_positive] - 2.0 * n)
        above = p[of_negative] if m is None else m
        result[self._sorted.negative_at] = scale[of_negative] * (p[of_negative] - 2.0 * above)
        return result.reshape(self.scores.shape).to(self.scores.dtype)


class PositionForm(LinearForm):
    """1 − NDCG of each list, and the mean over lists. Items with equal keys share their places' mean discount.

    Args:
        scores: ``(b, l)``, attached to the graph.
        gains: ``(b, l)`` float64, each list divided by its ideal discounted gain; 0 where masked or undefined.
        discounts: ``(l,)`` float64, never rising.
        where: ``(b, l)`` bool or None.
        share: ``(b,)`` weight of each list in the mean, summing to 1; all 0 where no list is defined.
        first: The discounts are 1 for so many places and 0 beyond, which needs no sort; None where they are others.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.NDCG()
        >>> form = metric.argmax_form(metric.check(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 1])))
        >>> type(form).__name__, round(float(form.loss()), 4)
        ('PositionForm', 0.1403)
    """

    def __init__(
        self,
        scores: Tensor,
        gains: Tensor,
        discounts: Tensor,
        where: Tensor | None,
        share: Tensor,
        first: int | None = None,
    ) -> None:
        self._gains, self._discounts, self._where, self._first = gains, discounts, where, first
        self._share = share.double()
        # The prediction is the order by score, whose discounts make the exact value too.
        self._predicted = self._discounted(scores.detach())
        value = ((gains * self._predicted).sum(1) * self._share).sum()
        super().__init__(scores, 1.0 - torch.where(self._share.any(), value, torch.nan))
        self._unit = self._sums().clamp_min(1.0)  # ΣD over a list's own length; D(1) = 1

    def _sums(self) -> Tensor:
        """``(b,)`` float64: the sum of the discounts of as many places as a list has items."""
        if self._where is None:
            return self._discounts.sum().expand(len(self._gains))
        sizes = self._where.sum(1)
        return torch.cat((self._discounts.new_zeros(1), self._discounts.cumsum(0)))[sizes]

    def predict(self) -> Tensor:
        return self._scaled(self._predicted)

    def augment(self, epsilon: float, sign: int) -> Tensor:
        shift = sign * epsilon * self._unit[:, None] * self._gains
        return self._coefficients(self.scores.detach().double() - shift)

    def truth(self) -> Tensor:
        """The ideal order; items of one grade in the order of their scores, which is the nearest ideal order."""
        by_score = self._masked(self.scores.detach().double()).argsort(stable=True, dim=1, descending=True)
        by_gain = self._masked(self._gains).gather(1, by_score).argsort(stable=True, dim=1, descending=True)
        order = by_score.gather(1, by_gain)
        ranks = torch.arange(order.shape[1], 0, -1, device=order.device).expand_as(order)
        return self._coefficients(torch.zeros_like(self._gains).scatter_(1, order, ranks.double()))

    def auto_epsilon(self) -> float:
        """Relevant items move by ``ε · ΣD · gain / ideal``: on average by two standard deviations of the scores."""
        scores = self.scores.detach() if self._where is None else self.scores.detach()[self._where]
        moved = (self._unit[:, None] * self._gains)[self._gains > 0]
        if not scores.numel() or not moved.numel():
            return 0.0
        return 2.0 * float(scores.double().std(correction=0)) / float(moved.mean())

    def _masked(self, keys: Tensor) -> Tensor:
        return keys if self._where is None else keys.masked_fill(~self._where, -torch.inf)

    def _coefficients(self, keys: Tensor) -> Tensor:
        """The discount of each item's place when ranked by ``keys``, scaled as in F."""
        return self._scaled(self._discounted(keys))

    def _discounted(self, keys: Tensor) -> Tensor:
        keys = self._masked(keys)
        return shared_discounts(keys, self._discounts) if self._first is None else shared_first(keys, self._first)

    def _scaled(self, discount: Tensor) -> Tensor:
        if self._where is not None:
            discount = discount * self._where
        return (discount * (self._share / self._unit)[:, None]).to(self.scores.dtype)


def shared_discounts(keys: Tensor, discounts: Tensor) -> Tensor:
    """``(b, l)`` mean discount of the places that each item's tie takes up, highest key first."""
    descending, order = ordered(keys, descending=True)
    mean = shared_worth(descending, discounts)
    return torch.empty_like(keys, dtype=mean.dtype).scatter_(1, order, mean)


def shared_first(keys: Tensor, first: int) -> Tensor:
    """`shared_discounts` where so many places are worth 1 and the others 0: the tie at the last of them shares it."""
    if first >= keys.shape[1]:
        return torch.ones_like(keys, dtype=torch.float64)
    last = keys.topk(first, dim=1).values[:, -1:]
    above, tied = (keys > last).double(), (keys == last).double()
    return torch.addcmul(above, tied, (first - above.sum(1, keepdim=True)) / tied.sum(1, keepdim=True))
