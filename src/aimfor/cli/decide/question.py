"""What is asked: options that go together, bounds that mean something, and files whose rows are independent.

Rows that belong together are independent no longer: a column says so, or signs in the file that nobody has said so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...checks.settings import number
from ...constraints.counts import Array
from ...constraints.parse import LabelOf, parse_constraint, parse_objective
from ...constraints.reachable import refuse_constant, refuse_ends
from ...decisions import Problem
from ...decisions.asked import rising
from ...errors import InputError
from .parts import class_columns, refuse_strange
from .rows import ScoredTable, column_of, read_scores, refuse_overlap

#: Standard deviations from which on agreement is no chance: 1 file in 30,000 of independent rows.
CLEAR = 4.0
#: Rows of a column's value, on average, from which on it may be what rows belong to; and the fewest values.
FEWEST_ROWS, FEWEST_VALUES = 1.2, 10
#: Labels that change so much less often than in a shuffled file are sorted, which says nothing about clusters.
SORTED = 0.2
#: Options that ask for another kind of answer, and those that then have no place.
_GOAL = ("maximize", "minimize", "subject_to")
_UNFIT = {
    "abstain": ("score", "group", "positive", "accept", "reject", "category", *_GOAL),
    "score_of": ("score", "group", "positive", "accept", "reject", "category"),
    "accept": ("group", "category", *_GOAL),
    "category": ("group",),
}


@dataclass(frozen=True)
class Request:
    """The command's options, as they came."""

    data: Path
    target: str
    score: str | None = None
    score_of: Sequence[str] = ()
    abstain: float | None = None
    accept: str | None = None
    reject: str | None = None
    category: str | None = None
    maximize: str | None = None
    minimize: str | None = None
    subject_to: Sequence[str] = ()
    confidence: float = 0.95
    learn: Path | None = None
    group: str | None = None
    cluster: str | None = None
    positive: str | None = None
    encoding: str = "utf8"
    rows: int | None = None

    def checked(self) -> Request:
        """Raises `InputError` for options that do not go together."""
        number("confidence", self.confidence, above=0.5, below=1)
        if (self.accept is None) != (self.reject is None):
            raise InputError("accept", "one of --accept and --reject", "both", 'e.g. --reject "npv >= 0.99"')
        for kind, names in _UNFIT.items():
            other = next((name for name in names if getattr(self, name)), None)
            if getattr(self, kind) not in (None, [], ()) and other is not None:
                option = kind.replace("_", "-")
                raise InputError(other.replace("_", "-"), f"the option together with --{option}", "one of the two")
        if self.abstain is not None and not self.score_of:
            example = "--score-of yes=p_yes --score-of no=p_no"
            raise InputError("score-of", "nothing", "CLASS=COLUMN for every class", example)
        if not self.score and not self.score_of:
            remedy = "Or --score-of CLASS=COLUMN, once per class."
            raise InputError("score", "nothing", "the column of the scores", remedy)
        return self

    def problem(self, label_of: LabelOf | None = None, example: str | None = None) -> Problem:
        """Raises `InputError` without one objective, for bounds that say nothing or too much, and for an objective
        without a constraint that nobody or everybody serves best."""
        if (self.maximize is None) == (self.minimize is None):
            raise InputError("maximize", "both or neither of --maximize and --minimize", "one of them")
        objective = parse_objective(self.maximize or self.minimize or "", label_of)
        constraints = [parse_constraint(text, label_of) for text in self.subject_to]
        refuse_ends(constraints, "subject-to")
        if not constraints and example is not None:
            raise InputError("subject-to", "nothing", "at least one constraint", f'--subject-to "{example}"')
        if not constraints:
            refuse_constant(objective, "subject-to")
        return Problem("maximize" if self.minimize is None else "minimize", objective, constraints)


