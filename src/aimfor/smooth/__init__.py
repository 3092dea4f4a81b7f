"""ENGINE "smooth": the metric's own definition, with soft decisions and soft ranks."""

from .companions import ByClasses, balanced_entropy, listwise_entropy, pairwise_logistic
from .decisions import ClassDecisions, Decisions
from .engine import QUICK, SmoothEngine
from .form import HasSmooth, SmoothForm, SmoothSum
from .ledger import Correlation, MeanOfRatios, Ratio
from .ranking import Ranking
from .ranks import QueriedItems, queried_items

__all__ = [
    "QUICK",
    "ByClasses",
    "ClassDecisions",
    "Correlation",
    "Decisions",
    "HasSmooth",
    "MeanOfRatios",
    "QueriedItems",
    "Ranking",
    "Ratio",
    "SmoothEngine",
    "SmoothForm",
    "SmoothSum",
    "balanced_entropy",
    "listwise_entropy",
    "pairwise_logistic",
    "queried_items",
]
