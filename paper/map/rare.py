"""`map_rare`: few positives, judged by curves."""

from __future__ import annotations

from .losses import FEW, OF_TWO_CLASSES, OURS
from .regimes import Entrants, regime
from .tables import SMALL_TABLES, load_task

METRICS = ("ap", "tpr@fpr=0.01", "recall@precision=0.9")
METHODS = (*OF_TWO_CLASSES, *OURS)
DATA: Entrants = {
    "mnist 8 against the rest": (METRICS, METHODS),
    "creditcard_fraud": (METRICS, METHODS),
    "covertype_4v2": (METRICS, METHODS),
    **dict.fromkeys(SMALL_TABLES, (("ap",), FEW)),
}
EXPERIMENT = regime("map_rare", "The map: rare positives", DATA, load_task)
