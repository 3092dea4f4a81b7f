"""How loudly each member speaks: non-negative weights of the members, chosen by the exact metric on out-of-fold rows.

All from member scores on a common scale ``(m, n)`` or ``(m, n, c)`` to weights ``(m,)`` that sum to 1:

- `average`: all alike.
- `greedy`: the member that helps the metric most is added, again and again, members as often as they help.
- `bagged`: the mean of greedy choices on bootstrap draws of the rows. Where draws agree it is greedy; where they do not
  it is close to the average, so twenty positives cannot decide alone.
- `steady`, what ensembles use: `bagged` by a calmer judge for metrics of decisions, pulled to the average where a class
  is rare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ...metrics import AUROC, AveragePrecision
from ...metrics.at_rate import AtRate
from ...metrics.lists import sorted_lists
from ...targets.folds import informative_lists, rows_of_each
from ...targets.objective import Objective

#: Members added one after another.
ROUNDS = 20
#: Bootstrap draws, and how many of many rows: draws of a large table agree anyway.
DRAWS, DRAWS_OF_MANY, MANY = 12, 6, 5_000
#: Rows a draw has at most; more would cost time and decide nothing.
DRAWN_AT_MOST = 20_000
#: Rows of the rarest class with which choice and plain average have the same say.
ROWS_TO_TRUST = 100


class Judge:
    """The metric of any mixture of the members on the same rows.

    Args:
        objective: The metric. One of decisions is judged at its best threshold, as the ensemble will decide.
        scores: ``(m, n)`` or ``(m, n, c)``.
        y: Class ids ``(n,)``, or grades.
        weights: Of the rows, or None.
        lists: The list of each row, for metrics of ranked lists; None for all other tables.
    """

    def __init__(
        self,
        objective: Objective,
        scores: Tensor,
        y: Tensor,
        weights: Tensor | None = None,
        lists: Tensor | None = None,
    ) -> None:
        self.objective, self.scores, self.y, self.weights, self.lists = objective, scores, y, weights, lists

    def value(self, mixture: Tensor) -> float:
        """Of mixed scores ``(n,)`` or ``(n, c)``; minus infinity where the metric is undefined."""
        value = self.objective.best(mixture, self.y, self.weights, self.lists)
        return value if math.isfinite(value) else -math.inf

    def values(self, mixtures: Tensor) -> list[float]:
        """Of many mixtures ``(k, n)`` or ``(k, n, c)``: in one pass where the metric has one."""
        if self.weights is None and self.lists is None and side_by_side(self.objective):
            values = values_of(self.objective, mixtures, self.y)
            return [value if math.isfinite(value) else -math.inf for value in values]
        return [self.value(mixture) for mixture in mixtures]

    def of(self, shares: Tensor) -> float:
        return self.value(mixed(self.scores, shares))

    def drawn(self, rows: Tensor, lists: Tensor | None = None) -> Judge:
        """On these rows; ``lists`` are their lists where a list was drawn more than once."""
        weights = None if self.weights is None else self.weights[rows]
        if lists is None and self.lists is not None:
            lists = self.lists[rows]
        return Judge(self.objective, self.scores[:, rows], self.y[rows], weights, lists)

    def draws(self, seed: int) -> Iterator[Judge]:
        """Bootstrap draws: of the rows class by class, or of whole lists."""
        count = DRAWS if len(self.y) < MANY else DRAWS_OF_MANY
        if self.lists is None:
            yield from (self.drawn(rows) for rows in bootstrap(self.y, count, seed))
        else:
            yield from (self.drawn(*pair) for pair in bootstrap_lists(self.lists, self.y, count, seed))

    @property
    def rarest(self) -> int:
        """What a choice can lean on: rows of the rarest class, or lists whose rows differ in grade."""
        if self.lists is not None:
            return len(informative_lists(self.lists, self.y))
        return int(self.y.unique(return_counts=True)[1].min())


def mixed(scores: Tensor, shares: Tensor) -> Tensor:
    """``Σ share · score`` over the members, one after another: the same for a row whatever rows stand beside it."""
    total = torch.zeros_like(scores[0])
    for share, score in zip(shares.to(scores.dtype), scores, strict=True):
        total = total + share * score
    return total


def average(judge: Judge) -> Tensor:
    members = len(judge.scores)
    return torch.full((members,), 1.0 / members, dtype=torch.float64)


def greedy(judge: Judge, rounds: int = ROUNDS) -> Tensor:
    """Selection with replacement; the best mixture on the way is kept, the shortest of equals."""
    members = len(judge.scores)
    counts, total = torch.zeros(members, dtype=torch.float64), torch.zeros_like(judge.scores[0])
    best, kept = -math.inf, average(judge)
    for taken in range(1, rounds + 1):
        values = judge.values((total + judge.scores) / taken)
        choice = max(range(members), key=values.__getitem__)
        if values[choice] == -math.inf:
            return kept
        counts[choice] += 1
        total = total + judge.scores[choice]
        if values[choice] > best + 1e-12:
            best, kept = values[choice], counts / counts.sum()
    return kept


def bagged(judge: Judge, seed: int = 0) -> Tensor:
    """The mean of greedy choices, each on its own bootstrap draw."""
    total = torch.zeros(len(judge.scores), dtype=torch.float64)
    for drawn in judge.draws(seed):
        total += greedy(drawn, rounds=8)
    return total / total.sum()


def steady(judge: Judge, seed: int = 0) -> Tensor:
    """``bagged`` by a judge that few rows cannot sway, pulled towards the average where a class is rare.

    F1 and rates under a floor hang on a handful of rows near one threshold, and greedy weights follow that luck;
    average precision asks the same of the whole order. With r rows of the rarest class the pull is ``100 / (r + 100)``.
    """
    if len(judge.scores) == 1:
        return average(judge)
    objective = judge.objective
    if objective.needs_threshold or isinstance(objective.metric, AtRate):
        objective = Objective.of("ap")
    calm = Judge(objective, judge.scores, judge.y, judge.weights, judge.lists)
    trust = judge.rarest / (judge.rarest + ROWS_TO_TRUST)
    return trust * bagged(calm, seed) + (1.0 - trust) * average(judge)


def bootstrap(y: Tensor, draws: int, seed: int) -> list[Tensor]:
    """Row numbers of each draw, class by class, so that no draw lacks a class."""
    generator = torch.Generator().manual_seed(seed)
    groups = rows_of_each(y)
    share = min(1.0, DRAWN_AT_MOST / len(y))
    sizes = [max(1, round(share * len(group))) for group in groups]
    return [
        torch.cat(
            [
                group[torch.randint(len(group), (size,), generator=generator)]
                for group, size in zip(groups, sizes, strict=True)
            ]
        )
        for _ in range(draws)
    ]


def bootstrap_lists(lists: Tensor, y: Tensor, draws: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Rows of lists drawn with replacement, with new list numbers: a list drawn twice is two lists.

    Lists of one grade are the same in any order and are not drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    informative = torch.isin(lists.unique(), informative_lists(lists, y)).tolist()
    rows_of = [rows for rows, tells in zip(rows_of_each(lists), informative, strict=True) if tells]
    drawn = []
    for _ in range(draws):
        chosen = [rows_of[draw] for draw in torch.randint(len(rows_of), (len(rows_of),), generator=generator).tolist()]
        sizes = torch.tensor([len(rows) for rows in chosen])
        drawn.append((torch.cat(chosen), torch.arange(len(chosen)).repeat_interleave(sizes)))
    return drawn


def side_by_side(objective: Objective) -> bool:
    """Whether `values_of` knows the metric: average precision and the whole AUROC of rows."""
    whole = isinstance(objective.metric, AUROC) and objective.metric.max_fpr in (None, 1.0)
    return whole or (isinstance(objective.metric, AveragePrecision) and not objective.ranked)


def values_of(objective: Objective, mixtures: Tensor, y: Tensor) -> list[float]:
    """What `Objective.value` gives for each row of ``(candidates, n)`` float64 scores, to the last bit.

    Both metrics are sums over places in the sorted rows, of whole counts that float64 holds exactly.

    Example:
        >>> scores = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
        >>> values_of(Objective.of("auroc"), scores, torch.tensor([1, 0, 0]))
        [1.0, 0.0]
    """
    positives = int((y > 0).sum())
    negatives = len(y) - positives
    order, last = sorted_lists(mixtures)
    hit = (y > 0).double()[order]
    hits = hit.cumsum(1).gather(1, last)
    if isinstance(objective.metric, AUROC):
        if not positives or not negatives:
            return [float("nan")] * len(mixtures)
        # A negative is beaten by the positives above its tie, and half beaten by those inside.
        inside = torch.zeros_like(hit).scatter_add(1, last, hit).gather(1, last)
        won = ((1.0 - hit) * (2.0 * hits - inside)).sum(1)
        return list((won / (2.0 * positives * negatives)).tolist())
    if not positives:
        return [float("nan")] * len(mixtures)
    values: list[float] = ((hit * (hits / (last + 1))).sum(1) / positives).tolist()
    return values
