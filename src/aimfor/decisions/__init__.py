"""Thresholds with a guarantee, certificates, and a watch over both: for anyone's scores, with NumPy and SciPy alone."""

from .ask import decide
from .band import Band
from .categories import CategoryDecisions, decide_categories
from .certificate import Certificate, Finding, Verdict
from .decision import Decision, Guarantee
from .labels import ABSTAIN, Abstention, LabelDecisions, decide_labels, decide_or_abstain
from .problem import Problem
from .triage import Triage, decide_or_ask

__all__ = [
    "ABSTAIN",
    "Abstention",
    "Band",
    "CategoryDecisions",
    "Certificate",
    "Decision",
    "Finding",
    "Guarantee",
    "LabelDecisions",
    "Problem",
    "Triage",
    "Verdict",
    "decide",
    "decide_categories",
    "decide_labels",
    "decide_or_abstain",
    "decide_or_ask",
]
