"""The question of the command's words: an objective under bounds that mean something."""

from __future__ import annotations

from collections.abc import Sequence

from ...constraints import Constraint
from ...constraints.expressions import Gap, Rate, Worst
from ...constraints.parse import LabelOf, parse_constraint, parse_objective
from ...decisions import Problem
from ...errors import InputError


def asked(
    maximize: str | None,
    minimize: str | None,
    subject_to: Sequence[str],
    label_of: LabelOf | None = None,
    example: str = "precision >= 0.9",
) -> Problem:
    """Raises `InputError` without one objective, without a constraint, and for bounds that say nothing or too much."""
    if (maximize is None) == (minimize is None):
        raise InputError("maximize", "both or neither of --maximize and --minimize", "one of them")
    if not subject_to:
        raise InputError("subject-to", "nothing", "at least one constraint", f'--subject-to "{example}"')
    objective = parse_objective(maximize or minimize or "", label_of)
    constraints = [parse_constraint(text, label_of) for text in subject_to]
    for constraint, text in zip(constraints, subject_to, strict=True):
        _refuse_ends(constraint, text)
    return Problem("maximize" if minimize is None else "minimize", objective, constraints)


def _refuse_ends(constraint: Constraint, text: str) -> None:
    """A share of 0 or 1: no decision can break the bound, or no number of rows can show that it is kept."""
    left = constraint.left
    rate = left.rate if isinstance(left, Gap | Worst) else left
    if not isinstance(rate, Rate) or rate.is_count or constraint.bound not in (0.0, 1.0):
        return
    empty = (constraint.bound == 0.0) == (constraint.sense == ">=")
    why = "Every decision keeps it: leave it out." if empty else "No number of rows can show that it is kept."
    raise InputError("subject-to", repr(text), "a bound between 0 and 1", why)
