"""What a run found, as types ⇄ metrics.json: report, card, terminal and Python read this and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..data import checkpoint
from ..errors import InputError
from ..targets.evaluate.results import AnyPart, Interval, Number
from ..targets.importance import Importance

#: Number of the layout of metrics.json; files without one were written by 0.2 and are read as the first.
SCHEMA = 1
#: What every kind of run writes last: a folder that has it has everything.
FINISHED = "metrics.json"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What every kind of run states."""

    metric: str
    notes: list[str]
    seconds: float = 0.0
    schema: int = SCHEMA


@dataclass(frozen=True)
class Curves:
    """A member's metric on the held-out rows of each fold while it learns, and where it was told to stop."""

    ticks: list[Number]
    unit: str
    value: str
    folds: list[list[Number]]
    chosen: Number


@dataclass(frozen=True)
class MemberRow:
    """A member of the ensemble: its weight, and what it reaches alone on out-of-fold rows."""

    name: str
    title: str
    weight: float
    out_of_fold: Number
    seconds: float = 0.0
    curves: Curves | None = None


@dataclass(frozen=True)
class Members:
    """Who is in the ensemble, and by which rule the weights were found."""

    members: list[MemberRow]
    folds: int
    rule: str
    rule_name: str = ""

    @property
    def weighted(self) -> list[MemberRow]:
        """Those with a weight, the heaviest first."""
        return sorted((one for one in self.members if one.weight > 0), key=lambda one: -one.weight)


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, where draws can tell."""

    metric: Number
    interval: Interval | None = None


#: What a part is found on: rows that took no part in anything, or all rows, each by models and choices without it.
TEST_ROWS, HELD_OUT_ROWS = "test rows", "held-out rows"


@dataclass(frozen=True, kw_only=True)
class EnsembleEvaluation(Evaluation):
    """An ensemble on classes or ranked lists: what to expect on new rows, and everything found on ``part``."""

    expected: Estimate
    test: AnyPart
    importance: Importance
    threshold: Number
    threshold_text: str
    ensemble: Members
    rows: dict[str, int]
    part: str = TEST_ROWS
    #: Whether the threshold keeps the floor of the metric; None for a metric without one.
    guaranteed: bool | None = None
    torch: str = ""


@dataclass(frozen=True)
class LabelRow:
    """One of several labels."""

    label: str
    value: Number
    positives: int
    threshold: float
    precision: Number
    recall: Number


@dataclass(frozen=True, kw_only=True)
class LabelsEvaluation(Evaluation):
    """Several labels: the mean over them, and each."""

    test: Estimate
    labels: list[LabelRow]
    pictures: dict[str, int]


@dataclass(frozen=True)
class PixelsPart:
    """Test pictures at their own size: of the data set, by class, and by picture."""

    metric: Number
    interval: Interval | None
    classes: dict[str, Number]
    shares: dict[str, Number]
    by_image: Number
    images: dict[str, Number]


@dataclass(frozen=True)
class OutOfFold:
    """The metric by argmax, and with the offsets that decide; how they were found."""

    argmax: Number
    offsets: Number
    text: str


@dataclass(frozen=True, kw_only=True)
class PixelsEvaluation(Evaluation):
    """A class for every pixel."""

    test: PixelsPart
    out_of_fold: OutOfFold
    pictures: dict[str, int]
    offsets: dict[str, float]


@dataclass(frozen=True)
class Measured:
    """A mean over queries with its interval over classes."""

    value: Number
    interval: Interval | None


@dataclass(frozen=True)
class NeighboursPart:
    """The metric and the usual ones beside it, over queries of the test classes."""

    metric: Number
    interval: Interval | None
    all: dict[str, Measured]


@dataclass(frozen=True, kw_only=True)
class NeighboursEvaluation(Evaluation):
    """An embedding: on classes that took no part, before training, and each way of making one."""

    test: NeighboursPart
    untrained: NeighboursPart
    ways: dict[str, Number]
    chosen: str
    steps: int
    width: int
    classes: dict[str, int]
    pictures: dict[str, int]
    test_classes: list[str] = field(default_factory=list)


AnyEvaluation = EnsembleEvaluation | LabelsEvaluation | PixelsEvaluation | NeighboursEvaluation


@cache
def _reader() -> TypeAdapter[Any]:
    return TypeAdapter(AnyEvaluation)


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """metrics.json; NaN becomes null."""
    checkpoint.write_json(folder / FINISHED, asdict(evaluation))


def read_evaluation(folder: Path) -> AnyEvaluation:
    """What `write_evaluation` wrote. Raises `InputError` for a file that is damaged or of a later version."""
    path = folder / FINISHED
    document = checkpoint.read_json(path)
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(
            "run", f"{path} of layout {schema!r}", f"layout {SCHEMA}", "Read it by the version that wrote it."
        )
    with checkpoint.reading(path):
        if "schema" not in document:
            _rename(document)
        return _reader().validate_python(document)  # type: ignore[no-any-return]


def _rename(document: dict[str, Any]) -> None:
    """What 0.2 called otherwise at first, by the names of today."""
    if "committee" in document:
        document["ensemble"] = document.pop("committee")
    if "validation" in document:
        document["expected"] = {"metric": document.pop("validation")}
    for row in document["test"].get("groups") or []:
        if "false positive rate" in row:
            row["fpr"] = row.pop("false positive rate")
