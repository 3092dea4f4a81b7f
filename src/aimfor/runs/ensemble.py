"""A run on classes or ranked lists in memory, by the ensemble: `aimfor train table.csv` and `aimfor train photos/`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import checkpoint
from ..data.columns import TableEncoder
from ..data.executors import cores
from ..data.features import FeatureEncoder
from ..data.settings import Settings
from ..errors import InputError
from ..learners.ensemble import Ensemble, FolderStore, Progress, fit_ensemble
from ..learners.ensemble.calibration import Threshold
from ..learners.ensemble.members import FOR_PICTURES, members
from ..learners.ensemble.weights import Judge
from ..learners.networks.loop import end_if
from ..metrics.at_rate import AtRate
from ..targets.calibrate import probability
from ..targets.classes import Labels
from ..targets.evaluate import evaluate
from ..targets.folds import make_folds, make_list_folds, make_time_folds
from ..targets.importance import Importance, permutation_importance
from ..targets.lists import evaluate_lists, list_importance
from ..targets.results import AnyPart
from .evaluation import HELD_OUT_ROWS, TEST_ROWS, Curves, EnsembleEvaluation, Estimate, MemberRow, Members
from .finished import save_ensemble
from .folder import CELLS
from .kinds import Reading, Step, Stop, Task, Tell
from .prepared import Prepared, prepare
from .sheets import picture_sheets

#: Cells (rows × columns) above which processes of their own pay for being started.
SPREAD_ABOVE = 60_000
#: Folds of a network on pixels, each of which takes minutes, and for what a random split would have claimed.
PICTURE_FOLDS = RANDOM_FOLDS = 3
#: Confidence that a guaranteed threshold keeps its floor.
CONFIDENCE = 0.95
#: Rows the ensemble scores to find out which columns matter; it is some thirty models.
IMPORTANCE_BUDGET = 60_000
RULE = (
    "Weights: the mean of greedy choices by the exact metric on bootstrap draws of out-of-fold rows (by average "
    "precision for metrics of decisions), pulled towards the plain average where a class is rare."
)


def fit_prepared(settings: Settings, prepared: Prepared, **how: Any) -> Ensemble:
    """The ensemble of a prepared table: the one call behind `train`, `compare` and the demo."""
    rows, source = torch.from_numpy(prepared.parts.train), prepared.source
    chosen: dict[str, Any] = {"kinds": settings.members}
    if source.images is not None:
        chosen = {"members": FOR_PICTURES, "folds": PICTURE_FOLDS}
        chosen |= {"single": settings.fast, "first_member_only": settings.fast}
    elif settings.fast:
        chosen = {"kinds": ("trees",), "single": True, "first_member_only": True}
    spread = prepared.x.numel() * len(rows) // max(1, len(prepared.x)) > SPREAD_ABOVE
    ensemble = fit_ensemble(
        prepared.x[rows],
        prepared.ids[rows],
        prepared.objective,
        lists=None if prepared.lists is None else prepared.lists[rows],
        groups=prepared.clusters(prepared.parts.train),
        times=None if source.times is None else torch.from_numpy(source.times)[rows],
        outputs=prepared.labels.outputs,
        levels=prepared.levels,
        seed=settings.seed,
        minutes=settings.budget_minutes,
        workers=settings.jobs or (min(4, cores()) if spread else 1),
        **chosen,
        **how,
    )
    if (settings.cluster or settings.time) and source.images is None:
        ensemble.notes.append(_claim_of_random_folds(ensemble, prepared))
    return with_floor(ensemble, prepared)


def _claim_of_random_folds(ensemble: Ensemble, prepared: Prepared) -> str:
    """What one member would seem to reach if rows that belong together, or later ones, were on both sides."""
    record, rows, settings = ensemble.out_of_fold, torch.from_numpy(prepared.parts.train), prepared.settings
    assert record is not None
    names = [weighted.name for weighted in ensemble.weighted_members]
    number = names.index("trees") if "trees" in names else 0
    member = next(member for member in members(settings.members) if member.name == names[number])
    how: dict[str, Any] = {"members": (member,), "outputs": prepared.labels.outputs, "levels": prepared.levels}
    x, ids, objective = prepared.x[rows], prepared.ids[rows], prepared.objective
    random = fit_ensemble(x, ids, objective, folds=RANDOM_FOLDS, seed=settings.seed, **how).out_of_fold
    assert random is not None
    judged, claimed = (
        Judge(objective, scored.members, scored.y).value(scored.members[at])
        for scored, at in ((record, number), (random, 0))
    )
    by = "folds in time" if settings.time else f"whole clusters of {settings.cluster!r}"
    return (
        f"judged on {by}: {member.title} alone has {objective.name} {judged:.3f} there, and would have "
        f"seemed to have {claimed:.3f} in random folds"
    )


def with_floor(ensemble: Ensemble, prepared: Prepared) -> Ensemble:
    """The ensemble, deciding at a threshold that keeps the floor, where its metric has one."""
    rows, whole = torch.from_numpy(prepared.parts.validation), prepared.source.whole
    if not isinstance(ensemble.objective.metric, AtRate) or not len(rows):
        return ensemble
    cluster = None if whole is None or prepared.settings.cluster is None else whole[prepared.parts.validation]
    copies = whole is not None and cluster is None
    scores = ensemble.scores(prepared.x[rows])
    return keeping_floor(ensemble, scores, prepared.ids[rows], "out-of-fold", copies, cluster)


def keeping_floor(
    ensemble: Ensemble, scores: Tensor, y: Tensor, learned_on: str, grouped: bool, cluster: Any | None = None
) -> Ensemble:
    """For a metric with a floor: the threshold that keeps it with 95 % confidence, tested on rows kept aside.

    The rows that weighed the members choose the order of the tests. They cannot be the tests themselves: weights and
    threshold were chosen on them, and out of fold each score is of one fold's models, where their average will decide.
    With ``cluster``, ids of what the tested rows belong to, the promise is for new clusters.
    """
    metric, record = ensemble.objective.metric, ensemble.out_of_fold
    assert isinstance(metric, AtRate)
    assert record is not None
    try:
        decision = metric.problem().decide(
            scores, y, guarantee=CONFIDENCE, learn=(record.scores, record.y), cluster=cluster
        )
        value, sentence = decision.threshold, str(decision.guarantee)
    except InputError as error:  # scores that tell nothing, or a floor far above them: the run is finished all the same
        value, sentence = None, str(error)
    notes = ensemble.notes
    if value is None:
        note = f"the threshold is the best for the floor on {learned_on} rows and comes without a guarantee: {sentence}"
        threshold, notes = Threshold(ensemble.threshold.value, note, guaranteed=False), [*notes, note]
    else:
        threshold = Threshold(value, sentence, guaranteed=True)
        if grouped:
            notes = [*notes, "the guarantee assumes independent rows; rows of one cluster seldom are"]
    return replace(ensemble, threshold=threshold, notes=notes)


def ensemble_facts(ensemble: Ensemble, rule: str = RULE) -> Members:
    """The members, their weights, and what each reaches alone on rows it has not learned from."""
    record = ensemble.out_of_fold
    assert record is not None
    judge = Judge(ensemble.objective, record.members, record.y, record.weights, record.lists)
    rows = [
        MemberRow(
            weighted.name,
            weighted.title,
            weighted.share,
            judge.value(scores),
            round(weighted.seconds, 3),
            None if weighted.curves is None else Curves(**weighted.curves),
        )
        for weighted, scores in zip(ensemble.weighted_members, record.members, strict=True)
    ]
    return Members(rows, len(record.folds.unique()), rule, "steady")


class OfEnsemble(Task):
    """What runs of an ensemble share, in memory and in chunks."""

    labels: Labels
    ranked = False

    def evaluation_of(self, fitted: Ensemble, rule: str = RULE, **values: Any) -> EnsembleEvaluation:
        """The evaluation: ``values`` of this run, and what follows from the ensemble."""
        return EnsembleEvaluation(
            metric=self.settings.metric,
            threshold=fitted.threshold.value,
            threshold_text=fitted.threshold.text,
            guaranteed=fitted.threshold.guaranteed,
            ensemble=ensemble_facts(fitted, rule),
            notes=[*self.notes, *fitted.notes],
            torch=torch.__version__,
            **values,
        )

    def save(self, folder: Path, fitted: Ensemble, evaluation: EnsembleEvaluation) -> None:
        """threshold.json (a ranking has no probabilities), and the ensemble."""
        threshold = fitted.threshold
        decision: dict[str, Any] = {
            "threshold": threshold.value,
            "rule": "score > threshold",
            "tuned_on": threshold.text,
            "classes": self.labels.classes,
        }
        if threshold.guaranteed is not None:
            decision["guaranteed"] = threshold.guaranteed
        if self.labels.binary and not self.ranked:
            decision["calibration"] = [1.0, 0.0]  # scores are calibrated log-odds already
        checkpoint.write_json(folder / "threshold.json", decision)
        save_ensemble(folder, fitted)

    def stated(self, scores: Tensor) -> Any:
        """Probabilities, of the positive class or of each, that calibrated log-odds stand for."""
        return (probability(scores) if self.labels.binary else scores.softmax(1)).numpy()


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


def of_rows(reading: Reading) -> EnsembleTask:
    """Rows or pictures in memory."""
    return EnsembleTask(prepare(reading.settings, reading.source, ensemble=True, work=reading.work))


class EnsembleTask(OfEnsemble):
    """Rows in memory × classes or grades × the ensemble."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.settings, self.name = prepared, prepared.settings, prepared.source.name
        self.labels, self.ranked, self.notes = prepared.labels, prepared.lists is not None, prepared.notes
        self.facts = {"labels": prepared.labels.state, "encoder": prepared.encoder.state}
        self.fingerprint = prepared.fingerprint
        if self.ranked:
            self.kind = "lists"
        elif isinstance(prepared.encoder, FeatureEncoder):
            self.kind = "features"
        else:
            self.kind = "table" if prepared.source.images is None else "pixels"
        self._check()

    def _check(self) -> None:
        """Raises `InputError` for what an ensemble cannot do, before a folder is made."""
        prepared, settings, train = self.prepared, self.settings, self.prepared.parts.train
        if prepared.source.images is None:
            members(settings.members)
        rows = torch.from_numpy(train)
        if prepared.lists is not None:
            make_list_folds(prepared.lists[rows], prepared.ids[rows], settings.seed, single=settings.fast)
        elif prepared.source.times is not None:
            make_time_folds(torch.from_numpy(prepared.source.times)[rows], prepared.ids[rows])
        else:
            make_folds(prepared.ids[rows], settings.seed, prepared.clusters(train), single=settings.fast)

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> Ensemble:
        """Every cell is told, and kept in log.jsonl."""

        def report(progress: Progress) -> None:
            with (folder / "log.jsonl").open("a", encoding="utf8") as file:
                file.write(json.dumps(asdict(progress)) + "\n")
            tell(step_of(progress))

        store = FolderStore(folder / CELLS)
        return fit_prepared(self.settings, self.prepared, store=store, report=report, stop=stop)

    def evaluate(self, fitted: Ensemble, tell: Tell, stop: Stop) -> EnsembleEvaluation:
        """Expected by choices made without each row; found on test rows where there are any, else on the same rows."""
        parts, threshold = self.prepared.parts, fitted.threshold.value
        evaluating = Evaluating(self.prepared, stop, tell)
        judging = self._judging(fitted)
        on_judging = self.evaluated_on(judging, threshold)
        expected = self.evaluated_on(held_out(self.prepared, fitted), threshold) if len(parts.test) else on_judging
        return self.evaluation_of(
            fitted,
            expected=Estimate(fitted.cross_validated, expected.interval),
            test=on_judging,
            part=TEST_ROWS if len(parts.test) else HELD_OUT_ROWS,
            importance=self._importance(fitted, judging, evaluating),
            rows={"train": len(parts.train), "validation": len(parts.validation), "test": len(parts.test)},
        )

    def sheets(self, fitted: Ensemble, evaluation: EnsembleEvaluation) -> list[dict[str, Any]] | None:
        if self.prepared.source.kind != "pictures":
            return None
        judging, classes = self._judging(fitted), self.labels.classes
        pictures, y = self.prepared.source.as_pictures(), self.prepared.ids[judging.rows]
        return picture_sheets(pictures, judging.rows.tolist(), y, judging.scores, evaluation.threshold, classes)

    def _judging(self, fitted: Ensemble) -> Judging:
        """Test rows; without any, all rows as choices without them score them."""
        rows = torch.from_numpy(self.prepared.parts.test)
        if not len(rows):
            return held_out(self.prepared, fitted)
        scores = fitted.scores(self.prepared.x[rows])
        return Judging(rows, scores, scores)

    def evaluated_on(self, judging: Judging, threshold: float) -> AnyPart:
        """Everything the report says about these rows."""
        prepared, source, numbers = self.prepared, self.prepared.source, judging.rows.numpy()
        y = prepared.ids[judging.rows]
        if prepared.lists is not None:
            assert source.queries is not None
            lists, names = prepared.lists[judging.rows], source.queries[numbers]
            return evaluate_lists(prepared.objective, judging.scores, y, lists, names, thorough=True)
        return evaluate(
            prepared.objective,
            judging.scores,
            y,
            threshold,
            None if source.groups is None else source.groups[numbers],
            probabilities=self.stated(judging.stated),
            clusters=prepared.clusters(numbers),
            thorough=True,
        )

    def _importance(self, fitted: Ensemble, judging: Judging, evaluating: Evaluating) -> Importance:
        """Of each column, on the rows that judge: those that trained are scored by the models that left them out."""
        prepared, objective, folds = self.prepared, self.prepared.objective, judging.folds
        if not isinstance(prepared.encoder, TableEncoder):
            return Importance(left_out="features of a pretrained network have no names")
        if folds is not None and prepared.source.times is not None:
            return Importance(left_out="with --time the models of the folds are not kept; name test rows by --test")
        x, y, columns = prepared.x[judging.rows], prepared.ids[judging.rows], prepared.encoder.feature_columns
        scores: Callable[[Tensor], Tensor] = fitted.scores
        if folds is not None:  # the fold goes with the row, as a column that is never shuffled
            x = torch.cat((x, folds[:, None].to(x.dtype)), 1)
            scores = lambda rows: fitted.scores_out_of_fold(rows[:, :-1].contiguous(), rows[:, -1].long())  # noqa: E731
        how: dict[str, Any] = {"budget": IMPORTANCE_BUDGET, "stopped": evaluating}
        if prepared.lists is not None:
            return list_importance(objective.metric, scores, x, y, prepared.lists[judging.rows], columns, **how)
        value = lambda scores, y: objective.value(scores, y, fitted.threshold.value)  # noqa: E731
        return permutation_importance(scores, value, x, y, columns, **how)


