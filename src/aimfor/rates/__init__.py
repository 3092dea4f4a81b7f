"""Rate constraints with a certificate: "recall as high as possible, precision at least 0.9, and does it hold?" """

from .certificate import Certificate, Finding, Verdict
from .decision import Decision, Guarantee
from .duals import Ascent, DualOptimizer, MomentumAscent, NuPI
from .engine import RateEngine
from .expressions import Constraint, Rate
from .fairness import demographic_parity, equal_opportunity, equalized_odds
from .iterates import Iterates, Mixture
from .labels import ABSTAIN, Abstention, LabelDecisions, decide_labels, decide_or_abstain
from .named import (
    accuracy,
    error_rate,
    fn,
    fnr,
    fp,
    fpr,
    npv,
    positive_rate,
    precision,
    predicted_positives,
    recall,
    tn,
    tnr,
    tp,
    tpr,
)
from .parse import parse
from .problem import RateProblem
from .statement import maximize, minimize

__all__ = [
    "ABSTAIN",
    "Abstention",
    "Ascent",
    "Certificate",
    "Constraint",
    "Decision",
    "DualOptimizer",
    "Finding",
    "Guarantee",
    "Iterates",
    "LabelDecisions",
    "Mixture",
    "MomentumAscent",
    "NuPI",
    "Rate",
    "RateEngine",
    "RateProblem",
    "Verdict",
    "accuracy",
    "decide_labels",
    "decide_or_abstain",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "error_rate",
    "fn",
    "fnr",
    "fp",
    "fpr",
    "maximize",
    "minimize",
    "npv",
    "parse",
    "positive_rate",
    "precision",
    "predicted_positives",
    "recall",
    "tn",
    "tnr",
    "tp",
    "tpr",
]
