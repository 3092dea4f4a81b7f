"""What was found on one part of the data, as types. They are written to metrics.json field by field and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from ..decisions.certificate import Certificate

#: A number that may be undefined: NaN here, null in JSON.
Number = Annotated[float, BeforeValidator(lambda value: float("nan") if value is None else value)]
Interval = tuple[Number, Number]


@dataclass(frozen=True)
class Beside:
    """A number that readers ask for beside the metric, and what a constant reaches."""

    name: str
    value: Number
    constant: Number
    higher_is_better: bool = True
    interval: Interval | None = None


@dataclass(frozen=True)
class Bin:
    """Rows of similar stated probability: their mean, the share that came true, and its exact interval."""

    stated: Number
    seen: Number
    low: Number
    high: Number
    n: int


@dataclass(frozen=True)
class ClassRow:
    """One class against the rest."""

    support: int
    decided: int
    precision: Number
    recall: Number
    f1: Number
    auroc: Number


@dataclass(frozen=True)
class GroupRow:
    """Decisions in one group of rows."""

    group: str
    n: int
    positives: int
    decided: int
    recall: Number
    fpr: Number
    precision: Number


@dataclass(frozen=True)
class NamedQuery:
    """A query at either end of the metric."""

    query: str
    rows: int
    value: Number


@dataclass(frozen=True)
class Queries:
    """How the metric is spread over queries."""

    counted: int
    left_out: int
    quartiles: tuple[Number, Number, Number] | None
    below_chance: float | None
    histogram: list[int]
    named: list[NamedQuery]


@dataclass(frozen=True)
class FindingRow:
    """One constraint of a certificate."""

    constraint: str
    value: Number
    bound: float
    slack: Number
    low: Number
    high: Number
    verdict: str
    examples: int
    more: int | None = None
    note: str = ""


@dataclass(frozen=True)
class StoredCertificate:
    """Whether the floor of the metric holds on these rows."""

    objective: str
    objective_value: Number
    confidence: float
    examples: int
    verdict: str
    findings: list[FindingRow]
    text: str


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The metric on a part of the data, what the best constant reaches, and the numbers beside it."""

    metric: Number
    baseline: Number
    n: int
    beside: list[Beside]
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class TwoClasses(Evaluated):
    """With decisions at a threshold. ``steps`` are ``[threshold, tp, fp]``, which the report's slider moves over."""

    positives: int
    counts: dict[str, int]
    rates: dict[str, Number]
    curves: dict[str, list[float]]
    intervals: dict[str, Interval]
    histogram: dict[str, list[float]]
    steps: list[tuple[float, int, int]]
    reliability: list[Bin] | None = None
    certificate: StoredCertificate | None = None
    groups: list[GroupRow] | None = None


@dataclass(frozen=True, kw_only=True)
class SeveralClasses(Evaluated):
    """``confusion[i][j]``: rows of class i that were decided to be j."""

    confusion: list[list[int]]
    per_class: list[ClassRow]
    reliability: list[Bin] | None = None


@dataclass(frozen=True, kw_only=True)
class RankedLists(Evaluated):
    """The mean over queries."""

    queries: Queries


AnyPart = TwoClasses | SeveralClasses | RankedLists


def stored_certificate(certificate: Certificate) -> StoredCertificate:
    """A `Certificate` as it is kept."""
    rows = [FindingRow(**{**vars(finding), "verdict": finding.verdict.value}) for finding in certificate.findings]
    whole = (certificate.objective, certificate.objective_value, certificate.confidence, certificate.examples)
    return StoredCertificate(*whole, certificate.verdict.value, rows, str(certificate))
