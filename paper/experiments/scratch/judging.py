"""The metric on the judging rows, with checkpoint and threshold by the rows to choose with; and at threshold 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from aimfor.metrics import CountMetric, Metric, MultiLabel, PairwiseFBeta, metric_from_name
from aimfor.targets.objective import Objective

from .loop import Look
from .problems import Problem

#: Metrics of one score (a batch of rows is one list to those of lists), of classes, and of labels.
OF_ONE = (
    "f1", "fbeta=2", "iou", "accuracy", "balanced_accuracy", "auroc", "ap", "ndcg", "ndcg@10", "map@r", "r_precision",
    "precision@1", "mrr", "precision@recall=0.8", "recall@precision=0.9", "tpr@fpr=0.1", "auprc@10",
)  # fmt: skip
#: Metrics of the first places, which one long list says little about: judged in lists of so many rows. Ten lists say
#: little as well (one of them is ten points of precision@1), so the rows are dealt to lists so many times.
OF_FIRST_PLACES, LENGTH, DEALS = ("ndcg@10", "precision@1", "mrr"), 100, 20
OF_CLASSES = ("auroc_ovr", "auc_mu", "f1_macro", "f1_micro", "pairwise_f1")
OF_LABELS = ("multilabel_ap", "multilabel_auroc", "multilabel_f1", "multilabel_f1_micro", "multilabel_f1_samples")
NAMES = (*OF_ONE, *OF_CLASSES, *OF_LABELS)


def names_for(problem: str) -> tuple[str, ...]:
    return OF_CLASSES if problem.endswith(" 10") else OF_LABELS if problem.endswith(" labels") else OF_ONE


def judge(name: str, looks: Sequence[Look], problem: Problem) -> dict[str, float]:
    """``tuned``, and ``at 0`` for metrics of decisions."""
    value, tune = rules(name)
    y_choose, y_judge = problem.choose[1], problem.judge[1]
    moved = [tune(choose, y_choose) for choose, _ in looks]
    best = _best(value(choose - shift, y_choose) for (choose, _), shift in zip(looks, moved, strict=True))
    found = {"tuned": value(looks[best][1] - moved[best], y_judge)}
    if decides(metric_from_name(name)):
        first = _best(value(choose, y_choose) for choose, _ in looks)
        found["at 0"] = value(looks[first][1], y_judge)
    return found


def decides(metric: Metric) -> bool:
    """Whether the metric has a threshold: 0, unless one is chosen."""
    if isinstance(metric, MultiLabel):
        return isinstance(metric.metric, CountMetric)
    return isinstance(metric, CountMetric | PairwiseFBeta)


def rules(name: str) -> tuple[Callable[[Tensor, Tensor], float], Callable[[Tensor, Tensor], Tensor]]:
    """The exact value at threshold 0, and the best thresholds on given rows: one, one a column, or none (0)."""
    metric = metric_from_name(name)

    def value(scores: Tensor, targets: Tensor) -> float:
        if name not in OF_FIRST_PLACES:
            return float(metric.value(scores, targets))
        lists = dealt(len(targets))
        return float(metric.value(scores.repeat(DEALS), targets.repeat(DEALS), groups=lists))

    if not decides(metric):
        return value, lambda scores, targets: scores.new_zeros(())
    if isinstance(metric, MultiLabel):
        return value, metric.decide
    if isinstance(metric, PairwiseFBeta):
        return value, _pairwise_thresholds
    objective = Objective.of(name)
    return value, lambda scores, targets: scores.new_tensor(objective.tuned(scores, targets)[0])


def dealt(n: int) -> Tensor:
    """``(DEALS · n,)`` the list of each of n rows in every deal; the same deals for everybody who is judged."""
    generator, lists = torch.Generator().manual_seed(0), max(1, n // LENGTH)
    rows = torch.arange(n) % lists
    return torch.cat([deal * lists + rows[torch.randperm(n, generator=generator)] for deal in range(DEALS)])


def _best(values: object) -> int:
    return int(np.argmax(np.nan_to_num(np.fromiter(values, float), nan=-1.0)))  # type: ignore[call-overload]


def _pairwise_thresholds(scores: Tensor, y: Tensor) -> Tensor:
    """For each group, the threshold of its column with the best mean F1 against the other groups, one by one."""
    found = []
    truth = torch.nn.functional.one_hot(y, scores.shape[1])
    for group, column in enumerate(scores.t().double()):
        ordered, order = column.sort(descending=True)
        passed = truth[order].cumsum(0).double()
        own, others = passed[:, group, None], torch.cat((passed[:, :group], passed[:, group + 1 :]), 1)
        f1 = (2 * own / (own + others + passed[-1, group])).mean(1)
        place = int(f1.argmax())
        found.append((ordered[place] + ordered[min(place + 1, len(ordered) - 1)]) / 2)
    return torch.stack(found).to(scores)
