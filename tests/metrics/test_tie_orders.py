"""Ties: every metric of lists is the mean over all orders of the tied items; average precision is scikit-learn's."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import Tensor

from aimfor.metrics import METRICS, HitAtK, Metric, PrecisionAtK, RecallAtK, metric_from_name
from aimfor.retrieval import evaluate

OF_LISTS = [metric_from_name(entry.example) for entry in METRICS]
OF_LISTS = [metric for metric in OF_LISTS if metric.layout == "lists" and metric != metric_from_name("ap")]
OF_LISTS += [kind(k) for kind in (HitAtK, PrecisionAtK, RecallAtK) for k in (2, 3, 9)]


def orders(scores: Tensor) -> list[Tensor]:
    """Scores without ties, in every order of the items that agrees with the given ones."""
    found = []
    for order in permutations(range(len(scores))):
        ranked = scores[list(order)]
        if bool((ranked[:-1] >= ranked[1:]).all()):
            found.append(torch.empty(len(scores)).scatter_(0, torch.tensor(order), -torch.arange(float(len(scores)))))
    return found


@pytest.mark.parametrize("metric", OF_LISTS, ids=repr)
@pytest.mark.parametrize("seed", range(12))
def test_the_value_is_the_mean_over_the_orders_of_ties(metric: Metric, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 3, (6,), generator=generator).float()
    targets = (torch.rand(6, generator=generator) < 0.4).long()
    targets[seed % 6] = 1
    every = torch.stack([metric.value(one, targets) for one in orders(scores)])
    assert len(every) > 1
    assert float(metric.value(scores, targets)) == pytest.approx(float(every.mean()), abs=1e-12)
    padded = torch.cat((scores, torch.tensor([scores.max(), scores.min()])))  # masked items tie with nobody
    where = torch.arange(8) < 6
    found = metric.value(padded, torch.cat((targets, torch.ones(2, dtype=torch.int64))), where=where)
    assert float(found) == pytest.approx(float(every.mean()), abs=1e-12)


def test_one_positive_among_four_equals() -> None:
    scores, targets = torch.zeros(4), torch.tensor([0, 0, 1, 0])
    for name in ("map@r", "r_precision", "precision@1", "ap"):
        assert float(metric_from_name(name).value(scores, targets)) == 0.25
    assert float(metric_from_name("mrr").value(scores, targets)) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert [float(HitAtK(k).value(scores, targets)) for k in (1, 2, 3, 4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("block", [1, 1 << 24])
@pytest.mark.parametrize("k", [[1], [1, 3], [2, 7]])
def test_evaluating_retrieval_means_over_the_orders_too(k: list[int], block: int) -> None:
    """Few directions, so that ties are many and run across the deepest place that is looked at."""
    generator = torch.Generator().manual_seed(len(k))
    directions = torch.eye(3)[torch.randint(0, 3, (9,), generator=generator)]
    labels = torch.randint(0, 3, (9,), generator=generator)
    found = evaluate(directions, labels, k=k, block=block)
    scores, there = directions @ directions.t(), ~torch.eye(9, dtype=torch.bool)
    same = (labels[:, None] == labels).long()
    names = {"map@r": "map@r", "r_precision": "r_precision"} | {f"recall@{one}": HitAtK(one) for one in k}
    for name, metric in names.items():
        metric = metric_from_name(metric) if isinstance(metric, str) else metric
        assert found[name] == pytest.approx(float(metric.value(scores, same, where=there)), abs=1e-12)
