"""Names of metrics: every documented one works, every bad one says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import aimfor
from aimfor.metrics.registry import METRICS, Entry

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
    "miou": aimfor.IoU(classes="mean"),
    "mcc": aimfor.metrics.MCC(),
    "f1_weighted": aimfor.metrics.ClassFBeta(average="weighted"),
    "recall@10": aimfor.metrics.RecallAtK(10),
    "hit@10": aimfor.metrics.HitAtK(10),
    "pauc@fpr=0.1": aimfor.AUROC(max_fpr=0.1),
    "qwk": aimfor.metrics.QuadraticKappa(),
    "eer": aimfor.metrics.EqualErrorRate(),
    "fnmr@fmr=1e-4": aimfor.TPRAtFPR(1e-4),
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


@pytest.mark.parametrize("entry", [entry for entry in METRICS if entry.prefix], ids=lambda entry: entry.example)
def test_a_bad_number_is_told_which_kind_of_number_is_wanted(entry: Entry) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.metric_from_name(entry.prefix + "many")
    kind = "a number" if entry.prefix.endswith("=") else "a whole number"
    assert caught.value.expected == f"{kind} after {entry.prefix!r}"
    assert entry.example in caught.value.remedy


def test_metrics_compare_by_their_settings_and_print_as_written() -> None:
    for metric in NAMES.values():
        assert eval(repr(metric), vars(aimfor.metrics)) == metric
        assert hash(metric) == hash(eval(repr(metric), vars(aimfor.metrics)))


ALIASES = {
    "auroc": ["AUROC", "roc_auc", "ROC-AUC", "roc auc", "roc_auc_score", "auc"],
    "auroc_ovr": ["roc_auc_ovr"],
    "f1": ["F1", "f1_score", "dice", "Dice", "F-measure", "f_1"],
    "fbeta=2": ["f2", "F2", "f2_score", "fbeta_2", "FBeta=2"],
    "fbeta=0.5": ["f0.5"],
    "iou": ["jaccard", "Jaccard_index", "jaccard_score", "IoU"],
    "accuracy": ["acc", "Accuracy", "accuracy_score"],
    "balanced_accuracy": ["bacc", "balanced_accuracy_score"],
    "f1_macro": ["macro_f1", "F1 macro"],
    "ap": ["average_precision", "average_precision_score", "map", "mAP", "mean average precision"],
    "ndcg@10": ["NDCG@10", "ndcg_at_10"],
    "mrr": ["MRR", "mean reciprocal rank", "reciprocal_rank"],
    "precision@5": ["P@5", "precision_at_5", "prec@5"],
    "recall@10": ["R@10", "recall_at_10"],
    "hit@10": ["hits@10", "hit_rate@10", "hit rate@10", "hit_at_10"],
    "miou": ["mIoU", "mean IoU", "mean_iou"],
    "mcc": ["MCC", "matthews_corrcoef", "phi"],
    "qwk": ["QWK", "quadratic weighted kappa"],
    "f1_weighted": ["weighted_f1", "F1 weighted"],
    "pauc@fpr=0.1": ["pAUC@FPR=0.1", "pauroc@max_fpr=0.1"],
    "eer": ["EER", "equal error rate"],
    "tpr@fpr=1e-4": ["fnmr@fmr=1e-4", "TAR@FAR=1e-4"],
    "recall@precision=0.9": ["Recall@Precision=0.9"],
}


@pytest.mark.parametrize(("name", "other"), [(name, other) for name, listed in ALIASES.items() for other in listed])
def test_other_names_of_the_same_thing_work(name: str, other: str) -> None:
    assert aimfor.metric_from_name(other) == aimfor.metric_from_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("auprc", "'ap' is the area"),
        ("pr_auc", "'ap' is the area"),
        ("hit rate", "'hit@10'"),
        ("mrr@10", "'mrr'"),
        ("recall", "recall@precision=0.9"),
        ("precision", "precision@recall=0.8"),
        ("g_mean", "aimfor.Confusion"),
        ("fnmr", "'fnmr@fmr=0.001'"),
        ("log_loss", "torch"),
        ("rmse", "torch"),
        ("partial_auc", "pauc@fpr=0.1"),
        ("f1_samples", "'f1_macro'"),
        ("aurok", "Did you mean 'auroc'?"),
        ("averge_precision", "Did you mean 'ap' or"),
        ("jacard", "Did you mean 'iou' or 'miou'?"),
        ("recal@20", "Did you mean 'recall@20' or 'precision@20'?"),
        ("miuo", "Did you mean 'miou'?"),
    ],
)
def test_unknown_names_are_hinted_at_by_meaning(name: str, said: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.metric_from_name(name)
    assert said in caught.value.remedy


def test_pairwise_f1_trains_by_default_and_support_agrees() -> None:
    scores, groups = torch.randn(12, 3), torch.arange(12) % 3
    loss_fn = aimfor.MetricLoss("pairwise_f1")
    assert torch.isfinite(loss_fn(scores, groups))
    row = next(line for line in aimfor.support().splitlines() if line.startswith("pairwise_f1"))
    assert loss_fn.engine.cost in row


def test_a_metric_without_a_default_engine_says_which_engines_it_has() -> None:
    class Plain(aimfor.FBeta):
        def default_engine(self) -> aimfor.Engine:
            return aimfor.Metric.default_engine(self)

    with pytest.raises(aimfor.UnsupportedPairError, match=r"no default engine.*LPEngine.*DirectEngine"):
        aimfor.MetricLoss(Plain(1.0))
