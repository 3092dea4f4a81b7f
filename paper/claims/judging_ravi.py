"""Judges of Ravi's and Venkatesh's claims about the algorithm itself, from recorded benchmarks on linear problems."""

from __future__ import annotations

from .judging import Entries, Judgement, as_good

#: Certified values are in units of the optimum; a change of this share of it is called serious.
SERIOUS = 0.01
AGAINST = 'minus "1 always", share of the optimum'
ONCE_AGAINST_EVERY = "certified value, once minus every step"


def _interval(text: str) -> tuple[float, float]:
    """The two ends of "mean [low, high]"."""
    low, high = text.split("[")[1].rstrip("]").split(", ")
    return float(low), float(high)


def inner_schedules(entries: Entries) -> Judgement:
    """Growing numbers of inner loops against one always: lower is better, and `SERIOUS` is what counts."""
    growing = [row for row in entries if row["kind"] == "growing"]
    text = "; ".join(f"{row['inner loops']}: {row[AGAINST]}" for row in growing)
    serious = [row for row in growing if _interval(row[AGAINST])[1] < -SERIOUS]
    problems = growing[0]["problems"]
    numbers = f"distance from the optimum, growing minus constant ({problems} problems): {text}"
    return Judgement(numbers, "not confirmed" if serious else "confirmed")


def projections_on_programs(entries: Entries) -> Judgement:
    """One projection per epoch against one per step where the optimum is known: as good within `SERIOUS`."""
    once, every = entries
    gap = once[ONCE_AGAINST_EVERY]
    numbers = (
        f"distance from the optimum, once minus every step {gap} ({once['problems']} problems), "
        f"{once['projections per run']} projections against {every['projections per run']}, margin ± {SERIOUS:g}"
    )
    return Judgement(numbers, as_good(gap, SERIOUS))
