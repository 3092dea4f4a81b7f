"""The question of the command's words: an objective under bounds that mean something."""

from __future__ import annotations

from collections.abc import Sequence

from ...constraints.parse import LabelOf, parse_constraint, parse_objective
from ...constraints.reachable import refuse_ends
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
    refuse_ends(constraints, "subject-to")
    return Problem("maximize" if minimize is None else "minimize", objective, constraints)
