"""ENGINE "smooth": the metric's own definition, with soft decisions and soft ranks."""

from .classes import ClassDecisions
from .decisions import Decisions
from .engine import QUICK, SmoothEngine
from .form import HasSmooth, SmoothForm, SmoothSum
from .ranking import Asked, Ranking, asked_items

__all__ = [
    "QUICK",
    "Asked",
    "ClassDecisions",
    "Decisions",
    "HasSmooth",
    "Ranking",
    "SmoothEngine",
    "SmoothForm",
    "SmoothSum",
    "asked_items",
]
