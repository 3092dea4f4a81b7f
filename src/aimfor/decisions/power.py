"""How clearly a test would accept: every inequality's distance inside its bound, in standard deviations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..constraints.counts import Array, Counts
from ..constraints.expressions import Rate
from ..constraints.parts import Part
from ..constraints.relations import rows_of
from .binomial import tail_deviate


def parts_power(parts: Sequence[Part], counts: Counts) -> Array:
    """The least power of all parts: together they are accepted where it exceeds the critical z; ``(*lead,)``."""
    return np.asarray(np.min([part_power(part, counts) for part in parts], 0))


def part_power(part: Part, counts: Counts) -> Array:
    """The deviate of the exact test's p-value (one rate), or the margin over its deviation; counts may be fractions."""
    (coefficient, rate), *others = part.terms
    if not others and not rate.is_count:
        k, n = rate.successes(counts), rate.trials(counts)
        k = k if coefficient > 0 else n - k
        bound = -part.constant / coefficient if coefficient > 0 else 1.0 + part.constant / coefficient
        return tail_deviate(k, n, min(max(bound, 1e-9), 1.0 - 1e-9))
    margin, variance = part.margin(counts), np.zeros_like(counts.cells()[..., 0])
    for c, one in part.terms:
        unit = one.trials(counts) if one.is_count else 1.0
        of_rows = Rate(one.name, one.numerator, rows_of(one), one.conditions)
        k, n = of_rows.successes(counts), of_rows.trials(counts)
        smooth = (k + 1.0) / (n + 2.0)  # no share of a sample is known without error
        variance = variance + (c * unit) ** 2 * smooth * (1.0 - smooth) / np.maximum(n, 1e-9)
    power = margin / np.sqrt(np.maximum(variance, 1e-18))
    return np.where(np.isnan(power), -math.inf, power)
