"""WHAT: exact metrics and the forms each can take. A metric, or a family of them, is one file."""

from .accuracy import Accuracy, BalancedAccuracy
from .at_k import PrecisionAtK, RecallAtK
from .at_r import HitAtK, MAPAtR, ReciprocalRank, RPrecision
from .at_rate import AUPRC, EqualErrorRate, PrecisionAtRecall, RecallAtPrecision, TPRAtFPR
from .auc_mu import AUCMu
from .auroc import AUROC, AUROCOneVsRest
from .average_precision import AveragePrecision
from .base import Metric
from .confusion import Confusion, CountMetric, CountRatio
from .fbeta import ClassFBeta, FBeta, PairwiseFBeta
from .iou import IoU
from .kappa import QuadraticKappa
from .mcc import MCC
from .multilabel import MultiLabel
from .ndcg import NDCG
from .registry import ENGINES, METRICS, engines_for, metric_from_name, support

__all__ = [
    "AUPRC",
    "AUROC",
    "ENGINES",
    "MCC",
    "METRICS",
    "NDCG",
    "AUCMu",
    "AUROCOneVsRest",
    "Accuracy",
    "AveragePrecision",
    "BalancedAccuracy",
    "ClassFBeta",
    "Confusion",
    "CountMetric",
    "CountRatio",
    "EqualErrorRate",
    "FBeta",
    "HitAtK",
    "IoU",
    "MAPAtR",
    "Metric",
    "MultiLabel",
    "PairwiseFBeta",
    "PrecisionAtK",
    "PrecisionAtRecall",
    "QuadraticKappa",
    "RPrecision",
    "RecallAtK",
    "RecallAtPrecision",
    "ReciprocalRank",
    "TPRAtFPR",
    "engines_for",
    "metric_from_name",
    "support",
]
