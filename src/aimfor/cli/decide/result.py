"""What `aimfor decide` has found, and the same in words of somebody who acts on it: the terminal, JSON and the page
read this and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import __version__
from ...constraints.expressions import Constraint, Expression, Gap, Rate, Worst
from ...constraints.parse import parse_constraint
from ...decisions import Decision, Guarantee, Problem
from ...decisions.price import rounded

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


def in_a_clause(constraint: Constraint, groups: Groups) -> str:
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


@dataclass(frozen=True)
class Beside:
    """What stands beside a threshold: rates by threshold, what other bounds would cost, and choices after looking."""

    curve: dict[str, list[Any]]
    prices: list[dict[str, Any]] = field(default_factory=list)
    choices: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """One question and its decision.

    Attributes:
        problem: The question.
        decision: With a threshold, or one for each label of a group, or none; its guarantee is never None.
        where: Words before each threshold: which rows it is for.
        beside: What stands beside it.
        name: The class, category or side; empty where there is one question only.
        use: How the verdict names the threshold.
    """

    problem: Problem
    decision: Decision
    where: Sequence[str]
    beside: Beside
    name: str = ""
    use: str = "Use {}."

    @property
    def guarantee(self) -> Guarantee:
        assert self.decision.guarantee is not None
        return self.decision.guarantee

    @property
    def thresholds(self) -> list[tuple[str, str]]:
        """Where, and what is promised there; nothing without a promise."""
        if self.decision.threshold is None:
            return []
        own = self.decision.thresholds.values() if self.decision.attribute else [self.decision.threshold]
        return [(rows, f"{threshold:.10g}") for rows, threshold in zip(self.where, own, strict=False)]

    @property
    def best_effort(self) -> list[tuple[str, str]]:
        """Where, and the best threshold there, about which nothing is promised; nothing where there is a promise."""
        own = () if self.thresholds else self.guarantee.best_effort
        return [(rows, f"{threshold:.10g}") for rows, threshold in zip(self.where, own, strict=False)]

    @property
    def promises(self) -> Sequence[Constraint]:
        """The constraints; without any, the bound on the objective that is promised instead."""
        return self.problem.constraints or (parse_constraint(self.guarantee.promise),)

    def verdict(self, groups: Groups) -> str:
        """What comes first: threshold, promise, what is kept and what would be without it; or what is missing."""
        promise, threshold = self.guarantee, self.decision.threshold
        clauses = "; and ".join(in_a_clause(constraint, groups) for constraint in self.promises)
        confidence = f"{100 * promise.confidence:g} % confidence"
        if threshold is None:
            more, effort = promise.more, ", ".join(text for _, text in self.best_effort)
            labels = "" if more is None else f" About {rounded(more):,} more labelled cases would be needed."
            best = f" Best effort, nothing is promised: {effort}." if effort else ""
            return f"No threshold can be promised. Not shown with {confidence}: {clauses}.{labels}{best}"
        first = self.use.format(f"{threshold:.10g}")
        if self.decision.attribute is not None:
            first = f"Use a threshold of its own for every value of {self.decision.attribute}."
        if promise.copies:
            copied = f"Not yet: {promise.copies:,} rows are copies of others, which breaks the promise; leave them out."
            first = f"{copied} {first}"
        price, text = promise.price, f"{first} {_sentence(clauses)}, with {confidence}."
        if price is None:
            return text
        if self.problem.constraints:  # without any the promise is about the objective itself
            does, would = kept(self.problem.objective, groups)
            cost = does.format(amount(self.problem.objective, price.kept))
            without = would.format(amount(self.problem.objective, price.without))
            text += f" {_sentence(cost)}; {without}."
        return f"Careful, this is nearly {price.nearly}. {text}" if price.nearly else text

    @property
    def grounds(self) -> str:
        """What the verdict leaves out: rows, exact numbers, what is missing, and each bound's value on these rows."""
        promise, certificate = self.guarantee, self.decision.certificate
        confidence = f"{100 * promise.confidence:g}% confidence"
        sentence = promise.sentence.replace(f"{promise.promise}: guaranteed at {confidence} by", "Shown by")
        sentence = sentence.replace(f"No threshold: {promise.promise} cannot be guaranteed at {confidence}. ", "")
        if self.decision.threshold is None or certificate is None or not self.problem.constraints:
            return sentence
        values = (
            f"{constraint.left!r} is {finding.value:.4f} on these rows, "
            f"confidence bounds {finding.low:.4f} to {finding.high:.4f}"
            for constraint, finding in zip(self.problem.constraints, certificate.findings, strict=True)
        )
        return f"{sentence} {'; '.join(values)}."

    def to_dict(self, groups: Groups) -> dict[str, Any]:
        """As decision.json holds it, beside the decision itself."""
        certificate = self.decision.certificate
        return {
            "verdict": self.verdict(groups),
            "problem": repr(self.problem),
            "direction": self.problem.direction,
            "objective": repr(self.problem.objective),
            "constraints": [repr(constraint) for constraint in self.promises],
            "certificate": None if certificate is None else certificate.to_dict(),
            **vars(self.beside),
        }