def held_out(prepared: Prepared, fitted: Ensemble) -> Judging:
    """The rows that trained, as models and choices without each score it."""
    record = fitted.out_of_fold
    assert record is not None
    rows, judged = torch.from_numpy(prepared.parts.train)[record.rows], record.judged
    if judged is None:
        return Judging(rows, record.scores, record.scores, record.folds)
    rows, scores, folds = rows[judged.index], judged.scores, record.folds[judged.index]
    if prepared.objective.needs_threshold:  # each is decided at the threshold of the others, moved to the final one
        return Judging(rows, scores - judged.thresholds + fitted.threshold.value, scores, folds)
    return Judging(rows, scores, scores, folds)


class Evaluating:
    """Called before every column whose importance is found out; the seconds of those before tell what is left."""

    def __init__(self, prepared: Prepared, stop: Stop, tell: Tell) -> None:
        self.stop, self.tell = stop, tell
        self.total, self.done, self.began = len(set(getattr(prepared.encoder, "feature_columns", ()))), 0, 0.0
        self._tell("evaluating", 0.0)

    def __call__(self) -> None:
        """Raises `Interrupted` when it is to stop."""
        end_if(self.stop())
        self.began = self.began or time.monotonic()
        self._tell("which columns matter", (time.monotonic() - self.began) / max(1, self.done))
        self.done += 1

    def _tell(self, doing: str, each: float) -> None:
        value = f"{self.done} of {self.total} columns" if self.total else ""
        self.tell(Step(doing, value, self.done, max(1, self.total), each * (self.total - self.done)))


def step_of(progress: Progress) -> Step:
    """A cell of the ensemble as a step of the run."""
    doing = f"{progress.title}, fold {progress.fold + 1} of {progress.folds}"
    value = f"{progress.done} of {progress.total} cells"
    return Step(doing, value, progress.done, progress.total, progress.left)
