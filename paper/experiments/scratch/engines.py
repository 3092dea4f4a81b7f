"""How the defaults were found: other engines on the same problems, with seeds of their own (100 and up)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import aimfor
from aimfor.engine import Engine

from ...experiment import Cell, Experiment, Options, Result
from .from_scratch import compare, report
from .judging import names_for
from .problems import PROBLEMS

FIRST_SEED = 100
Makers = dict[str, Callable[[], Engine]]


def smooth(**settings: tuple[float, ...]) -> Makers:
    """Engine "smooth" with every combination of the settings."""
    makers: Makers = {}
    for values in product(*settings.values()):
        given = dict(zip(settings, values, strict=True))
        label = ", ".join(f"{name} {value:g}" for name, value in given.items())
        makers[label] = lambda given=given: aimfor.SmoothEngine(**given)  # type: ignore[misc]
    return makers


DECISIONS = smooth(anchor=(0.5, 0.8, 1.0), bank=(2048, 16384))
RANKS = smooth(anchor=(0.5, 0.8, 1.0)) | smooth(anchor=(0.5, 1.0), bank=(1024,))
RANKED = smooth(anchor=(0.5, 0.8, 1.0))
GRADED = {"direct": aimfor.DirectEngine} | RANKED
RATES = {"rates": aimfor.RateEngine} | smooth(anchor=(0.5, 1.0), bank=(0, 1024))
PAIRS = {"sorted": aimfor.SortedEngine} | smooth(anchor=(0.0, 0.5, 1.0))
COUNTS = smooth(anchor=(0.0, 0.5, 1.0), bank=(0, 2048))
ENGINES: dict[str, Makers] = {
    **dict.fromkeys(("f1", "fbeta=2", "iou"), DECISIONS),
    "balanced_accuracy": smooth(anchor=(0.0, 0.5, 1.0), bank=(0, 2048)),
    "auroc": PAIRS,
    "ap": RANKS,
    **dict.fromkeys(("ndcg", "ndcg@10", "precision@1"), GRADED),
    **dict.fromkeys(("map@r", "r_precision", "mrr"), RANKED),
    **dict.fromkeys(("precision@recall=0.8", "recall@precision=0.9", "tpr@fpr=0.1", "auprc@10"), RATES),
    **dict.fromkeys(("auroc_ovr", "auc_mu"), PAIRS),
    **dict.fromkeys(("f1_macro", "f1_micro", "pairwise_f1"), COUNTS),
    **dict.fromkeys(("multilabel_ap", "multilabel_auroc"), smooth(anchor=(0.0, 0.5, 1.0))),
    **dict.fromkeys(("multilabel_f1", "multilabel_f1_micro"), COUNTS),
    "multilabel_f1_samples": smooth(anchor=(0.0, 0.5, 1.0)),
}


def cells(options: Options) -> list[Cell]:
    """Every problem with batches of 64 and of 128 in turn."""
    return [
        {"problem": problem, "batch": (64, 128)[(seed + place) % 2], "seed": FIRST_SEED + seed}
        for seed in range(options.seeds)
        for place, problem in enumerate(PROBLEMS)
    ]


def run(cell: Cell, options: Options) -> Result:
    engines = {
        name: {label: make() for label, make in ENGINES[name].items()}
        for name in names_for(cell["problem"])
        if name in ENGINES
    }
    return compare(cell, options, engines)


EXPERIMENT = Experiment("from_scratch_engines", "Engines tried from scratch", "aimfor", cells, run, report, seeds=2)
