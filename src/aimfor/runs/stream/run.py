"""`aimfor train` on a stream: trees learn from all rows, the other members from a sample that fits into memory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ...data import checkpoint
from ...data.settings import Settings
from ...errors import InputError
from ...learners.ensemble import Ensemble, FolderStore, fit_ensemble
from ...learners.ensemble.calibration import Threshold
from ...learners.ensemble.members import Member, members
from ...learners.ensemble.members.trees import need_lightgbm
from ...targets.calibrate import probability
from ...targets.evaluate import evaluate
from ...targets.folds import Folds
from ...targets.importance import Importance
from ..ensemble import step_of
from ..evaluation import EnsembleEvaluation, Estimate
from ..finished import save_ensemble
from ..fitting import RULE, decision_of, ensemble_facts, keeping_floor
from ..kinds import Reading
from ..task import CELLS, Stop, Task, Tell
from .prepare import PreparedStream, prepare
from .trees import StreamedTrees, share_that_fits

#: CSV files as Parquet, while the run is not finished.
STAGED = "rows"


def of_chunks(reading: Reading) -> StreamTask:
    """One pass over the table; CSV files are staged in the run's folder, which stays empty where that fails."""
    settings = reading.settings
    folder = reading.place(f"{Path(settings.data).name.split('.')[0]}-{settings.metric}")
    try:
        return StreamTask(settings, folder)
    except BaseException:
        if not (folder / "config.json").exists():
            shutil.rmtree(folder / STAGED, ignore_errors=True)
            if not any(folder.iterdir()):
                folder.rmdir()
        raise


class StreamTask(Task):
    """A table in chunks × classes × the ensemble: trees learn from all rows, the others from a sample."""

    kind = "stream"

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.ready = ready = prepare(settings, folder / STAGED)
        self.settings, self.labels = ready.settings, ready.labels
        self.name = Path(settings.data).name.split(".")[0]
        self.wanted, self.remarks = members_of(ready)

    @property
    def notes(self) -> list[str]:
        return [*self.ready.notes, *self.remarks]

    @property
    def facts(self) -> dict[str, Any]:
        return {"labels": self.ready.labels.state, "encoder": self.ready.encoder.state}

    @property
    def fingerprint(self) -> str:
        return self.ready.fingerprint

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> Ensemble:
        """The validation rows stop the members, weigh them and place the threshold."""
        ready = self.ready
        x, y = (part[: ready.members] for part in ready.sample)
        n = len(y) + len(ready.validation[1])
        ensemble = fit_ensemble(
            torch.cat((x, ready.validation[0])),
            torch.cat((y, ready.validation[1])),
            ready.objective,
            outputs=ready.labels.outputs,
            members=self.wanted,
            folds=Folds((torch.arange(len(y), n),), n),
            seed=ready.settings.seed,
            minutes=ready.settings.budget_minutes,
            store=FolderStore(folder / CELLS),
            report=lambda progress: tell(step_of(progress)),
            stop=stop,
        )
        text = ensemble.threshold.text.replace("out-of-fold", "validation")
        threshold = Threshold(ensemble.threshold.value, text)
        ensemble = replace(ensemble, threshold=threshold, notes=[*self.remarks, *ensemble.notes])
        if ready.aside is None:
            return ensemble
        scores, grouped = ensemble.scores(ready.aside[0]), ready.settings.cluster is not None
        return keeping_floor(ensemble, scores, ready.aside[1], "validation", grouped)

    def evaluate(self, fitted: Ensemble, tell: Tell, stop: Stop) -> EnsembleEvaluation:
        ready, threshold = self.ready, fitted.threshold
        scores = fitted.scores(ready.test[0])
        stated = (probability(scores) if ready.labels.binary else scores.softmax(1)).numpy()
        y = ready.test[1]
        return EnsembleEvaluation(
            metric=self.settings.metric,
            expected=Estimate(fitted.cross_validated),
            test=evaluate(ready.objective, scores, y, threshold.value, ready.groups, probabilities=stated),
            importance=Importance(left_out="the rows of a stream are not kept"),
            threshold=threshold.value,
            threshold_text=threshold.text,
            guaranteed=threshold.guaranteed,
            ensemble=ensemble_facts(fitted, RULE.replace("out-of-fold", "validation")),
            rows=ready.rows,
            notes=[*ready.notes, *fitted.notes],
            torch=torch.__version__,
        )

    def save(self, folder: Path, fitted: Ensemble, evaluation: EnsembleEvaluation) -> None:
        checkpoint.write_json(folder / "threshold.json", decision_of(self.ready.labels, fitted))
        save_ensemble(folder, fitted)
        shutil.rmtree(folder / STAGED, ignore_errors=True)
        for part in folder.rglob(".*.part"):  # of a save in whose middle the process was killed
            part.unlink(missing_ok=True)


def members_of(ready: PreparedStream) -> tuple[tuple[Member, ...], list[str]]:
    """Who learns, and notes. Raises `InputError` where trees are wanted and cannot be."""
    settings, notes, found = ready.settings, list[str](), list[Member]()
    kinds = ("trees",) if settings.fast else settings.members
    if "trees" in kinds:
        need_lightgbm("--members")
        held_out = sum(count for part, count in ready.rows.items() if part != "train")
        share = share_that_fits(ready.reader, held_out, ready.memory)
        if share < 1.0:
            part = f"{100 * share:.0f} % of the training rows, the same share of each row group"
            notes.append(f"trees were grown from {part}")
        found.append(StreamedTrees(ready.reader, ready.sample[0], share, settings.threads))
    others = tuple(kind for kind in kinds if kind != "trees")
    if others:
        y = ready.sample[1][: ready.members]
        absent = set(range(len(ready.labels.classes))) - set(y.unique().tolist())
        if absent and found:
            name = ready.labels.classes[min(absent)]
            notes.append(f"trees alone: the {len(y):,} training rows in memory have none of class {name!r}")
        elif absent:
            came = f"{','.join(others)} for {len(y):,} training rows in memory without class {min(absent)}"
            raise InputError("--members", came, "trees, which learn from all rows")
        else:
            found += members(others)
            if len(y) < ready.rows["train"]:
                titles = ", ".join(member.title for member in members(others))
                notes.append(f"{titles}: learned from {len(y):,} training rows, as many as are kept in memory")
    return tuple(found), notes
