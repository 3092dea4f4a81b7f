"""How the defaults were found: other engines on the same problems, with seeds of their own (100 and up)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import aimfor
from aimfor.engine import Engine
from aimfor.smooth import QUICK

from ...experiment import Cell, Experiment, Options, Result
from . import from_scratch
from .from_scratch import compare, report
from .judging import names_for

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


def quick(**settings: tuple[float, ...]) -> Makers:
    """The same at the temperature of the defaults, anchor and all."""
    cold = {"temperature": (QUICK,), "anchor_temperature": (QUICK,)}
    found = smooth(**settings, **cold).values()
    return {f"quick, {label}": make for label, make in zip(smooth(**settings), found, strict=True)}


BANKED = smooth(anchor=(0.5, 0.8, 1.0), bank=(2048,))
PLAIN = smooth(anchor=(0.0,))
RANKED = smooth(anchor=(0.5, 1.0))
DIRECT: Makers = {"direct": aimfor.DirectEngine}
RATES: Makers = {"rates": aimfor.RateEngine}
SORTED: Makers = {"sorted": aimfor.SortedEngine}
QUICK_RATES: Makers = {"quick, rates": lambda: aimfor.PrecisionAtRecall(0.8).default_engine()}
SPREAD: Makers = {"temperature 0.2 of the spread": lambda: aimfor.SmoothEngine(0.2, relative=True)}
QUICK_SPREAD: Makers = {
    "temperature 0.2 of the spread, quick anchor 0.5": lambda: aimfor.SmoothEngine(
        0.2, relative=True, anchor=0.5, anchor_temperature=QUICK
    )
}
#: Beside half the metric of a list, half its softmax cross-entropy.
QUICK_SOFTMAX: Makers = {
    "softmax anchor 0.5 at 0.25": lambda: aimfor.SmoothEngine(anchor=0.5, anchor_temperature=QUICK)
}
COLD_SOFTMAX: Makers = {
    f"softmax anchor 0.5 at 0.25, temperature {value:g}": lambda value=value: aimfor.SmoothEngine(  # type: ignore[misc]
        value, anchor=0.5, anchor_temperature=QUICK
    )
    for value in (2 * QUICK, QUICK)
}
#: Metrics of the first k places have the logistic loss of pairs for an anchor.
PAIRS: Makers = {
    f"pairs, anchor {share:g} at {unit:g}": lambda share=share, unit=unit: aimfor.SmoothEngine(  # type: ignore[misc]
        anchor=share, anchor_temperature=unit
    )
    for share, unit in ((0.5, QUICK), (1.0, QUICK), (1.0, 2 * QUICK))
}
SOFTMAX: Makers = {"softmax anchor 0.5": lambda: aimfor.SmoothEngine(anchor=0.5)}
SPREAD_SOFTMAX: Makers = {
    "temperature 0.2 of the spread, softmax anchor 0.5": lambda: aimfor.SmoothEngine(0.2, relative=True, anchor=0.5)
}
HALF_ENTROPY: Makers = {"cross-entropy at 0.5": lambda: aimfor.SmoothEngine(anchor=1.0, anchor_temperature=2 * QUICK)}
ENGINES: dict[str, Makers] = {
    "f1": BANKED | quick(anchor=(0.5,), bank=(2048,)),
    "fbeta=2": quick(anchor=(0.5,), bank=(2048,)),
    "iou": quick(anchor=(0.5,), bank=(2048,)),
    "balanced_accuracy": PLAIN
    | smooth(anchor=(0.5, 1.0), bank=(2048,))
    | smooth(temperature=(0.5,), anchor=(0.5,), anchor_temperature=(0.5,), bank=(2048,))
    | quick(anchor=(0.5,), bank=(2048,)),
    "auroc": SORTED | smooth(anchor=(1.0,)),
    "ap": RANKED | smooth(anchor=(0.5,), bank=(1024,)) | quick(anchor=(0.5,)) | QUICK_SPREAD,
    "ndcg": DIRECT | QUICK_SOFTMAX | COLD_SOFTMAX,
    "ndcg@10": DIRECT | QUICK_SOFTMAX | COLD_SOFTMAX,
    "map@r": SPREAD | QUICK_SOFTMAX,
    "r_precision": SPREAD | QUICK_SOFTMAX,
    "precision@1": DIRECT | PAIRS,
    "mrr": SPREAD | SPREAD_SOFTMAX | SOFTMAX | QUICK_SOFTMAX,
    "precision@recall=0.8": RATES | QUICK_RATES | RANKED,
    "recall@precision=0.9": RATES | QUICK_RATES | RANKED,
    "tpr@fpr=0.1": RATES | QUICK_RATES | RANKED,
    "auprc@10": RATES | QUICK_RATES | smooth(anchor=(0.5,)),
    "auroc_ovr": SORTED | smooth(anchor=(1.0,)),
    "auc_mu": SORTED | HALF_ENTROPY,
    "f1_macro": PLAIN | smooth(anchor=(0.5, 1.0), bank=(2048,)),
    "f1_micro": PLAIN | smooth(anchor=(0.5, 0.8, 1.0)),
    "pairwise_f1": PLAIN | smooth(anchor=(0.5, 1.0), bank=(2048,)),
    "multilabel_ap": smooth(anchor=(0.0, 0.5, 1.0)) | quick(anchor=(0.5,)),
    "multilabel_auroc": HALF_ENTROPY,
    "multilabel_f1": BANKED | smooth(anchor=(1.0,)) | quick(anchor=(1.0,)),
    "multilabel_f1_micro": BANKED | smooth(anchor=(1.0,)) | quick(anchor=(1.0,)),
    "multilabel_f1_samples": smooth(anchor=(0.5, 1.0)) | quick(anchor=(1.0,)),
}


def cells(options: Options) -> list[Cell]:
    return from_scratch.cells(options, FIRST_SEED)


def tried(problem: str) -> dict[str, dict[str, Engine]]:
    """The engines of every metric that the problem is judged by, made anew."""
    return {
        name: {label: make() for label, make in ENGINES[name].items()} for name in names_for(problem) if name in ENGINES
    }


def run(cell: Cell, options: Options) -> Result:
    return compare(cell, options, tried(cell["problem"]))


EXPERIMENT = Experiment("from_scratch_engines", "Engines tried from scratch", "aimfor", cells, run, report, seeds=2)
