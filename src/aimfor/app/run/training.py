"""What `aimfor train` does: prepare, learn (a committee, or one network by a recipe), evaluate, write the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.calibrate import platt, probability
from ...fitting.columns import TableEncoder
from ...fitting.config import Recipe, Settings
from ...fitting.fit import Event, Fit
from ...fitting.importance import permutation_importance
from ...fitting.models import scores_of
from ..data.features import Work
from ..data.source import Source
from ..report.sheets import write_sheets
from .card import model_card
from .convening import check_committee, finish_committee
from .evaluate import evaluate
from .evaluating import Evaluating
from .folder import CHECKPOINT, Prepared, new_folder, prepare, write_config
from .lock import locked
from .signals import stop_on_signal
from .trust import check_trust


def start(
    settings: Settings,
    recipe: Recipe | None,
    out: Path | None,
    source: Source | None = None,
    work: Work | None = None,
) -> tuple[Path, Prepared]:
    """Checks everything, then makes the folder and writes config.json. Without a recipe it is a committee's run."""
    ready = prepare(settings, source, committee=recipe is None, work=work)
    if recipe is None:
        check_committee(ready)
    folder = new_folder(out, f"{ready.source.name}-{settings.metric}")
    config = {
        "aimfor": __version__,
        "settings": ready.settings.model_dump(),
        "recipe": None if recipe is None else recipe.model_dump(),
        "labels": ready.labels.state,
        "encoder": ready.encoder.state,
        "fingerprint": ready.fingerprint(),
    }
    write_config(folder, config)
    return folder, ready


def reopen(folder: Path, trust: str | None = None, work: Work | None = None) -> tuple[Prepared, Recipe | None]:
    """A run to be continued. Raises `InputError` when it is finished, has other data now, or names foreign code."""
    config = checkpoint.read_json(folder / "config.json")
    if (folder / "metrics.json").exists():
        raise InputError("--resume", f"{folder}, which is finished", "a run that was stopped")
    settings = Settings(**config["settings"])
    check_trust(folder, settings.model, trust)
    recipe = None if config["recipe"] is None else Recipe(**config["recipe"])
    ready = prepare(settings, committee=recipe is None, work=work)
    if ready.fingerprint() != config["fingerprint"]:
        raise InputError("--resume", f"{folder}, whose data has changed since", "the data the run was started with")
    return ready, recipe


def finish(
    folder: Path, ready: Prepared, recipe: Recipe | None, report: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Learns (or goes on) to the end and writes every output file; returns the metrics.

    ``report`` gets a `Progress` after every cell of a committee, or a dict after every epoch of a network.
    """
    with locked(folder / "config.json"), stop_on_signal(folder, how_to_go_on(folder)) as stop:
        if recipe is None:
            return finish_committee(folder, ready, report, stop)
        return _finish_network(folder, ready, recipe, report, stop)


def how_to_go_on(folder: Path) -> str:
    """What a user is told after a stop."""
    return f"Stopped; the state is saved. Continue with: aimfor train --resume {folder}"


def _finish_network(
    folder: Path, ready: Prepared, recipe: Recipe, report: Callable[[Any], None] | None, stop: Callable[[], bool]
) -> dict[str, Any]:
    fit = Fit(ready.task, ready.settings, recipe, report)
    path = folder / CHECKPOINT
    if path.exists():
        fit.restore(path)
    _rewrite_log(folder, fit)
    fit.report = _logging(folder, report)
    fit.run(path, stop)
    metrics = _results(ready, fit, Evaluating(ready, stop, report))
    threshold = fit.state.best["threshold"]
    if ready.source.kind == "pictures":
        write_sheets(folder, ready, scores_of(fit.model, ready.test[0], ready.labels.outputs), threshold)
    checkpoint.save(folder / "model.safetensors", fit.model.state_dict(), {"threshold": threshold})
    checkpoint.write_json(folder / "threshold.json", _decision(ready, fit))
    checkpoint.write_text(folder / "README.md", model_card(ready, recipe, metrics))
    checkpoint.write_json(folder / "metrics.json", metrics)
    return metrics


def _rewrite_log(folder: Path, fit: Fit) -> None:
    """The log holds what the state holds: lines written after the last save would otherwise come twice."""
    lines = "".join(json.dumps(event) + "\n" for event in fit.state.history)
    checkpoint.write_text(folder / "log.jsonl", lines)


def _logging(folder: Path, report: Callable[[Event], None] | None) -> Callable[[Event], None]:
    def both(event: Event) -> None:
        with (folder / "log.jsonl").open("a", encoding="utf8") as file:
            file.write(json.dumps(event) + "\n")
        if report is not None:
            report(event)

    return both


def _decision(ready: Prepared, fit: Fit) -> dict[str, Any]:
    decision: dict[str, Any] = {
        "threshold": fit.state.best["threshold"],
        "rule": "score > threshold",
        "tuned_on": "validation",
        "classes": ready.labels.classes,
    }
    if ready.labels.binary:
        decision["calibration"] = list(_calibration(ready, fit))
    return decision


def _calibration(ready: Prepared, fit: Fit) -> tuple[float, float]:
    task = ready.task
    return platt(scores_of(fit.model, task.x_validation, task.outputs), task.y_validation)


def _results(ready: Prepared, fit: Fit, evaluating: Evaluating) -> dict[str, Any]:
    """Validation: the weights that were chosen on it. Test: the same weights, which have seen no test row."""
    x, y = ready.test
    best = fit.state.best
    scores = scores_of(fit.model, x, ready.labels.outputs)
    groups = None if ready.source.groups is None else ready.source.groups[ready.parts.test]
    stated = probability(scores, _calibration(ready, fit)) if ready.labels.binary else scores.double().softmax(1)
    test = evaluate(ready.objective, scores, y, best["threshold"], groups, probabilities=stated.numpy(), thorough=True)
    return {
        "metric": ready.settings.metric,
        "validation": best["value"],
        "test": test,
        "importance": _importance(ready, fit, evaluating),
        "threshold": best["threshold"],
        "chosen": {key: best[key] for key in ("stage", "loss", "balanced", "epoch")},
        "rows": {name: len(getattr(ready.parts, name)) for name in ("train", "validation", "test")},
        "parameters": sum(tensor.numel() for tensor in fit.model.parameters()),
        "seconds": round(fit.state.seconds, 3),
        "notes": [*ready.notes, *fit.state.notes],
        "torch": torch.__version__,
        "history": fit.state.history,
    }


def _importance(ready: Prepared, fit: Fit, evaluating: Evaluating) -> dict[str, Any]:
    """Of each column of a table, on test rows."""
    if not isinstance(ready.encoder, TableEncoder):
        return {"left_out": "pixels have no importance of their own"}

    return permutation_importance(
        lambda rows: scores_of(fit.model, rows, ready.labels.outputs),
        lambda scores, y: ready.objective.value(scores, y, fit.state.best["threshold"]),
        *ready.test,
        ready.encoder.feature_columns,
        stopped=evaluating,
    )
