"""What is asked: options that go together, bounds that mean something, and files whose rows are independent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...checks.settings import number
from ...constraints.counts import Array
from ...constraints.parse import LabelOf, parse_constraint, parse_objective
from ...constraints.reachable import refuse_constant, refuse_ends
from ...decisions import Problem
from ...decisions.independence import suspected
from ...errors import InputError
from .scores import ScoredTable, class_columns, column_of, read_scores, refuse_overlap

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

    def check(self) -> None:
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

    def about_clusters(self, request: Request, scores: Array, targets: Array, used: Collection[str]) -> list[str]:
        """That every row is a cluster of its own, or what looks like clusters that nobody has named."""
        columns = self.tables[0].columns
        if request.cluster is None:
            others = {name: column for name, column in columns.items() if name not in used}
            sign = suspected(others, scores, targets)
            if sign is None:
                return []
            name, values, deviations = sign
            if not name:
                return [
                    "neighbouring rows of the file agree more than chance allows, and the promise counts rows as "
                    "independent. Name the column of what they belong to with --cluster"
                ]
            return [
                f"rows with the same {name} agree more than chance allows ({values} values, {deviations:.1f} standard "
                f"deviations), and the promise counts rows as independent. For a promise about new values of {name}: "
                f"--cluster {name}"
            ]
        if len(set(columns[request.cluster])) == len(scores):
            return [f"every row has a {request.cluster} of its own: rows are counted one by one"]
        return []


def read_files(request: Request) -> Files:
    """Raises `InputError` for files without the columns, and for learning rows that are calibration rows too."""
    by_class = class_columns(request.score_of)
    columns = list(by_class.values()) or str(request.score)
    tables = [read_scores(request.data, columns, request.target, request.encoding, request.rows)]
    strange = sorted(set(by_class) - set(tables[0].labels))
    if strange:
        came = f"{strange[0]!r}, which no row of {request.data.name} has"
        raise InputError("score-of", came, "labels of the target column")
    if request.learn is not None:
        tables.append(read_scores(request.learn, columns, request.target, request.encoding))
        refuse_overlap(*tables)
    name = request.cluster
    return Files(tables, [None if name is None else column_of(table.columns, "cluster", name) for table in tables])
