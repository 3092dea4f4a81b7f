"""The rates by their names, the four counts, and fairness recipes: the usual definitions as lists of constraints.

Recipes compare groups of one attribute. Which of them is right is a question about the decision, not about the
software; apart from trivial cases they exclude one another.
"""

from __future__ import annotations

from .counts import FN, FP, TN, TP
from .expressions import Constraint, Rate

recall = tpr = Rate("recall", (TP,), (TP, FN))
fnr = Rate("fnr", (FN,), (TP, FN))
fpr = Rate("fpr", (FP,), (FP, TN))
tnr = Rate("tnr", (TN,), (FP, TN))
precision = Rate("precision", (TP,), (TP, FP))
npv = Rate("npv", (TN,), (FN, TN))
positive_rate = Rate("positive_rate", (TP, FP), (TP, FP, FN, TN))
accuracy = Rate("accuracy", (TP, TN), (TP, FP, FN, TN))
error_rate = Rate("error_rate", (FP, FN), (TP, FP, FN, TN))
tp = Rate("tp", (TP,), ())
fp = Rate("fp", (FP,), ())
fn = Rate("fn", (FN,), ())
tn = Rate("tn", (TN,), ())
predicted_positives = Rate("predicted_positives", (TP, FP), ())


def demographic_parity(groups: str, within: float = 0.05) -> list[Constraint]:
    """Every group is predicted positive equally often: ``gap(positive_rate) <= within``.

    Example:
        >>> from aimfor.rates import demographic_parity
        >>> demographic_parity("sex", 0.02)
        [gap(positive_rate, sex) <= 0.02]
    """
    return [positive_rate.gap(groups) <= within]


def equal_opportunity(groups: str, within: float = 0.05) -> list[Constraint]:
    """Positives of every group are found equally often: ``gap(recall) <= within``.

    Example:
        >>> from aimfor.rates import equal_opportunity
        >>> equal_opportunity("sex", within=0.02)
        [gap(recall, sex) <= 0.02]
    """
    return [recall.gap(groups) <= within]


def equalized_odds(groups: str, within: float = 0.05) -> list[Constraint]:
    """Positives are found, and negatives accused, equally often in every group: gaps of recall and of fpr.

    Example:
        >>> from aimfor.rates import equalized_odds
        >>> equalized_odds("sex", within=0.02)
        [gap(recall, sex) <= 0.02, gap(fpr, sex) <= 0.02]
    """
    return [recall.gap(groups) <= within, fpr.gap(groups) <= within]
