"""How the defaults were found: other engines on the same problems, with seeds of their own (100 and up)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import aimfor
from aimfor.engine import Engine

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


BANKED = smooth(anchor=(0.5, 0.8, 1.0), bank=(2048,))
PLAIN = smooth(anchor=(0.0,))
RANKED = smooth(anchor=(0.5, 1.0))
DIRECT: Makers = {"direct": aimfor.DirectEngine}
RATES: Makers = {"rates": aimfor.RateEngine}
SORTED: Makers = {"sorted": aimfor.SortedEngine}
COLD: Makers = {"temperature 0.2 of the spread": lambda: aimfor.SmoothEngine(0.2, relative=True)}
#: F_2 and IoU follow F1, R-precision follows MAP@R: they are the same family.
ENGINES: dict[str, Makers] = {
    "f1": BANKED,
    "balanced_accuracy": PLAIN | smooth(anchor=(0.5, 1.0), bank=(2048,)),
    "auroc": SORTED | smooth(anchor=(1.0,)),
    "ap": RANKED | smooth(anchor=(0.5,), bank=(1024,)),
    "ndcg": DIRECT | RANKED,
    "ndcg@10": DIRECT | RANKED,
    "map@r": COLD | RANKED,
    "precision@1": DIRECT | smooth(anchor=(0.5,)),
    "mrr": COLD | smooth(anchor=(0.5,)),
    "precision@recall=0.8": RATES | RANKED,
    "recall@precision=0.9": RATES | RANKED,
    "tpr@fpr=0.1": RATES | RANKED,
    "auprc@10": RATES | smooth(anchor=(0.5,)),
    "auroc_ovr": SORTED | smooth(anchor=(1.0,)),
    "auc_mu": SORTED | smooth(anchor=(1.0,)),
    "f1_macro": PLAIN | smooth(anchor=(0.5, 1.0), bank=(2048,)),
    "f1_micro": PLAIN | smooth(anchor=(0.5, 1.0)),
    "pairwise_f1": PLAIN | smooth(anchor=(0.5, 1.0), bank=(2048,)),
    "multilabel_ap": smooth(anchor=(0.0, 0.5, 1.0)),
    "multilabel_auroc": smooth(anchor=(0.0, 0.5, 1.0)),
    "multilabel_f1": BANKED | smooth(anchor=(1.0,)),
    "multilabel_f1_micro": BANKED | smooth(anchor=(1.0,)),
    "multilabel_f1_samples": smooth(anchor=(0.5, 1.0)),
}


def cells(options: Options) -> list[Cell]:
    return from_scratch.cells(options, FIRST_SEED)


def run(cell: Cell, options: Options) -> Result:
    engines = {
        name: {label: make() for label, make in ENGINES[name].items()}
        for name in names_for(cell["problem"])
        if name in ENGINES
    }
    return compare(cell, options, engines)


EXPERIMENT = Experiment("from_scratch_engines", "Engines tried from scratch", "aimfor", cells, run, report, seeds=2)
