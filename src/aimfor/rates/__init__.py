"""Rate constraints with a certificate: "recall as high as possible, precision at least 0.9, and does it hold?"

The words are those of `aimfor.constraints`, the answers those of `aimfor.decisions`; what trains is here, and is
imported on first use, because it needs torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..constraints import (
    Constraint,
    Rate,
    accuracy,
    demographic_parity,
    equal_opportunity,
    equalized_odds,
    error_rate,
    fn,
    fnr,
    fp,
    fpr,
    npv,
    parse,
    positive_rate,
    precision,
    predicted_positives,
    recall,
    tn,
    tnr,
    tp,
    tpr,
)
from ..decisions import (
    ABSTAIN,
    Abstention,
    Certificate,
    Decision,
    Finding,
    Guarantee,
    LabelDecisions,
    Verdict,
    decide_labels,
    decide_or_abstain,
)

if TYPE_CHECKING:
    from .duals import Ascent, DualOptimizer, MomentumAscent, NuPI
    from .engine import RateEngine
    from .iterates import Iterates, Mixture
    from .problem import RateProblem, maximize, minimize

#: What trains, and the module it lives in.
_HOME = {
    "Ascent": "duals",
    "DualOptimizer": "duals",
    "MomentumAscent": "duals",
    "NuPI": "duals",
    "RateEngine": "engine",
    "Iterates": "iterates",
    "Mixture": "iterates",
    "RateProblem": "problem",
    "maximize": "problem",
    "minimize": "problem",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value
