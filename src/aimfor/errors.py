"""The exception tree. Every message says what came, what was expected, and the next move."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable

__all__ = [
    "AimforError",
    "CopiesWarning",
    "DegenerateBatchWarning",
    "InputError",
    "OddRowsWarning",
    "ProbabilityWarning",
    "SolverError",
    "UnsupportedPairError",
]


class AimforError(Exception):
    """The root of everything aimfor raises on purpose."""


class InputError(AimforError, ValueError):
    """An argument is wrong. Raised before any state changes."""

    def __init__(self, argument: str, came: str, expected: str, remedy: str = "") -> None:
        self.argument = argument
        self.came = came
        self.expected = expected
        self.remedy = remedy
        text = f"{argument}: got {came}, expected {expected}."
        super().__init__(f"{text} {remedy}" if remedy else text)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str, str]]:
        # Exception's own pickling would hand the finished text to __init__ as one argument.
        return type(self), (self.argument, self.came, self.expected, self.remedy)


class UnsupportedPairError(AimforError, TypeError):
    """This metric cannot be trained by this engine. The message lists what can."""


class SolverError(AimforError, RuntimeError):
    """A solver gave up and the caller asked for an exception (``on_failure="raise"``)."""


class OddRowsWarning(UserWarning):
    """New rows hold levels that training did not see, values far out of its range, or words among numbers."""


class CopiesWarning(UserWarning):
    """Rows of a training table are copies of others, more than chance explains."""


class DegenerateBatchWarning(UserWarning):
    """A batch left the metric undefined (no positive, one class, all masked): loss 0, gradient 0."""


class ProbabilityWarning(UserWarning):
    """Scores that are probabilities are decided at a threshold of 0, where all of them are positive."""


class Interrupted(AimforError):
    """The user stopped the run; its state is saved."""


def refusal(attempt: Callable[[], object], kind: type[AimforError] = AimforError) -> str | None:
    """The sentence with which something is refused, or None where it goes through."""
    try:
        attempt()
    except kind as error:
        return str(error)
    return None


def nearest(name: str, names: Iterable[str]) -> str:
    """'Did you mean …?' with the closest known name, or the list of them; nothing where none is known."""
    names = list(names)
    if not names:
        return ""
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if near:
        return f"Did you mean {lowered[near[0]]!r}?"
    return "There are: " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "") + "."


def callers_level() -> int:
    """How far up the stack the user's own line is, past this package and torch, for `warnings.warn` in the caller."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("aimfor", "torch"):
        level, frame = level + 1, frame.f_back
    return level + 1
