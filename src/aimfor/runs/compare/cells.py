"""One cell of a comparison: one entrant, one seed, one metric; a pure function of its description."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...data.executors import peak_megabytes, reset_peak
from ...data.features import Work
from ...data.settings import Settings
from ...targets.evaluate import evaluate
from ...targets.lists import evaluate_lists
from ..prepared import Prepared, prepare, read_source
from .entrants import ENSEMBLE, Entrant, Outcome, run_entrant
from .rivals import LAMBDARANK, PACKAGES, installed

Cell = dict[str, Any]


def key_of(cell: Cell, fingerprint: str) -> str:
    """A name that changes whenever the result could; where the data lies is not part of it, its fingerprint is."""
    cell = {**cell, "settings": {**cell["settings"], "data": ""}}
    text = json.dumps([cell, fingerprint, __version__, torch.__version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@lru_cache(maxsize=2)
def _source(frozen: str, features: str) -> Any:
    return read_source(Settings(**json.loads(frozen)), _work(features))


def _work(features: str) -> Work:
    return Work(Path(features) if features else None)


def _prepared(settings: Settings, ensemble: bool, features: str) -> Prepared:
    shared = settings.model_copy(update={"seed": 0, "metric": "auroc"})
    source = _source(shared.model_dump_json(), features)
    return prepare(settings, source, ensemble=ensemble, work=_work(features))


def run_cell(cell: Cell) -> dict[str, Any]:
    """Trains and evaluates. The threshold comes from validation or out-of-fold rows; test rows are looked at once."""
    torch.set_num_threads(1)
    settings, name = Settings(**cell["settings"]), str(cell["entrant"])
    prepared = _prepared(settings, name == ENSEMBLE.name, str(cell.get("features", "")))
    reset_peak()
    began = time.monotonic()
    outcome = run_entrant(name, prepared)
    seconds, megabytes = time.monotonic() - began, peak_megabytes()
    test = _evaluated(prepared, outcome)
    return {
        "entrant": name,
        "seed": settings.seed,
        "test": test,
        "validation": outcome.validation,
        "threshold": outcome.threshold,
        "ensemble": outcome.facts.get("ensemble"),
        "seconds": seconds,
        "megabytes": megabytes,
        "rows": [len(prepared.parts.train), len(prepared.parts.validation), len(prepared.parts.test)],
        "classes": prepared.labels.classes,
        "notes": [*prepared.notes, *outcome.facts.get("notes", [])],
    }


def _evaluated(prepared: Prepared, outcome: Outcome) -> dict[str, Any]:
    y = prepared.test[1]
    if prepared.lists is not None:
        return asdict(
            evaluate_lists(prepared.objective, outcome.scores, y, prepared.lists[torch.from_numpy(prepared.parts.test)])
        )
    return asdict(evaluate(prepared.objective, outcome.scores, y, outcome.threshold))


def why_not(entrant: Entrant) -> str | None:
    """A sentence when this entrant cannot run here, else None."""
    needs = "lightgbm" if entrant.name in (LAMBDARANK, "pointwise_trees") else entrant.name
    return None if installed(needs) else f"the package {PACKAGES[needs]} is not installed"
