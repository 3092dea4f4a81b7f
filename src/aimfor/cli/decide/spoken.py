"""A decision in the words of somebody who acts on it: what is promised, what is kept, what the promise costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...constraints.expressions import Constraint, Expression, Gap, Rate, Worst
from ...constraints.parse import parse_constraint
from ...decisions import Decision, Problem
from ...decisions.price import rounded
from .rows import in_words

Groups = Mapping[str, Sequence[str]]
#: Of each rate: whose share it is, and what is said of that share.
_SHARES = {
    "precision": ("flagged cases", "are right"),
    "recall": ("positive cases", "are found"),
    "fnr": ("positive cases", "are missed"),
    "fpr": ("other cases", "are flagged"),
    "tnr": ("other cases", "are left alone"),
    "npv": ("cases not flagged", "are rightly left alone"),
    "positive_rate": ("cases", "are flagged"),
    "accuracy": ("decisions", "are right"),
    "error_rate": ("decisions", "are wrong"),
    "error": ("decisions", "are wrong"),
    "coverage": ("cases", "are decided"),
}
#: Of rates as objectives: what "it" does, what it would do, and to whose share.
_DOES = {
    "recall": ("finds", "find", "of the positive cases"),
    "fnr": ("misses", "miss", "of the positive cases"),
    "fpr": ("flags", "flag", "of the other cases"),
    "tnr": ("leaves alone", "leave alone", "of the other cases"),
    "positive_rate": ("flags", "flag", "of all cases"),
    "coverage": ("decides", "decide", "of all cases"),
    "accuracy": ("is right in", "be right in", "of all cases"),
    "error_rate": ("is wrong in", "be wrong in", "of all cases"),
    "precision": ("is right in", "be right in", "of the flagged cases"),
    "npv": ("is right in", "be right in", "of the cases not flagged"),
}


def promised(constraint: Constraint, groups: Groups) -> str:
    """One constraint as a clause: "at least 90 of 100 flagged cases are right"."""
    left, limit = constraint.left, "at least" if constraint.sense == ">=" else "at most"
    rate = left.rate if isinstance(left, Gap | Worst) else left
    if not isinstance(rate, Rate) or rate.name not in _SHARES:
        return in_words(repr(constraint), groups)
    whose, done = _SHARES[rate.name]
    where = "".join(f"where {name} is {_label(groups, name, label)}, " for name, label in rate.conditions)
    if isinstance(left, Gap):
        return (
            f"{where}the share of {whose} that {done} differs by at most {100 * constraint.bound:.10g} points between "
            f"any two values of {left.attribute}"
        )
    if isinstance(left, Worst):
        where += f"for every value of {left.attribute}, "
    return f"{where}{limit} {out_of(constraint.bound)} {whose} {done}"


def kept(objective: Expression, groups: Groups) -> tuple[str, str]:
    """Two clauses with a place ``{}`` for the value: what it does, and what it would do without the promise."""
    if isinstance(objective, Rate) and objective.name in _DOES:
        does, would, whose = _DOES[objective.name]
        where = "".join(f" where {name} is {_label(groups, name, label)}" for name, label in objective.conditions)
        return f"it {does} {{}} {whose}{where}", f"without the promise it would {would} {{}}"
    name = in_words(repr(objective), groups)
    return f"{name} is {{}}", "without the promise it would be {}"


def amount(objective: Expression, value: float) -> str:
    """A share in percent, any other value as a number."""
    if isinstance(objective, Rate) and not objective.is_count:
        return f"{100 * value:.1f} %" if 0.0 < min(value, 1.0 - value) < 0.095 else f"{100 * value:.0f} %"
    return f"{value:.4g}"


def promises(problem: Problem, decision: Decision) -> Sequence[Constraint]:
    """The constraints; without any, the bound on the objective that is promised instead."""
    assert decision.guarantee is not None
    return problem.constraints or (parse_constraint(decision.guarantee.promise),)


def verdict(problem: Problem, decision: Decision, groups: Groups, use: str | None = None) -> str:
    """What comes first: the threshold, the promise, what is kept and what would be without it; or what is missing."""
    promise = decision.guarantee
    assert promise is not None
    clauses = "; and ".join(promised(one, groups) for one in promises(problem, decision))
    sure = f"{100 * promise.confidence:g} % confidence"
    if decision.threshold is None:
        more = "" if promise.more is None else f" About {rounded(promise.more):,} more labelled cases would be needed."
        effort = ", ".join(f"{cut:.10g}" for cut in promise.best_effort)
        best = f" Best effort, nothing is promised: {effort}." if effort else ""
        return f"No threshold can be promised. Not shown with {sure}: {clauses}.{more}{best}"
    if decision.attribute is None:
        first = (use or "Use {}.").format(f"{decision.threshold:.10g}")
    else:
        first = f"Use a threshold of its own for every value of {decision.attribute}."
    if promise.copies:
        copied = f"Not yet: {promise.copies:,} rows are copies of others, which breaks the promise; leave them out."
        first = f"{copied} {first}"
    price = promise.price
    if price is None:
        return f"{first} {_sentence(clauses)}, with {sure}."
    does, would = kept(problem.objective, groups)
    cost = does.format(amount(problem.objective, price.kept))
    if problem.constraints:
        cost += f"; {would.format(amount(problem.objective, price.without))}"
    careful = f"Careful, this is nearly {price.nearly}. " if price.nearly else ""
    return f"{careful}{first} {_sentence(clauses)}, with {sure}. {_sentence(cost)}."


def grounds(problem: Problem, decision: Decision) -> str:
    """What the verdict leaves out: rows, exact numbers and what is missing, then each bound's value on these rows."""
    promise = decision.guarantee
    assert promise is not None
    sure = f"{100 * promise.confidence:g}% confidence"
    said = promise.sentence.replace(f"{promise.promise}: guaranteed at {sure} by", "Shown by")
    said = said.replace(f"No threshold: {promise.promise} cannot be guaranteed at {sure}. ", "")
    if decision.threshold is None or decision.certificate is None:
        return said
    found = zip(promises(problem, decision), decision.certificate.findings, strict=True)
    values = (
        f"{one.left!r} is {on.value:.4f} on these rows, confidence bounds {on.low:.4f} to {on.high:.4f}"
        for one, on in found
    )
    return f"{said} {'; '.join(values)}."


def out_of(share: float) -> str:
    """A share as so many of 100, 1,000, …: "90 of 100", "995 of 1,000"."""
    for whole in (100, 1_000, 10_000, 100_000):
        part = share * whole
        if abs(part - round(part)) < 1e-6:
            return f"{round(part):,} of {whole:,}"
    return f"{100 * share:.6g} % of"


def _label(groups: Groups, name: str, label: float | str) -> str:
    if isinstance(label, str):
        return label
    known = groups.get(name, ())
    return known[int(label)] if label == int(label) and 0 <= label < len(known) else f"{label:g}"


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:]
