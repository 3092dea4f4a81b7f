"""A run on classes or ranked lists in memory, by the ensemble: `aimfor train table.csv` and `aimfor train photos/`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import checkpoint
from ..data.columns import TableEncoder
from ..data.features import FeatureEncoder
from ..learners.ensemble import Ensemble, FolderStore, Progress
from ..learners.networks.loop import end_if
from ..targets.calibrate import probability
from ..targets.evaluate import evaluate
from ..targets.evaluate.lists import evaluate_lists, list_importance
from ..targets.evaluate.results import AnyPart
from ..targets.importance import Importance, permutation_importance
from .evaluation import HELD_OUT_ROWS, TEST_ROWS, EnsembleEvaluation, Estimate
from .finished import save_ensemble
from .fitting import check_ensemble, decision_of, ensemble_facts, fit_prepared
from .kinds import Reading
from .prepared import Prepared, prepare
from .sheets import picture_sheets
from .task import CELLS, Step, Stop, Task, Tell


class Evaluating:
    """Called before every column whose importance is found out; the seconds of those before tell what is left."""

    def __init__(self, ready: Prepared, stop: Stop, tell: Tell) -> None:
        self.stop, self.tell = stop, tell
        columns = getattr(ready.encoder, "feature_columns", ())
        self.total, self.done, self.began = len(set(columns)), 0, 0.0
        self._say("evaluating", 0.0)

    def __call__(self) -> None:
        """Raises `Interrupted` when it is to stop."""
        end_if(self.stop())
        if not self.began:
            self.began = time.monotonic()
        each = (time.monotonic() - self.began) / max(1, self.done)
        self._say("which columns matter", each)
        self.done += 1

    def _say(self, doing: str, each: float) -> None:
        value = f"{self.done} of {self.total} columns" if self.total else ""
        self.tell(Step(doing, value, self.done, max(1, self.total), each * (self.total - self.done)))


@dataclass(frozen=True)
class Judging:
    """The rows that tell what to expect.

    Attributes:
        rows: Their numbers.
        scores: Decided at the ensemble's threshold.
        stated: Calibrated log-odds.
        folds: ``(n,)`` the fold each was held out of; None for test rows.
    """

    rows: Tensor
    scores: Tensor
    stated: Tensor
    folds: Tensor | None = None


#: Rows the ensemble scores to find out which columns matter; it is some thirty models.
IMPORTANCE_BUDGET = 60_000


def of_rows(reading: Reading) -> EnsembleTask:
    """Rows or pictures in memory."""
    return EnsembleTask(prepare(reading.settings, reading.source, ensemble=True, work=reading.work))


class EnsembleTask(Task):
    """Rows in memory × classes or grades × the ensemble."""

    def __init__(self, ready: Prepared) -> None:
        check_ensemble(ready)
        self.ready, self.settings, self.name = ready, ready.settings, ready.source.name
        self.labels = ready.labels

    @property
    def kind(self) -> str:  # type: ignore[override]
        """As the table of options calls it."""
        if self.ready.lists is not None:
            return "lists"
        if isinstance(self.ready.encoder, FeatureEncoder):
            return "features"
        return "table" if self.ready.source.images is None else "pixels"

    @property
    def notes(self) -> list[str]:
        return self.ready.notes

    @property
    def facts(self) -> dict[str, Any]:
        return {"labels": self.ready.labels.state, "encoder": self.ready.encoder.state}

    @property
    def fingerprint(self) -> str:
        return self.ready.fingerprint

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> Ensemble:
        store, report = FolderStore(folder / CELLS), _logging(folder, tell)
        return fit_prepared(self.settings, self.ready, store=store, report=report, stop=stop)

    def evaluate(self, fitted: Ensemble, tell: Tell, stop: Stop) -> EnsembleEvaluation:
        """Expected by choices made without each row; found on test rows where there are any, else on the same rows."""
        ready, threshold = self.ready, fitted.threshold
        held, tested = held_out(ready, fitted), len(ready.parts.test) > 0
        evaluating = Evaluating(ready, stop, tell)
        judging = self._judging(fitted)
        part = self._part(judging, threshold.value)
        expected = self._part(held, threshold.value) if tested else part
        return EnsembleEvaluation(
            metric=self.settings.metric,
            expected=Estimate(fitted.cross_validated, expected.interval),
            test=part,
            part=TEST_ROWS if tested else HELD_OUT_ROWS,
            importance=self._importance(fitted, judging, evaluating),
            threshold=threshold.value,
            threshold_text=threshold.text,
            guaranteed=threshold.guaranteed,
            ensemble=ensemble_facts(fitted),
            rows={name: len(getattr(ready.parts, name)) for name in ("train", "validation", "test")},
            notes=[*ready.notes, *fitted.notes],
            torch=torch.__version__,
        )

    def save(self, folder: Path, fitted: Ensemble, evaluation: EnsembleEvaluation) -> None:
        decision = decision_of(self.ready.labels, fitted, self.ready.lists is not None)
        checkpoint.write_json(folder / "threshold.json", decision)
        save_ensemble(folder, fitted)

    def sheets(self, fitted: Ensemble, evaluation: EnsembleEvaluation) -> list[dict[str, Any]] | None:
        if self.ready.source.kind != "pictures":
            return None
        judging, classes = self._judging(fitted), self.ready.labels.classes
        pictures, y = self.ready.source.as_pictures(), self.ready.ids[judging.rows]
        return picture_sheets(pictures, judging.rows.tolist(), y, judging.scores, evaluation.threshold, classes)

    def _judging(self, fitted: Ensemble) -> Judging:
        """Test rows; without any, all rows as choices without them score them."""
        if not len(self.ready.parts.test):
            return held_out(self.ready, fitted)
        scores = fitted.scores(self.ready.test[0])
        return Judging(torch.from_numpy(self.ready.parts.test), scores, scores)

    def _part(self, judging: Judging, threshold: float) -> AnyPart:
        """Everything the report says about these rows."""
        ready, numbers = self.ready, judging.rows.numpy()
        y = ready.ids[judging.rows]
        if ready.lists is not None:
            assert ready.source.queries is not None
            lists, names = ready.lists[judging.rows], ready.source.queries[numbers]
            return evaluate_lists(ready.objective, judging.scores, y, lists, names, thorough=True)
        groups = None if ready.source.groups is None else ready.source.groups[numbers]
        stated = probability(judging.stated) if ready.labels.binary else judging.stated.softmax(1)
        return evaluate(
            ready.objective,
            judging.scores,
            y,
            threshold,
            groups,
            probabilities=stated.numpy(),
            clusters=ready.clusters(numbers),
            thorough=True,
        )

    def _importance(self, fitted: Ensemble, judging: Judging, evaluating: Evaluating) -> Importance:
        """Of each column, on the rows that judge: those that trained are scored by the models that left them out."""
        ready, budget = self.ready, IMPORTANCE_BUDGET
        if not isinstance(ready.encoder, TableEncoder):
            return Importance(left_out="features of a pretrained network have no names")
        columns = ready.encoder.feature_columns
        if judging.folds is not None and ready.source.times is not None:
            return Importance(left_out="with --time the models of the folds are not kept; name test rows by --test")
        x, y = ready.x[judging.rows], ready.ids[judging.rows]
        scores: Callable[[Tensor], Tensor] = fitted.scores
        if judging.folds is not None:  # the fold goes with the row, as a column that is never shuffled
            x = torch.cat((x, judging.folds[:, None].to(x.dtype)), 1)
            scores = lambda part: fitted.scores_out_of_fold(part[:, :-1].contiguous(), part[:, -1].long())  # noqa: E731
        if ready.lists is not None:
            lists, metric = ready.lists[judging.rows], ready.objective.metric
            return list_importance(metric, scores, x, y, lists, columns, budget=budget, stopped=evaluating)

        def value(scores: Tensor, y: Tensor) -> float:
            return ready.objective.value(scores, y, fitted.threshold.value)

        return permutation_importance(scores, value, x, y, columns, budget=budget, stopped=evaluating)


def held_out(ready: Prepared, fitted: Ensemble) -> Judging:
    """The rows that trained, as models and choices without each score it."""
    record = fitted.out_of_fold
    assert record is not None
    found = record.judged
    rows = torch.from_numpy(ready.parts.train)[record.rows]
    if found is None:
        return Judging(rows, record.scores, record.scores, record.folds)
    rows, scores, folds = rows[found.index], found.scores, record.folds[found.index]
    if ready.objective.needs_threshold:  # each is decided at the threshold of the others, moved to the one that stays
        return Judging(rows, scores - found.thresholds + fitted.threshold.value, scores, folds)
    return Judging(rows, scores, scores, folds)


def _logging(folder: Path, tell: Tell) -> Callable[[Progress], None]:
    """Told on, and kept in log.jsonl."""

    def both(progress: Progress) -> None:
        with (folder / "log.jsonl").open("a", encoding="utf8") as file:
            file.write(json.dumps(asdict(progress)) + "\n")
        tell(step_of(progress))

    return both


def step_of(progress: Progress) -> Step:
    """A cell of the ensemble as a step of the run."""
    doing = f"{progress.title}, fold {progress.fold + 1} of {progress.folds}"
    value = f"{progress.done} of {progress.total} cells"
    return Step(doing, value, progress.done, progress.total, progress.left)
