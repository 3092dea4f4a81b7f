"""METRICS × ENGINES: names, and the support table, all read off the code.

Registering a metric here is all it takes to give it the laws in tests/test_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..direct.engine import DirectEngine
from ..engine import Engine
from ..errors import InputError
from ..lagrangian.engine import LagrangianEngine
from ..lp import LPEngine
from ..rates.engine import RateEngine
from ..smooth import SmoothEngine
from ..sorted.engine import SortedEngine
from .accuracy import Accuracy, BalancedAccuracy
from .at_k import PrecisionAtK, RecallAtK
from .at_r import HitAtK, MAPAtR, ReciprocalRank, RPrecision
from .at_rate import AUPRC, EqualErrorRate, PrecisionAtRecall, RecallAtPrecision, TPRAtFPR
from .auc_mu import AUCMu
from .auroc import AUROC, AUROCOneVsRest
from .average_precision import AveragePrecision
from .base import Metric
from .fbeta import ClassFBeta, FBeta, PairwiseFBeta
from .iou import IoU
from .kappa import QuadraticKappa
from .mcc import MCC
from .multilabel import MultiLabel
from .names import canonical, hint
from .ndcg import NDCG


@dataclass(frozen=True)
class Entry:
    """A metric's name, how to make it, and its class."""

    #: The name, with an example of its parameter if it has one; the law tests make the metric from it.
    example: str
    make: Callable[..., Metric]
    cls: type[Metric]
    #: What stands before the parameter: ``"fbeta="``, ``"ndcg@"`` (a whole number follows), or "" without one.
    prefix: str = ""


METRICS: tuple[Entry, ...] = (
    Entry("auroc", AUROC, AUROC),
    Entry("pauc@fpr=0.1", AUROC, AUROC, "pauc@fpr="),
    Entry("auroc_ovr", AUROCOneVsRest, AUROCOneVsRest),
    Entry("auc_mu", AUCMu, AUCMu),
    Entry("f1", partial(FBeta, 1.0), FBeta),
    Entry("fbeta=2", FBeta, FBeta, "fbeta="),
    Entry("pairwise_f1", PairwiseFBeta, PairwiseFBeta),
    Entry("iou", IoU, IoU),
    Entry("miou", partial(IoU, classes="mean"), IoU),
    Entry("mcc", MCC, MCC),
    Entry("accuracy", Accuracy, Accuracy),
    Entry("balanced_accuracy", BalancedAccuracy, BalancedAccuracy),
    Entry("f1_macro", ClassFBeta, ClassFBeta),
    Entry("f1_micro", partial(ClassFBeta, average="micro"), ClassFBeta),
    Entry("f1_weighted", partial(ClassFBeta, average="weighted"), ClassFBeta),
    Entry("qwk", QuadraticKappa, QuadraticKappa),
    Entry("ap", AveragePrecision, AveragePrecision),
    Entry("multilabel_ap", partial(MultiLabel, "ap"), MultiLabel),
    Entry("multilabel_auroc", partial(MultiLabel, "auroc"), MultiLabel),
    Entry("multilabel_f1", partial(MultiLabel, "f1"), MultiLabel),
    Entry("multilabel_f1_micro", partial(MultiLabel, "f1", "micro"), MultiLabel),
    Entry("multilabel_f1_samples", partial(MultiLabel, "f1", "samples"), MultiLabel),
    Entry("ndcg", NDCG, NDCG),
    Entry("ndcg@10", NDCG, NDCG, "ndcg@"),
    Entry("map@r", MAPAtR, MAPAtR),
    Entry("r_precision", RPrecision, RPrecision),
    Entry("precision@1", PrecisionAtK, PrecisionAtK, "precision@"),
    Entry("recall@5", RecallAtK, RecallAtK, "recall@"),
    Entry("hit@1", HitAtK, HitAtK, "hit@"),
    Entry("mrr", ReciprocalRank, ReciprocalRank),
    Entry("precision@recall=0.8", PrecisionAtRecall, PrecisionAtRecall, "precision@recall="),
    Entry("recall@precision=0.9", RecallAtPrecision, RecallAtPrecision, "recall@precision="),
    Entry("tpr@fpr=0.1", TPRAtFPR, TPRAtFPR, "tpr@fpr="),
    Entry("eer", EqualErrorRate, EqualErrorRate),
    Entry("auprc@10", AUPRC, AUPRC, "auprc@"),
)

ENGINES: tuple[type[Engine], ...] = (SortedEngine, SmoothEngine, LPEngine, DirectEngine, LagrangianEngine, RateEngine)


def metric_from_name(text: str) -> Metric:
    """The metric of that name: ``"auroc"``, ``"fbeta=2"``, ``"ndcg@10"``, ``"precision@recall=0.8"``, …

    Case does not matter, and other names of the same thing are known: ``"roc_auc"``, ``"dice"``, ``"jaccard"``,
    ``"map"``, ``"F2"``, … (see `names`).

    Example:
        >>> from aimfor.metrics import metric_from_name
        >>> metric_from_name("F2"), metric_from_name("ndcg@10")
        (FBeta(beta=2.0, threshold=0.0), NDCG(k=10, gain='linear'))
    """
    if not isinstance(text, str):
        raise InputError("metric", f"a {type(text).__name__}", "a metric's name")
    name = canonical(text)
    whole = [entry for entry in METRICS if not entry.prefix and name == entry.example]
    if whole:
        return whole[0].make()
    begun = [entry for entry in METRICS if entry.prefix and name.startswith(entry.prefix)]
    if begun:  # of "precision@" and "precision@recall=" the longer one
        entry = max(begun, key=lambda candidate: len(candidate.prefix))
        return entry.make(_parse(name, entry))
    names = [entry.example for entry in METRICS]
    raise InputError("metric", repr(text), "one of " + ", ".join(names), hint(text, names))


def _parse(text: str, entry: Entry) -> float:
    number, whole = text.removeprefix(entry.prefix), entry.prefix.endswith("@")
    try:
        return int(number) if whole else float(number)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise InputError(
            "metric", repr(text), f"{kind} after {entry.prefix!r}", f"For instance {entry.example!r}."
        ) from None


def trainers(metric: Metric) -> list[type[Engine]]:
    """The engines that can train this metric."""
    return [
        engine
        for engine in ENGINES
        if isinstance(metric, engine.capability) and not (engine.default_constructible and engine().refuses(metric))
    ]


def engines_for(metric: Metric) -> list[str]:
    """Names of the engines that can train this metric.

    Example:
        >>> import aimfor
        >>> aimfor.metrics.engines_for(aimfor.AveragePrecision())
        ['SmoothEngine', 'DirectEngine']
    """
    return [engine.__name__ for engine in trainers(metric)]


def support() -> str:
    """The table of metrics × engines, with what each pair costs: generated from the classes, never by hand.

    Example:
        >>> import aimfor
        >>> aimfor.support().split()[:4]
        ['metric', 'class', 'sorted', 'smooth']
    """
    head = ["metric", "class", *(f"{engine.name}" for engine in ENGINES)]
    rows = [
        [
            entry.example,
            entry.cls.__name__,
            *(engine.cost if issubclass(entry.cls, engine.capability) else "–" for engine in ENGINES),
        ]
        for entry in METRICS
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])
