"""Whether a floor was kept on test rows, split by split: what a metric with a floor is wanted for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

#: A limit from above instead of below.
_CEILINGS = ("fpr",)
_KEYS = {"fpr": "false positive rate", "tpr": "recall"}


def floor_sentences(entrants: dict[str, list[dict[str, Any]]], metric: str) -> list[str]:
    """One sentence for each entrant about the rate that has a floor, at the entrant's own threshold.

    Args:
        entrants: Title, and for each split the ``rates`` found on test rows.
        metric: Such as ``recall@precision=0.9``; others have no floor and no sentence.
    """
    found = re.fullmatch(r"(\w+)@(\w+)=([\d.]+)", metric)
    if found is None:
        return []
    wanted, kept, floor = found[1], found[2], float(found[3])
    return [_sentence(title, rates, wanted, kept, floor) for title, rates in entrants.items()]


def _sentence(title: str, rates: list[dict[str, Any]], wanted: str, kept: str, floor: float) -> str:
    values, reached = (_known(rates, name) for name in (kept, wanted))
    if not values or not reached:
        return f"{title}: {kept} is undefined on test rows."
    below = kept in _CEILINGS
    held = sum(value <= floor if below else value >= floor for value in values)
    limit = f"{floor:g} or {'less' if below else 'more'}"
    return (
        f"{title}: {kept} was to be {limit}; on test rows it was {min(values):.3f} to {max(values):.3f}, "
        f"held in {held} of {len(rates)} splits, with {wanted} {np.mean(reached):.3f}."
    )


def _known(rates: list[dict[str, Any]], name: str) -> list[float]:
    found = [one.get(_KEYS.get(name, name)) for one in rates]
    return [float(one) for one in found if one is not None and np.isfinite(one)]
