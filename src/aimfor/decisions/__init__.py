"""Thresholds with a guarantee, certificates, and a watch over both: for anyone's scores, with NumPy and SciPy alone."""

from .abstain import ABSTAIN, Abstention, Triage, decide_or_abstain, decide_or_ask
from .band import Band
from .certificate import Certificate, Finding, Verdict
from .decision import Decision, Guarantee
from .problem import Problem, decide
from .several import CategoryDecisions, LabelDecisions, decide_categories, decide_labels

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
