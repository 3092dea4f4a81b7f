"""What page and JSON file say about a decision beside its thresholds: verdict, curve, other bounds, choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...constraints import Constraint
from ...constraints.counts import Counts, empty_levels, encode
from ...constraints.expressions import Expression, Rate
from ...decisions import Decision, Problem
from ...decisions.asked import learning_pairs
from ...decisions.band import band
from ...decisions.bounds import plain_value
from ...decisions.rows import Rows as LabelledRows
from ...decisions.rows import checked_rows
from ...decisions.sweep import candidates, objective_value, spaced, sweep
from ...errors import InputError
from .choices import CONFIDENCES, choices
from .spoken import Groups, promises, verdict

#: Thresholds of the page's curve, and other bounds whose price is shown.
CURVE_POINTS = 120
OTHER_BOUNDS = (-0.1, -0.05, -0.02, 0.02, 0.05, 0.1)
#: Scores, labels, group codes and, where rows have them, clusters of the calibration rows.
Rows = tuple[Any, Any, Mapping[str, Any]] | tuple[Any, Any, Mapping[str, Any], Any]


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
    batch = checked_rows("score", *rows[:3], cluster=rows[3] if len(rows) == 4 else None)
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
    codes, levels = encode(calibration.groups, len(calibration), empty_levels(problem.attributes))
    cuts = candidates(calibration.scores, calibration.targets)
    cuts = cuts[spaced((0, len(cuts) - 1), CURVE_POINTS)]
    counts = sweep(calibration, codes, levels, cuts)
    sign = 1.0 if problem.direction == "maximize" else -1.0
    goal = (sign * objective_value(problem.objective, counts, sign)).tolist()
    lines: dict[str, list[float | None]] = {"threshold": cuts.tolist(), repr(problem.objective): _plain(goal)}
    for constraint in problem.constraints:
        values = [
            plain_value(constraint.left, Counts(levels, counts.table[i]), constraint.sense) for i in range(len(cuts))
        ]
        lines[repr(constraint.left)] = _plain(values)
    return lines


def _plain(values: list[float]) -> list[float | None]:
    return [value if value == value and abs(value) != float("inf") else None for value in values]


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
        for bound in other_bounds(constraint.bound):
            if _counted(constraint) or not 0.0 < bound < 1.0:
                continue
            other = replace(constraint, bound=bound)
            constraints = [*problem.constraints[:place], other, *problem.constraints[place + 1 :]]
            try:
                changed = Problem(problem.direction, problem.objective, constraints)
                found = decide(changed)
            except InputError:  # contradicts another constraint, or is out of reach: no line
                continue
            given = found.threshold is not None and found.certificate is not None
            reached = found.certificate.objective_value if given and found.certificate else None
            lines.append(
                {"constraint": repr(other), "objective": reached, "threshold": found.threshold, "place": place,
                 "bound": bound}
            )  # fmt: skip
    return lines


def _nearby(bound: float) -> list[float]:
    return [round(bound + change, 6) for change in OTHER_BOUNDS]


def _counted(constraint: Constraint) -> bool:
    left: Expression = constraint.left
    return isinstance(left, Rate) and left.is_count
