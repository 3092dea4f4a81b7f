"""What `aimfor check` watches: a decision of `aimfor decide`, or a run of `aimfor train` with a floor in its metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.columns.kinds import Remarks
from ...fitting.objective import Objective
from ...metrics.at_rate import AtRate
from ...rates import Decision, RateProblem
from ...rates.parse import parse_constraint, parse_objective
from ..data.labels import Labels
from ..data.sources import load
from ..run.folder import Run, load_run
from .rows import Vocabulary, read_scores, tensors

#: Scores, labels and group codes of a file of new rows.
Rows = tuple[Tensor, Tensor, dict[str, Tensor]]


@dataclass(frozen=True)
class Watched:
    """The floors, the decisions that should keep them, how to read new rows, and where the log lies."""

    problem: RateProblem
    decision: Decision
    read: Callable[[Path, str], Rows]
    folder: Path


def watched(path: Path, trust: str | None = None) -> Watched:
    """Raises `InputError` where there is nothing to watch: no decision, no threshold, a metric without a floor."""
    if path.is_dir() and (path / "config.json").exists():
        return _of_run(load_run(path, trust))
    return _of_decision(path / "decision.json" if path.is_dir() else path)


def _of_run(run: Run) -> Watched:
    metric = Objective.of(run.metric).metric
    if not isinstance(metric, AtRate):
        raise InputError(
            "run", f"one that was trained for {run.metric}", "a metric with a floor, e.g. recall@precision=0.9",
            "Without a floor there is nothing to watch; aimfor predict --evaluate shows the metric.",
        )  # fmt: skip

    def read(data: Path, encoding: str) -> Rows:
        target = run.config["settings"]["target"]
        source = load(str(data), target, labelled=False, encoding=encoding)
        if source.labels is None:
            raise InputError("data", f"{data.name}, without the column {target!r}", "new rows with their labels")
        known = np.array([label is not None for label in source.labels], dtype=bool)
        if not known.any():
            raise InputError("data", f"{data.name}, where {target!r} is empty", "new rows with their labels")
        scores = run.scores(source, Remarks())[torch.from_numpy(known)]
        return scores, torch.from_numpy(run.labels.encode(source.labels[known])), {}

    return Watched(metric.problem(), Decision(run.threshold), read, run.folder)


class _Cuts(BaseModel):
    """The thresholds in decision.json."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    threshold: float | None
    attribute: str | None
    thresholds: dict[str, float]


class _Document(BaseModel):
    """What decision.json must hold for somebody to watch it."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    score: str
    target: str
    positive: str
    groups: dict[str, list[str]]
    direction: Literal["maximize", "minimize"]
    objective: str
    constraints: list[str]
    decision: _Cuts


def _of_decision(path: Path) -> Watched:
    document = _document(path)
    words = Vocabulary(Labels(["rest", document.positive], True), document.groups)

    def read(data: Path, encoding: str) -> Rows:
        return tensors(read_scores(data, document.score, document.target, encoding), words)

    plain = document.decision
    with checkpoint.reading(path):
        problem = RateProblem(
            document.direction,
            parse_objective(document.objective),
            [parse_constraint(text) for text in document.constraints],
        )
        own = {float(label): cut for label, cut in plain.thresholds.items()}
        if plain.attribute is not None and plain.attribute not in words.groups:
            raise ValueError(f"thresholds by {plain.attribute!r}, which is not among its groups")
    return Watched(problem, Decision(plain.threshold, plain.attribute, own), read, path.parent)


def _document(path: Path) -> _Document:
    if not path.exists():
        raise InputError(
            "decision", f"{path}, which does not exist", "decision.json of aimfor decide, or its folder, or a run"
        )
    document = checkpoint.read_json(path)
    if document.get("kind") != "decision":
        raise InputError("decision", f"{path.name}, which holds no decision", "decision.json of aimfor decide")
    with checkpoint.reading(path):  # pydantic's errors are ValueErrors
        found = _Document.model_validate(document)
    if found.decision.threshold is None:
        raise InputError("decision", "no threshold", "a decision with a threshold", "There is nothing to watch.")
    return found
