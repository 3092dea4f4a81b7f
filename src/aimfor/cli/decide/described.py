"""What page and JSON file show beside a threshold: the curve, what other bounds would cost, and choices.

Choices are what other floors and confidences would give: chosen after looking, by bounds that hold everywhere at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...constraints import Constraint
from ...constraints.counts import Array, Counts, empty_levels, encode
from ...constraints.expressions import LinearSum, Rate
from ...constraints.inequalities import all_inequalities
from ...decisions import Decision, Problem
from ...decisions.band import Band, band
from ...decisions.certificate import plain_value
from ...decisions.price import MOST_TIMES, kept_bounds, rounded
from ...decisions.rows import Rows as LabelledRows
from ...decisions.rows import checked_rows
from ...decisions.sweep import candidates, objective_value, spaced, sweep
from ...decisions.task import learning_pairs
from ...errors import InputError
from .result import Beside, Groups, amount, in_a_clause, kept

#: Thresholds of the page's curve, and other bounds whose price is shown.
CURVE_POINTS = 120
OTHER_BOUNDS = (-0.1, -0.05, -0.02, 0.02, 0.05, 0.1)
#: Confidences of the page, beside the one that was asked for.
CONFIDENCES = (0.8, 0.9, 0.95, 0.99)
#: Steps of the slider for a bound, on either side of the one asked for, and the most that they reach.
STEP, REACH = 0.01, 0.25
#: Scores, labels, group codes and clusters (or None) of the calibration rows.
Rows = tuple[Any, Any, Mapping[str, Any], Any]


def described(
    problem: Problem,
    decision: Decision,
    rows: Rows,
    decide: Callable[[Problem], Decision],
    *,
    learn: Any = "split",
    groups: Groups | None = None,
    other_bounds: Callable[[float], list[float]] | None = None,
) -> Beside:
    """What stands beside a decision.

    Args:
        problem: What was asked.
        decision: The answer.
        rows: The labelled rows.
        decide: Answers the same question with other constraints, on the same rows.
        learn: What ordered the tests.
        groups: The file's words for the labels of groups.
        other_bounds: Bounds to price instead of this one; by default a few points more and less.
    """
    batch = checked_rows("score", *rows[:3], cluster=rows[3])
    learning, calibration = learning_pairs(batch, learn)[0]
    return Beside(
        _curve(problem, calibration),
        _prices(problem, decide, other_bounds or _nearby),
        _choices(problem, decision, learning, calibration, len(batch), groups or {}),
    )


def _choices(
    problem: Problem, decision: Decision, learning: LabelledRows, calibration: LabelledRows, files: int, groups: Groups
) -> dict[str, Any] | None:
    """None where one band cannot hold them: a threshold for each group, or rows that no band takes."""
    if decision.attribute is not None or decision.guarantee is None or not problem.constraints:
        return None
    other = (learning.scores, learning.targets, learning.groups, learning.cluster)
    confidence = decision.guarantee.confidence
    confidences = sorted({*CONFIDENCES, confidence}) if calibration.cluster is None else [confidence]
    try:
        bands = [band(problem, calibration, level, other) for level in confidences]
    except InputError:
        return None
    return choices(problem, confidence, calibration, files, groups, bands)


def _curve(problem: Problem, calibration: LabelledRows) -> dict[str, list[float | None]]:
    """Objective and the left side of each constraint over thresholds, on the calibration rows."""
    thresholds = candidates(calibration.scores, calibration.targets)
    thresholds = thresholds[spaced((0, len(thresholds) - 1), CURVE_POINTS)]
    counts, goal = _swept(problem, calibration, thresholds)
    lines = {"threshold": thresholds.tolist(), repr(problem.objective): _plain(_sign(problem) * goal)}
    each = [Counts(counts.levels, table) for table in counts.table]
    for constraint in problem.constraints:
        lines[repr(constraint.left)] = _plain([plain_value(constraint.left, at, constraint.sense) for at in each])
    return lines


def _swept(problem: Problem, rows: LabelledRows, thresholds: Array) -> tuple[Counts, Array]:
    """Counts at each threshold, and the objective there, more of it being better."""
    codes, levels = encode(rows.groups, len(rows), empty_levels(problem.attributes))
    counts = sweep(rows, codes, levels, thresholds)
    return counts, objective_value(problem.objective, counts, _sign(problem))


def _sign(problem: Problem) -> float:
    return 1.0 if problem.direction == "maximize" else -1.0


def _plain(values: Iterable[float]) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def _prices(
    problem: Problem,
    decide: Callable[[Problem], Decision],
    other_bounds: Callable[[float], list[float]],
) -> list[dict[str, Any]]:
    """What the objective would be, on the calibration rows, with each bound a little looser or tighter.

    Every line is an answer to its own question at the full confidence. Whoever picks a line after looking at all of
    them has no guarantee for that choice; the page says so.
    """
    lines = []
    for position, constraint in enumerate(problem.constraints):
        if isinstance(constraint.left, Rate) and constraint.left.is_count:
            continue
        for bound in (bound for bound in other_bounds(constraint.bound) if 0.0 < bound < 1.0):
            other = replace(constraint, bound=bound)
            constraints = [*problem.constraints[:position], other, *problem.constraints[position + 1 :]]
            try:
                decision = decide(Problem(problem.direction, problem.objective, constraints))
            except InputError:  # contradicts another constraint, or is out of reach: no line
                continue
            threshold, at = decision.threshold, decision.certificate
            objective = None if threshold is None or at is None else at.objective_value
            lines.append(
                {"constraint": repr(other), "objective": objective, "threshold": threshold, "place": position,
                 "bound": bound}
            )  # fmt: skip
    return lines


def _nearby(bound: float) -> list[float]:
    return [round(bound + change, 6) for change in OTHER_BOUNDS]


def choices(
    problem: Problem, confidence: float, rows: LabelledRows, files: int, groups: Groups, bands: Sequence[Band]
) -> dict[str, Any]:
    """A grid of bounds × confidences with the best threshold of each, for every constraint.

    Args:
        problem: What was asked.
        confidence: With which it was asked.
        rows: The calibration rows.
        files: Labelled rows of the file, in which missing labels are counted.
        groups: The file's words for groups.
        bands: The simultaneous band at every confidence, on one grid of thresholds.
    """
    does, would = kept(problem.objective, groups)
    confidences = [band.confidence for band in bands]
    return {
        "kept": does,
        "would": would,
        "confidences": confidences,
        "confidence": confidences.index(confidence),
        "thresholds": list(bands[0].thresholds),
        "objective": [_amount(problem, value) for value in _plain(bands[0].objective)],
        "constraints": [_of_constraint(problem, own, bands, rows, files, groups) for own in problem.constraints],
    }


def _amount(problem: Problem, value: float | None) -> str | None:
    return None if value is None else amount(problem.objective, value)


def _of_constraint(
    problem: Problem, own: Constraint, bands: Sequence[Band], rows: LabelledRows, files: int, groups: Groups
) -> dict[str, Any]:
    """The grid of one constraint, the others as they were asked for."""
    bounds = _bounds(own)
    others = [constraint for constraint in problem.constraints if constraint is not own]
    changed = [[replace(own, bound=bound), *others] for bound in bounds]
    without = _without(problem, changed, rows)
    cells = [[_cell(problem, constraints, band, best, files)
              for constraints, best in zip(changed, without, strict=True)] for band in bands]  # fmt: skip
    line = f"{own.left!r} {own.sense}"
    return {
        "line": line,
        "bounds": bounds,
        "asked": bounds.index(own.bound),
        "words": [in_a_clause(replace(own, bound=bound), groups) for bound in bounds],
        "without": [_amount(problem, best) for best in without],
        "cells": cells,
        "band": [_plain(band.lines[line].bound) for band in bands],
        "values": _plain(bands[0].lines[line].value),
    }


def _bounds(own: Constraint) -> list[float]:
    """Around the bound asked for: hundredths for shares, tenths of it for counts."""
    left = own.left
    rates = [rate for _, rate in left.terms] if isinstance(left, Rate | LinearSum) else []
    if any(rate.is_count for rate in rates):
        bounds = {round(own.bound * tenth / 10.0, 6) for tenth in range(1, 31)}
    else:
        low, high = (-1.0, 1.0) if isinstance(left, LinearSum) else (0.0, 1.0)
        steps = range(round((own.bound - REACH) / STEP), round((own.bound + REACH) / STEP) + 1)
        bounds = {round(step * STEP, 6) for step in steps if low < step * STEP < high}
    return sorted({*bounds, own.bound})


def _without(problem: Problem, changed: list[list[Constraint]], rows: LabelledRows) -> list[float | None]:
    """The best objective on these rows where each list of constraints holds on them, with no promise."""
    counts, goal = _swept(problem, rows, candidates(rows.scores, rows.targets))
    within = [kept_bounds(all_inequalities(constraints, counts.levels), counts) for constraints in changed]
    return _plain([_sign(problem) * float(np.where(inside, goal, -math.inf).max()) for inside in within])


def _cell(
    problem: Problem, constraints: list[Constraint], band: Band, without: float | None, files: int
) -> list[int | None]:
    """The position of the threshold, and the labels that are missing: for any, or to halve what the promise costs."""
    chosen = band.step(*constraints)
    if without is None:
        return [chosen, None]
    sign = _sign(problem)
    goal = sign * np.array(band.objective)
    if chosen is None:
        enough = np.isfinite(goal)
    elif goal[chosen] >= sign * without:
        return [chosen, 0]
    else:
        enough = goal >= 0.5 * (goal[chosen] + sign * without)
    times = _times(constraints, band)[enough]
    least = float(times.min()) if len(times) else math.inf
    return [chosen, rounded(math.ceil(max(least - 1.0, 0.0) * files)) if least <= MOST_TIMES else None]


def _times(constraints: list[Constraint], band: Band) -> Array:
    """How many times the rows each threshold would need: a bound's distance falls with the root of their number."""
    times = np.ones(len(band.thresholds))
    for constraint in constraints:
        line = band.lines[f"{constraint.left!r} {constraint.sense}"]
        value, bound = np.array(line.value), np.array(line.bound)
        sign = 1.0 if constraint.sense == ">=" else -1.0
        room, width = sign * (value - constraint.bound), sign * (value - bound)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(room > 0, (width / room) ** 2, math.inf)
        times = np.maximum(times, np.where(np.isnan(needed), math.inf, needed))
    return times
