"""The best threshold, against every threshold there is."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.metrics import METRICS, ClassFBeta, CountMetric, CountRatio, Metric, MultiLabel, metric_from_name
from samples import sample

NAMED = [metric_from_name(entry.example) for entry in METRICS]
DECIDED: list[Metric] = [one for one in NAMED if isinstance(one, CountMetric) and one.layout == "binary"]
DECIDED += [
    aimfor.Confusion(lambda tp, fp, fn, tn: (tp / (tp + fn) * tn / (tn + fp)).sqrt(), name="g-mean"),
    CountRatio((1, 0, 0, 1), (1, 3, 1, 1), threshold=0.7),
]


def every_threshold(scores: Tensor) -> list[float]:
    """Below all scores, between each two neighbours, above all."""
    found = scores.unique().tolist()
    return [found[0] - 1.0, *((a + b) / 2 for a, b in itertools.pairwise(found)), found[-1] + 1.0]


@pytest.mark.parametrize("metric", DECIDED, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(4))
def test_no_threshold_is_better(metric: Metric, dtype: torch.dtype, seed: int) -> None:
    s = sample("binary", seed, ties=bool(seed % 2), dtype=dtype)
    for rest in ({}, {"weights": s.weights}, {"where": torch.arange(24) % 5 != 0}):
        found = metric.best_threshold(s.scores, s.targets, **rest)
        values = [
            float(replace(metric, threshold=t).value(s.scores, s.targets, **rest)) for t in every_threshold(s.scores)
        ]
        assert float(found.value) == pytest.approx(max(v for v in values if v == v), abs=1e-12)
        there = replace(metric, threshold=float(found.threshold)).value(s.scores, s.targets, **rest)
        assert float(there) == pytest.approx(float(found.value), abs=1e-12)
        assert found.threshold.dtype == dtype


def test_nothing_is_a_decision_too() -> None:
    scores, targets = torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0, 0, 1])
    threshold, value = aimfor.Accuracy().best_threshold(scores, targets)
    assert float(threshold) > 3
    assert float(value) == pytest.approx(2 / 3)


def test_of_equals_it_is_the_middle_one() -> None:
    scores = torch.arange(10.0)
    assert float(aimfor.Accuracy().best_threshold(scores, (scores > 6).long()).threshold) == 6.5
    specificity = aimfor.Confusion(lambda tp, fp, fn, tn: tn / (tn + fp), name="specificity")
    assert float(specificity.best_threshold(scores, (scores > 4).long()).threshold) == 6.5  # of 4.5 to 9.5


def test_an_undefined_metric_keeps_its_own_threshold() -> None:
    threshold, value = aimfor.FBeta(1.0, threshold=0.3).best_threshold(torch.tensor([-1.0, 0.0]), torch.tensor([0, 0]))
    assert float(threshold) == pytest.approx(0.3)
    assert math.isnan(float(value))


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_classes_have_one_each(average: str) -> None:
    s = sample("multiclass", 1)
    metric = ClassFBeta(2.0, average)
    threshold, value = metric.best_threshold(s.scores, s.targets, weights=s.weights)
    best = [
        max(
            float(aimfor.FBeta(2.0, t).value(column, s.targets == k, weights=s.weights))
            for t in every_threshold(column)
        )
        for k, column in enumerate(s.scores.t())
    ]
    share = torch.ones(3) if average == "macro" else torch.stack([s.weights[s.targets == k].sum() for k in range(3)])
    assert float(value) == pytest.approx(float((torch.tensor(best) * share).sum() / share.sum()), abs=1e-6)
    for k in range(3):
        at = aimfor.FBeta(2.0, float(threshold[k])).value(s.scores[:, k], s.targets == k, weights=s.weights)
        assert float(at) == pytest.approx(best[k], abs=1e-12)


def test_a_class_without_an_example_is_left_out() -> None:
    scores = torch.tensor([[2.0, 0.0, -3.0], [0.0, 1.0, -2.0]])
    threshold, value = ClassFBeta().best_threshold(scores, torch.tensor([0, 1]))
    assert float(value) == 1.0
    assert float(threshold[2]) == 0.0


def test_labels_have_one_each() -> None:
    s = sample("multilabel", 2)
    metric = MultiLabel("f1")
    threshold, value = metric.best_threshold(s.scores, s.targets)
    assert float(value) == pytest.approx(float(replace(metric, thresholds=threshold).value(s.scores, s.targets)))
    assert float(value) >= float(metric.value(s.scores, s.targets))


def test_rates_under_a_floor_give_their_decision() -> None:
    s = sample("binary", 5)
    metric = aimfor.RecallAtPrecision(0.5)
    threshold, value = metric.best_threshold(s.scores, s.targets)
    assert torch.equal(threshold, metric.decide(s.scores, s.targets))
    assert torch.equal(value, metric.value(s.scores, s.targets))


@pytest.mark.parametrize(
    ("metric", "layout"),
    [
        (aimfor.AUROC(), "binary"),
        (aimfor.AveragePrecision(), "lists"),
        (aimfor.Accuracy(), "multiclass"),
        (aimfor.IoU(classes="mean"), "multiclass"),
        (ClassFBeta(average="micro"), "multiclass"),
        (MultiLabel("f1", "micro"), "multilabel"),
    ],
    ids=repr,
)
def test_what_decides_nothing_at_one_threshold_says_so(metric: Metric, layout: str) -> None:
    s = sample(layout)
    with pytest.raises(aimfor.InputError):
        metric.best_threshold(s.scores, s.targets)