@dataclass(frozen=True)
class Result:
    """All answers about one file.

    Attributes:
        kind: ``"decision"``, ``"decisions"`` (of several thresholds) or ``"abstention"``.
        data: The file's name.
        target: Column of the labels.
        answers: One, or one for each class, category or side.
        facts: What decision.json says beside the answers: columns, labels, the rule in words.
        groups: The file's words for the labels of groups.
        notes: About the file.
        left_out: Categories without an answer, with the reason.
        summary: Of several answers: what comes before each one's verdict.
        first: A sentence before the grounds.
    """

    kind: str
    data: str
    target: str
    answers: Sequence[Answer]
    facts: Mapping[str, Any]
    groups: Groups = field(default_factory=dict)
    notes: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    first: str = ""

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for is promised."""
        return not self.left_out and all(answer.decision.threshold is not None for answer in self.answers)

    @property
    def verdict(self) -> str:
        return self.summary or self.answers[0].verdict(self.groups)

    @property
    def all_notes(self) -> list[str]:
        missing = (f"{self.facts['attribute']} = {name} is left out: {why}" for name, why in self.left_out.items())
        return [*self.notes, *missing]

    @property
    def sentences(self) -> list[str]:
        """The grounds of every answer."""
        if self.summary:
            return [f"{answer.name}: {answer.guarantee}" for answer in self.answers]
        return [*([self.first] if self.first else []), self.answers[0].grounds]

    def lines(self) -> list[str]:
        """What the terminal shows: the verdict, thresholds or the best effort, called that; notes and grounds."""
        score = self.facts.get("score")

        def line(pair: tuple[str, str]) -> str:
            return f"{score} > {pair[1]} for {pair[0]}." if score else " ".join(pair)

        thresholds = [pair for answer in self.answers for pair in answer.thresholds]
        lines = [self.verdict]
        if score and len(thresholds) == 1:
            lines = [self.verdict.replace("Use ", f"Use {score} > ", 1)]
        else:
            lines += [f"{'Use ' if score else ''}{line(pair)}" for pair in thresholds]
        lines += [*self.all_notes, *self.sentences]
        lines += [
            f"Best effort, nothing is promised: {line(pair)}" for answer in self.answers for pair in answer.best_effort
        ]
        return [in_words(text, self.groups) for text in lines]

    def to_dict(self) -> dict[str, Any]:
        """As decision.json holds it."""
        document = {"aimfor": __version__, "kind": self.kind, "data": self.data, "target": self.target, **self.facts}
        if self.summary:
            document |= {
                "objective": repr(self.answers[0].problem.objective),
                "verdict": self.summary,
                "decisions": {answer.name: answer.decision.to_dict() for answer in self.answers},
                "parts": {answer.name: answer.to_dict(self.groups) for answer in self.answers},
            }
        else:
            document |= {"decision": self.answers[0].decision.to_dict(), **self.answers[0].to_dict(self.groups)}
        return document | {"notes": self.all_notes, "sentences": self.sentences}


def out_of(share: float) -> str:
    """A share as so many of 100, 1,000, …: "90 of 100", "995 of 1,000"."""
    for whole in (100, 1_000, 10_000, 100_000):
        cases = share * whole
        if abs(cases - round(cases)) < 1e-6:
            return f"{round(cases):,} of {whole:,}"
    return f"{100 * share:.6g} % of"


def _label(groups: Groups, name: str, label: float | str) -> str:
    if isinstance(label, str):
        return label
    words = groups.get(name, ())
    return words[int(label)] if label == int(label) and 0 <= label < len(words) else f"{label:g}"


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:]


def in_words(text: str, groups: Mapping[str, Sequence[str]]) -> str:
    """A printed rate with its groups by the file's own words: ``recall[sex=0]`` is ``recall[sex=female]``."""

    def named(match: re.Match[str]) -> str:
        labels = groups.get(match[1], ())
        return f"{match[1]}={labels[int(match[2])]}" if int(match[2]) < len(labels) else match[0]

    return re.sub(r"\[[^][]*\]", lambda conditions: re.sub(r"([^][,=]+)=(\d+)(?=[],])", named, conditions[0]), text)
