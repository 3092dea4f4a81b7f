"""What other floors and confidences would give: chosen after looking, by bounds that hold everywhere at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...constraints import Constraint
from ...constraints.counts import Array, empty_levels, encode
from ...constraints.expressions import LinearSum, Rate
from ...constraints.parts import all_parts
from ...decisions import Problem
from ...decisions.band import Band
from ...decisions.price import kept_bounds, rounded
from ...decisions.rows import Rows
from ...decisions.sweep import candidates, objective_value, sweep
from .spoken import Groups, amount, kept, promised

#: Confidences of the page, beside the one that was asked for.
CONFIDENCES = (0.8, 0.9, 0.95, 0.99)
#: Steps of the slider for a bound, on either side of the one asked for, and the most that they reach.
STEP, REACH = 0.01, 0.25
#: More labels than this many times those at hand are not forecast.
MOST_TIMES = 1000.0


def choices(
    problem: Problem, asked: float, rows: Rows, files: int, groups: Groups, bands: Sequence[Band]
) -> dict[str, Any]:
    """A grid of bounds × confidences with the best threshold of each, for every constraint.

    Args:
        problem: What was asked.
        asked: The confidence with which it was asked.
        rows: The calibration rows.
        files: Labelled rows of the file, in which missing labels are counted.
        groups: The file's words for groups.
        bands: The simultaneous band at every confidence, on one grid of thresholds.
    """
    goal = [_finite(one) for one in bands[0].objective]
    does, would = kept(problem.objective, groups)
    sure = [band.confidence for band in bands]
    return {
        "kept": does,
        "would": would,
        "confidences": sure,
        "confidence": sure.index(asked),
        "thresholds": list(bands[0].thresholds),
        "objective": [None if one is None else amount(problem.objective, one) for one in goal],
        "constraints": [
            _of_constraint(problem, place, bands, rows, files, groups) for place in range(len(problem.constraints))
        ],
    }


def _of_constraint(
    problem: Problem, place: int, bands: Sequence[Band], rows: Rows, files: int, groups: Groups
) -> dict[str, Any]:
    """The grid of one constraint, the others as they were asked for."""
    asked = problem.constraints[place]
    bounds = _bounds(asked)
    others = [one for one in problem.constraints if one is not asked]
    changed = [[replace(asked, bound=bound), *others] for bound in bounds]
    without = _without(problem, changed, rows)
    cells = [[_cell(problem, one, band, best, files) for one, best in zip(changed, without, strict=True)]
             for band in bands]  # fmt: skip
    line = f"{asked.left!r} {asked.sense}"
    return {
        "line": line,
        "bounds": bounds,
        "asked": bounds.index(asked.bound),
        "words": [promised(replace(asked, bound=bound), groups) for bound in bounds],
        "without": [None if best is None else amount(problem.objective, best) for best in without],
        "cells": cells,
        "band": [[_finite(one) for one in band.lines[line].bound] for band in bands],
        "values": [_finite(one) for one in bands[0].lines[line].value],
    }


def _bounds(asked: Constraint) -> list[float]:
    """Around the bound asked for: hundredths for shares, tenths of it for counts."""
    left = asked.left
    rates = [rate for _, rate in left.terms] if isinstance(left, Rate | LinearSum) else []
    if any(rate.is_count for rate in rates):
        found = {round(asked.bound * tenth / 10.0, 6) for tenth in range(1, 31)}
    else:
        low, high = (-1.0, 1.0) if isinstance(left, LinearSum) else (0.0, 1.0)
        steps = range(round((asked.bound - REACH) / STEP), round((asked.bound + REACH) / STEP) + 1)
        found = {round(step * STEP, 6) for step in steps if low < step * STEP < high}
    return sorted({*found, asked.bound})


def _without(problem: Problem, changed: list[list[Constraint]], rows: Rows) -> list[float | None]:
    """The best objective on these rows where each list of constraints holds on them, with no promise."""
    codes, levels = encode(rows.groups, len(rows), empty_levels(problem.attributes))
    counts = sweep(rows, codes, levels, candidates(rows.scores, rows.targets))
    sign = 1.0 if problem.direction == "maximize" else -1.0
    goal = objective_value(problem.objective, counts, sign)
    found: list[float | None] = []
    for constraints in changed:
        best = np.where(kept_bounds(all_parts(constraints, levels), counts), goal, -math.inf).max()
        found.append(None if best == -math.inf else float(sign * best))
    return found


def _cell(
    problem: Problem, constraints: list[Constraint], band: Band, without: float | None, files: int
) -> list[int | None]:
    """The place of the threshold, and the labels that are missing: for any, or to halve what the promise costs."""
    place = band.place(*constraints)
    if without is None:
        return [place, None]
    sign = 1.0 if problem.direction == "maximize" else -1.0
    goal = sign * np.array(band.objective)
    if place is None:
        enough = np.isfinite(goal)
    elif goal[place] >= sign * without:
        return [place, 0]
    else:
        enough = goal >= 0.5 * (goal[place] + sign * without)
    times = _times(constraints, band)[enough]
    least = float(times.min()) if len(times) else math.inf
    return [place, rounded(math.ceil(max(least - 1.0, 0.0) * files)) if least <= MOST_TIMES else None]


def _times(constraints: list[Constraint], band: Band) -> Array:
    """How many times the rows each threshold would need: a bound's distance falls with the root of their number."""
    times = np.ones(len(band.thresholds))
    for one in constraints:
        line = band.lines[f"{one.left!r} {one.sense}"]
        value, bound = np.array(line.value), np.array(line.bound)
        sign = 1.0 if one.sense == ">=" else -1.0
        room, width = sign * (value - one.bound), sign * (value - bound)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(room > 0, (width / room) ** 2, math.inf)
        times = np.maximum(times, np.where(np.isnan(needed), math.inf, needed))
    return times


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