@dataclass(frozen=True)
class Files:
    """The file of calibration rows, and that of ``--learn`` where there is one, with the cluster of every row."""

    tables: list[ScoredTable]
    clusters: list[Array | None]

    @property
    def notes(self) -> list[str]:
        return self.tables[0].notes

    def about_clusters(self, request: Request, scores: Array, targets: Array, taken: Collection[str]) -> list[str]:
        """That every row is a cluster of its own, or what looks like clusters that nobody has named."""
        table = self.tables[0]
        if request.cluster is None:
            return suspected(table, scores, targets, {str(request.score), request.target, *taken})
        if len(set(table.columns[request.cluster])) == len(scores):
            return [f"every row has a {request.cluster} of its own: rows are counted one by one"]
        return []


def read_files(request: Request) -> Files:
    """Raises `InputError` for files without the columns, and for learning rows that are calibration rows too."""
    columns = list(class_columns(request.score_of).values()) or str(request.score)
    tables = [read_scores(request.data, columns, request.target, request.encoding, request.rows)]
    refuse_strange(tables[0], class_columns(request.score_of))
    if request.learn is not None:
        tables.append(read_scores(request.learn, columns, request.target, request.encoding))
        refuse_overlap(*tables)
    name = request.cluster
    return Files(tables, [None if name is None else column_of(one.columns, "cluster", name) for one in tables])


def suspected(table: ScoredTable, scores: Array, targets: Array, taken: set[str]) -> list[str]:
    """Sentences that name a column, or the order of the file, by which rows agree more than independent ones do."""
    residual = _residuals(scores, targets.astype(bool))
    found = []
    for name, column in table.columns.items():
        if name not in taken and not _is_measured(column):
            z, values = _agreement(residual, column)
            if z > CLEAR:
                found.append((z, name, values))
    if found:
        z, name, values = max(found)
        return [
            f"rows with the same {name} agree more than chance allows ({values} values, {z:.1f} standard deviations), "
            f"and the promise counts rows as independent. For a promise about new values of {name}: --cluster {name}"
        ]
    if _in_order(residual, targets) > CLEAR:
        return [
            "neighbouring rows of the file agree more than chance allows, and the promise counts rows as independent. "
            "Name the column of what they belong to with --cluster"
        ]
    return []


def _residuals(scores: Array, targets: Array) -> Array:
    """Label minus the rate of positives at its score, which rises with the score."""
    _, place = np.unique(scores, return_inverse=True)
    size, hits = np.bincount(place).astype(np.float64), np.bincount(place, targets)
    return np.asarray(targets - rising(hits, size, size)[place])


def _is_measured(column: Array) -> bool:
    """Numbers with fractions are measurements (other scores, the label in finer words), by which rows may well agree
    without belonging together; ids are words or whole."""
    try:
        values = column[[cell is not None for cell in column]].astype(np.float64)
    except ValueError:
        return False
    return bool((values != np.round(values)).any())


def _agreement(residual: Array, column: Array) -> tuple[float, int]:
    """How far the sums of residuals by value are from those of independent rows, in deviations; and the values."""
    _, place = np.unique(np.array([str(cell) for cell in column]), return_inverse=True)
    sizes = np.bincount(place)
    if len(sizes) < FEWEST_VALUES or len(column) < FEWEST_ROWS * len(sizes):
        return 0.0, len(sizes)
    sums, squares = np.bincount(place, residual), np.bincount(place, residual**2)
    # Σ over pairs within a value; pairs of independent rows have mean 0 and variance v², and are uncorrelated.
    pairs = 0.5 * float((sums**2 - squares).sum())
    number = 0.5 * float((sizes * (sizes - 1.0)).sum())
    return pairs / (float((residual**2).mean()) * math.sqrt(number) or 1.0), len(sizes)


def _in_order(residual: Array, targets: Array) -> float:
    """The same for each row and the next one of the file; 0 where the file is sorted by its labels."""
    share = float(targets.mean())
    changes = float((targets[1:] != targets[:-1]).sum())
    if changes < SORTED * 2.0 * share * (1.0 - share) * len(targets):
        return 0.0
    product = float((residual[1:] * residual[:-1]).sum())
    return product / (float((residual**2).mean()) * math.sqrt(len(residual) - 1) or 1.0)
