"""What to take where no difference was found: of those that cannot be told apart, the one that costs least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .statistics import holm, paired_difference


def cheapest_first(
    test: Mapping[str, Sequence[float]], known: Mapping[str, tuple[str, float]], test_share: float
) -> list[dict[str, Any]]:
    """The best on test rows and all who cannot be told from it at the 5 % level (Holm), by their seconds.

    Args:
        test: The metric of each entrant, seed by seed.
        known: Title and seconds of each.
        test_share: ``n_test / n_train``.

    Example:
        >>> test = {"a": [0.80, 0.82, 0.81], "b": [0.81, 0.81, 0.82], "c": [0.60, 0.62, 0.61]}
        >>> known = {"a": ("slow", 9.0), "b": ("quick", 1.0), "c": ("poor", 0.1)}
        >>> [one["title"] for one in cheapest_first(test, known, 0.25)]
        ['quick', 'slow']
    """
    defined = {name: values for name, values in test.items() if np.isfinite(values).all()}
    if not defined:
        return []
    best = max(defined, key=lambda name: float(np.mean(defined[name])))
    others = [name for name in defined if name != best]
    found = [paired_difference(defined[best], defined[name], test_share=test_share).p for name in others]
    equal = [best, *(name for name, p in zip(others, holm(found), strict=True) if p > 0.05)]
    rows = [{"name": name, "title": known[name][0], "seconds": known[name][1]} for name in equal]
    return sorted(rows, key=lambda row: float(row["seconds"]))


def recommended(equal: Sequence[Mapping[str, Any]]) -> str:
    """One sentence.

    Example:
        >>> recommended([{"title": "quick", "seconds": 1.0}, {"title": "slow", "seconds": 9.0}])
        'Take quick: these splits do not tell it from slow, and it costs 1.0 seconds a run, not 9.0.'
    """
    first, last = equal[0], equal[-1]
    others, most = ", ".join(str(one["title"]) for one in equal[1:]), "" if len(equal) == 2 else "up to "
    costs = f"it costs {first['seconds']:.1f} seconds a run, not {most}{last['seconds']:.1f}"
    return f"Take {first['title']}: these splits do not tell it from {others}, and {costs}."
