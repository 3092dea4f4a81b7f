"""ENGINE "smooth": the metric's own definition, with soft decisions and soft ranks."""

from .classes import ClassDecisions
from .companions import ByClasses, balanced_entropy, listwise_entropy, pairwise_logistic
from .decisions import Decisions
from .engine import QUICK, SmoothEngine
from .form import HasSmooth, SmoothForm, SmoothSum
from .ledger import Correlation, MeanOfRatios, Ratio
from .ranking import AskedItems, Ranking, asked_items

__all__ = [
    "QUICK",
    "AskedItems",
    "ByClasses",
    "ClassDecisions",
    "Correlation",
    "Decisions",
    "HasSmooth",
    "MeanOfRatios",
    "Ranking",
    "Ratio",
    "SmoothEngine",
    "SmoothForm",
    "SmoothSum",
    "asked_items",
    "balanced_entropy",
    "listwise_entropy",
    "pairwise_logistic",
]
