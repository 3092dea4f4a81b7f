"""Fairness recipes: the usual definitions as lists of constraints, ready for ``subject_to``.

They compare groups of one attribute. Which of them is right is a question about the decision, not about the software;
apart from trivial cases they exclude one another.
"""

from __future__ import annotations

from .expressions import Constraint
from .named import fpr, positive_rate, recall


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
