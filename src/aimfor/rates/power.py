"""How clearly a test would accept: every inequality's distance inside its bound, in standard deviations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .binomial import tail_deviate
from .counts import Counts
from .expressions import Rate
from .parts import Part
from .relations import rows_of


def parts_power(parts: Sequence[Part], counts: Counts) -> Tensor:
    """The least power of all parts: together they are accepted where it exceeds the critical z; ``(*lead,)``."""
    return torch.stack([part_power(part, counts) for part in parts]).amin(0)


def part_power(part: Part, counts: Counts) -> Tensor:
    """The deviate of the exact test's p-value (one rate), or the margin over its deviation; counts may be fractions."""
    (coefficient, rate), *others = part.terms
    if not others and not rate.is_count:
        k, n = rate.successes(counts), rate.trials(counts)
        k = k if coefficient > 0 else n - k
        bound = -part.constant / coefficient if coefficient > 0 else 1.0 + part.constant / coefficient
        return tail_deviate(k, n, min(max(bound, 1e-9), 1.0 - 1e-9))
    margin, variance = part.margin(counts), torch.zeros_like(counts.cells()[..., 0])
    for c, one in part.terms:
        unit = one.trials(counts) if one.is_count else 1.0
        of_rows = Rate(one.name, one.numerator, rows_of(one), one.conditions)
        k, n = of_rows.successes(counts), of_rows.trials(counts)
        smooth = (k + 1.0) / (n + 2.0)  # no share of a sample is known without error
        variance = variance + (c * unit) ** 2 * smooth * (1.0 - smooth) / n.clamp_min(1e-9)
    power = margin / variance.clamp_min(1e-18).sqrt()
    return torch.where(power.isnan(), torch.full_like(power, -math.inf), power)
