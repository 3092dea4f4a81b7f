"""Thresholds with a guarantee, certificates, and a watch over both: for anyone's scores, with NumPy and SciPy alone."""

from .ask import decide
from .certificate import Certificate, Finding, Verdict
from .decision import Decision, Guarantee
from .labels import ABSTAIN, Abstention, LabelDecisions, decide_labels, decide_or_abstain
from .problem import Problem

__all__ = [
    "ABSTAIN",
    "Abstention",
    "Certificate",
    "Decision",
    "Finding",
    "Guarantee",
    "LabelDecisions",
    "Problem",
    "Verdict",
    "decide",
    "decide_labels",
    "decide_or_abstain",
]
