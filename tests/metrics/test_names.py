"""Names of metrics: every documented one works, every bad one says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

import aimfor

NAMES = {
    "auroc": aimfor.AUROC(),
    "auroc_ovr": aimfor.AUROCOneVsRest(),
    "auc_mu": aimfor.AUCMu(),
    "f1": aimfor.FBeta(1.0),
    "fbeta=2": aimfor.FBeta(2.0),
    "fbeta=0.5": aimfor.FBeta(0.5),
    "iou": aimfor.IoU(),
    "accuracy": aimfor.Accuracy(),
    "ap": aimfor.AveragePrecision(),
    "ndcg": aimfor.NDCG(),
    "ndcg@10": aimfor.NDCG(10),
    "ndcg@1": aimfor.NDCG(1),
    "precision@recall=0.8": aimfor.PrecisionAtRecall(0.8),
    "recall@precision=0.9": aimfor.RecallAtPrecision(0.9),
    "recall@precision=1": aimfor.RecallAtPrecision(1.0),
}


@pytest.mark.parametrize(("name", "metric"), NAMES.items())
def test_a_name_makes_its_metric(name: str, metric: aimfor.Metric) -> None:
    assert aimfor.metric_from_name(name) == metric


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("fbeta=-1", "beta"),
        ("fbeta=0", "beta"),
        ("fbeta=nan", "beta"),
        ("fbeta=", "metric"),
        ("fbeta=two", "metric"),
        ("fbeta", "metric"),
        ("f1=2", "metric"),
        ("ndcg@0", "k"),
        ("ndcg@-3", "k"),
        ("ndcg@ten", "metric"),
        ("ndcg@1.5", "metric"),
        ("ndcg@", "metric"),
        ("recall@precision=1.5", "precision"),
        ("recall@precision=0", "precision"),
        ("recall@precision", "metric"),
        ("precision@recall=-0.1", "recall"),
        ("precision@recall=high", "metric"),
        ("AUROC", "metric"),
        ("", "metric"),
        ("arouc", "metric"),
        (3, "metric"),
        (None, "metric"),
    ],
)
def test_a_bad_name_says_which_part_is_wrong(name: Any, argument: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.metric_from_name(name)
    assert caught.value.argument == argument


def test_metrics_compare_by_their_settings_and_print_as_written() -> None:
    for metric in NAMES.values():
        assert eval(repr(metric), vars(aimfor.metrics)) == metric
        assert hash(metric) == hash(eval(repr(metric), vars(aimfor.metrics)))
