"""What page and JSON file say about a decision beside its thresholds: verdict, curve, other bounds, choices.

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
from ...constraints.parts import all_parts
from ...decisions import Decision, Problem
from ...decisions.asked import learning_pairs
from ...decisions.band import Band, band
from ...decisions.bounds import plain_value
from ...decisions.price import MOST_TIMES, kept_bounds, rounded
from ...decisions.rows import Rows as LabelledRows
from ...decisions.rows import checked_rows
from ...decisions.sweep import candidates, objective_value, spaced, sweep
from ...errors import InputError
from .spoken import Groups, amount, kept, promised, promises, verdict

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
    use: str | None = None,
) -> dict[str, Any]:
    """Plain data for JSON.

    Args:
        problem: What was asked.
        decision: What was found.
        rows: The labelled rows.
        decide: Answers the same question with other constraints, on the same rows.
        learn: What ordered the tests.
        groups: The file's words for the labels of groups.
        other_bounds: Bounds to price instead of this one; by default a few points more and less.
        use: How the verdict names the threshold.
    """
    batch = checked_rows("score", *rows[:3], cluster=rows[3])
    learned, calibration = learning_pairs(batch, learn)[0]
    prices = _prices(problem, decide, other_bounds or _nearby)
    return {
        "verdict": verdict(problem, decision, groups or {}, use),
        "problem": repr(problem),
        "direction": problem.direction,
        "objective": repr(problem.objective),
        "constraints": [repr(constraint) for constraint in promises(problem, decision)],
        "certificate": None if decision.certificate is None else decision.certificate.to_dict(),
        "curve": _curve(problem, calibration),
        "prices": prices,
        "choices": _choices(problem, decision, learned, calibration, len(batch), groups or {}),
    }


def _choices(
    problem: Problem, decision: Decision, learned: LabelledRows, calibration: LabelledRows, files: int, groups: Groups
) -> dict[str, Any] | None:
    """None where one band cannot hold them: a threshold for each group, or rows that no band takes."""
    if decision.attribute is not None or decision.guarantee is None or not problem.constraints:
        return None
    other = (learned.scores, learned.targets, learned.groups, learned.cluster)
    asked = decision.guarantee.confidence
    confidences = sorted({*CONFIDENCES, asked}) if calibration.cluster is None else [asked]
    try:
        bands = [band(problem, calibration, confidence, other) for confidence in confidences]
    except InputError:
        return None
    return choices(problem, asked, calibration, files, groups, bands)


def _curve(problem: Problem, calibration: LabelledRows) -> dict[str, list[float | None]]:
    """Objective and the left side of each constraint over thresholds, on the calibration rows."""
    cuts = candidates(calibration.scores, calibration.targets)
    cuts = cuts[spaced((0, len(cuts) - 1), CURVE_POINTS)]
    counts, goal = _swept(problem, calibration, cuts)
    lines = {"threshold": cuts.tolist(), repr(problem.objective): _plain(_sign(problem) * goal)}
    each = [Counts(counts.levels, table) for table in counts.table]
    for one in problem.constraints:
        lines[repr(one.left)] = _plain([plain_value(one.left, at, one.sense) for at in each])
    return lines


def _swept(problem: Problem, rows: LabelledRows, cuts: Array) -> tuple[Counts, Array]:
    """Counts at each threshold, and the objective there, more of it being better."""
    codes, levels = encode(rows.groups, len(rows), empty_levels(problem.attributes))
    counts = sweep(rows, codes, levels, cuts)
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
    for place, constraint in enumerate(problem.constraints):
        if isinstance(constraint.left, Rate) and constraint.left.is_count:
            continue
        for bound in (one for one in other_bounds(constraint.bound) if 0.0 < one < 1.0):
            other = replace(constraint, bound=bound)
            constraints = [*problem.constraints[:place], other, *problem.constraints[place + 1 :]]
            try:
                found = decide(Problem(problem.direction, problem.objective, constraints))
            except InputError:  # contradicts another constraint, or is out of reach: no line
                continue
            cut, at = found.threshold, found.certificate
            reached = None if cut is None or at is None else at.objective_value
            lines.append(
                {"constraint": repr(other), "objective": reached, "threshold": cut, "place": place, "bound": bound}
            )
    return lines


def _nearby(bound: float) -> list[float]:
    return [round(bound + change, 6) for change in OTHER_BOUNDS]


def choices(
    problem: Problem, asked: float, rows: LabelledRows, files: int, groups: Groups, bands: Sequence[Band]
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
    does, would = kept(problem.objective, groups)
    sure = [band.confidence for band in bands]
    return {
        "kept": does,
        "would": would,
        "confidences": sure,
        "confidence": sure.index(asked),
        "thresholds": list(bands[0].thresholds),
        "objective": [None if one is None else amount(problem.objective, one) for one in _plain(bands[0].objective)],
        "constraints": [
            _of_constraint(problem, place, bands, rows, files, groups) for place in range(len(problem.constraints))
        ],
    }


def _of_constraint(
    problem: Problem, place: int, bands: Sequence[Band], rows: LabelledRows, files: int, groups: Groups
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
        "band": [_plain(band.lines[line].bound) for band in bands],
        "values": _plain(bands[0].lines[line].value),
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


def _without(problem: Problem, changed: list[list[Constraint]], rows: LabelledRows) -> list[float | None]:
    """The best objective on these rows where each list of constraints holds on them, with no promise."""
    counts, goal = _swept(problem, rows, candidates(rows.scores, rows.targets))
    within = [kept_bounds(all_parts(constraints, counts.levels), counts) for constraints in changed]
    best = [float(np.where(one, goal, -math.inf).max()) for one in within]
    return [None if one == -math.inf else _sign(problem) * one for one in best]


def _cell(
    problem: Problem, constraints: list[Constraint], band: Band, without: float | None, files: int
) -> list[int | None]:
    """The place of the threshold, and the labels that are missing: for any, or to halve what the promise costs."""
    place = band.place(*constraints)
    if without is None:
        return [place, None]
    sign = _sign(problem)
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
