"""The language of rates and constraints: ``precision >= 0.9``, ``fpr.gap("sex") <= 0.05``, on tables of counts."""

from .expressions import Constraint, Rate
from .named import (
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

__all__ = [
    "Constraint",
    "Rate",
    "accuracy",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "error_rate",
    "fn",
    "fnr",
    "fp",
    "fpr",
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
