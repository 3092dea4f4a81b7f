"""What a comparison says: paired differences over seeds, whether a floor was kept, and what to take."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Difference:
    """Mean paired difference with its interval and two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float


def paired_difference(
    ours: Sequence[float], theirs: Sequence[float], *, test_share: float, level: float = 0.95
) -> Difference:
    """The corrected resampled t-test.

    Random splits of one data set share most of their rows, so differences over k splits are not independent and the
    plain t-test finds too many of them. The variance of the mean is therefore ``(1/k + n_test/n_train) · s²``, not
    ``s²/k``.

    Args:
        ours: Metric per seed.
        theirs: Metric per seed, same splits.
        test_share: ``n_test / n_train``.
        level: Of the interval, e.g. ``1 − 0.05/m`` for m comparisons (Bonferroni).

    References:
        Nadeau, Bengio, Inference for the generalization error, 2003.
    """
    from scipy.stats import t as student

    differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    k, mean = len(differences), float(differences.mean())
    if k < 2:
        return Difference(mean, -math.inf, math.inf, 1.0)
    deviation = math.sqrt((1 / k + test_share) * float(differences.var(ddof=1)))
    if deviation == 0.0:
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    half = float(student.ppf(0.5 + level / 2, k - 1)) * deviation
    p = 2 * float(student.sf(abs(mean) / deviation, k - 1))
    return Difference(mean, mean - half, mean + half, p)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: p-values that may all be read at one level together.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, running = [0.0] * len(values), 0.0
    for rank, number in enumerate(order):
        running = max(running, min(1.0, (len(values) - rank) * values[number]))
        adjusted[number] = running
    return adjusted


def cheapest_first(
    test: Mapping[str, Sequence[float]], costs: Mapping[str, tuple[str, float]], test_share: float
) -> list[dict[str, Any]]:
    """The best on test rows and all who cannot be told from it, by their seconds.

    Told from it are those who are behind on every split, or at the 5 % level, each by itself: to leave out one too many
    costs seconds, to take a worse one costs what was asked for.

    Args:
        test: The metric of each entrant, seed by seed.
        costs: Title and seconds of each.
        test_share: ``n_test / n_train``.

    Example:
        >>> test = {"a": [0.80, 0.82, 0.81], "b": [0.81, 0.81, 0.82], "c": [0.60, 0.62, 0.61]}
        >>> costs = {"a": ("slow", 9.0), "b": ("quick", 1.0), "c": ("poor", 0.1)}
        >>> [row["title"] for row in cheapest_first(test, costs, 0.25)]
        ['quick', 'slow']
    """
    defined = {name: values for name, values in test.items() if np.isfinite(values).all()}
    if not defined:
        return []
    best = max(defined, key=lambda name: float(np.mean(defined[name])))
    equal = [best]
    for name, values in defined.items():
        p = paired_difference(defined[best], values, test_share=test_share).p
        if name != best and p > 0.05 and np.less_equal(defined[best], values).any():
            equal.append(name)
    rows = [{"name": name, "title": costs[name][0], "seconds": costs[name][1]} for name in equal]
    return sorted(rows, key=lambda row: float(row["seconds"]))


def recommended(equal: Sequence[Mapping[str, Any]]) -> str:
    """One sentence.

    Example:
        >>> recommended([{"title": "quick", "seconds": 1.0}, {"title": "slow", "seconds": 9.0}])
        'Take quick: these splits do not tell it from slow, and it costs 1.0 seconds a run, not 9.0.'
    """
    first, last = equal[0], equal[-1]
    others, most = ", ".join(str(row["title"]) for row in equal[1:]), "" if len(equal) == 2 else "up to "
    costs = f"it costs {first['seconds']:.1f} seconds a run, not {most}{last['seconds']:.1f}"
    return f"Take {first['title']}: these splits do not tell it from {others}, and {costs}."


#: A limit from above instead of below.
_CEILINGS = ("fpr",)
_KEYS = {"fpr": "false positive rate", "tpr": "recall"}


def floor_sentences(entrants: dict[str, list[dict[str, Any]]], metric: str) -> list[str]:
    """One sentence for each entrant about the rate that has a floor, at the entrant's own threshold.

    Args:
        entrants: Title, and for each split the ``rates`` found on test rows.
        metric: Such as ``recall@precision=0.9``; others have no floor and no sentence.
    """
    named = re.fullmatch(r"(\w+)@(\w+)=([\d.]+)", metric)
    if named is None:
        return []
    wanted, kept, floor = named[1], named[2], float(named[3])
    return [_sentence(title, rates, wanted, kept, floor) for title, rates in entrants.items()]


def _sentence(title: str, rates: list[dict[str, Any]], wanted: str, kept: str, floor: float) -> str:
    values, reached = (_defined(rates, name) for name in (kept, wanted))
    if not values or not reached:
        return f"{title}: {kept} is undefined on test rows."
    below = kept in _CEILINGS
    held = sum(value <= floor if below else value >= floor for value in values)
    limit = f"{floor:g} or {'less' if below else 'more'}"
    return (
        f"{title}: {kept} was to be {limit}; on test rows it was {min(values):.3f} to {max(values):.3f}, "
        f"held in {held} of {len(rates)} splits, with {wanted} {np.mean(reached):.3f}."
    )


def _defined(rates: list[dict[str, Any]], name: str) -> list[float]:
    values = [split.get(_KEYS.get(name, name)) for split in rates]
    return [float(value) for value in values if value is not None and np.isfinite(value)]
