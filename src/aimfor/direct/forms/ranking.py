"""Average precision of ranked lists as an argmax form."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

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
