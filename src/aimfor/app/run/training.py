"""What `aimfor train` does: prepare, fit, evaluate, and write the run folder."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.all_data import Ending, check, end
from ...fitting.calibrate import platt, probability
from ...fitting.config import Recipe, Settings
from ...fitting.fit import Event, Fit, Interrupted
from ...fitting.importance import permutation_importance
from ...fitting.models import scores_of
from ..data.encode import ImageEncoder
from .card import model_card
from .evaluate import evaluate
from .folder import CHECKPOINT, Prepared, new_folder, prepare
from .trust import check_trust


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask the loop to save and stop; a second Ctrl-C ends at once."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start(settings: Settings, recipe: Recipe, out: Path | None) -> tuple[Path, Prepared]:
    """Checks everything, then makes the folder and writes config.json."""
    ready = prepare(settings)
    check(recipe, ready.objective)
    folder = new_folder(out, f"{ready.source.name}-{settings.metric}")
    config = {
        "aimfor": __version__,
        "settings": ready.settings.model_dump(),
        "recipe": recipe.model_dump(),
        "labels": ready.labels.state,
        "encoder": ready.encoder.state,
        "fingerprint": ready.fingerprint(),
    }
    checkpoint.write_json(folder / "config.json", config)
    return folder, ready


def reopen(folder: Path, trust: str | None = None) -> tuple[Prepared, Recipe]:
    """A run to be continued. Raises `InputError` when it is finished, has other data now, or names foreign code."""
    config = checkpoint.read_json(folder / "config.json")
    if (folder / "metrics.json").exists():
        raise InputError("--resume", f"{folder}, which is finished", "a run that was stopped")
    settings = Settings(**config["settings"])
    check_trust(folder, settings.model, trust)
    ready = prepare(settings)
    if ready.fingerprint() != config["fingerprint"]:
        raise InputError("--resume", f"{folder}, whose data has changed since", "the data the run was started with")
    return ready, Recipe(**config["recipe"])


def finish(folder: Path, ready: Prepared, recipe: Recipe, report: Callable[[Event], None] | None = None) -> Any:
    """Trains (or goes on training) to the end and writes every output file; returns the metrics."""
    fit = Fit(ready.task, ready.settings, recipe, report)
    path = folder / CHECKPOINT
    if path.exists():
        fit.restore(path)
    _rewrite_log(folder, fit)
    fit.report = _logging(folder, report)
    with stop_on_signal() as stop:
        ending = end(fit.run(path, stop), stop)
        metrics = _results(ready, fit, ending, stop)
    checkpoint.save(folder / "model.safetensors", ending.model.state_dict(), {"threshold": ending.threshold})
    checkpoint.write_json(folder / "threshold.json", _decision(ready, ending))
    checkpoint.write_text(folder / "README.md", model_card(ready, recipe, metrics))
    checkpoint.write_json(folder / "metrics.json", metrics)
    return metrics


def _rewrite_log(folder: Path, fit: Fit) -> None:
    """The log holds what the state holds: lines written after the last save would otherwise come twice."""
    lines = "".join(json.dumps(event) + "\n" for event in fit.state.history)
    checkpoint.write_text(folder / "log.jsonl", lines)


def _logging(folder: Path, report: Callable[[Event], None] | None) -> Callable[[Event], None]:
    def both(event: Event) -> None:
        with (folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
        if report is not None:
            report(event)

    return both


def _decision(ready: Prepared, ending: Ending) -> dict[str, Any]:
    decision: dict[str, Any] = {
        "threshold": ending.threshold,
        "rule": "score > threshold",
        "tuned_on": "validation",
        "classes": ready.labels.classes,
    }
    if ready.labels.binary:
        decision["calibration"] = list(_calibration(ready, ending))
    return decision


def _calibration(ready: Prepared, ending: Ending) -> tuple[float, float]:
    return platt(ending.scores, ready.task.y_validation)


def _results(ready: Prepared, fit: Fit, ending: Ending, stop: Callable[[], bool]) -> dict[str, Any]:
    """Validation: the weights that were chosen on it. Test: the model that is saved, which has seen no test row."""
    x, y = ready.test
    scores = scores_of(ending.model, x, ready.labels.outputs)
    groups = None if ready.source.groups is None else ready.source.groups[ready.parts.test]
    stated = probability(scores, _calibration(ready, ending)) if ready.labels.binary else scores.double().softmax(1)
    test = evaluate(ready.objective, scores, y, ending.threshold, groups, probabilities=stated.numpy(), thorough=True)
    best = fit.state.best
    return {
        "metric": ready.settings.metric,
        "validation": best["value"],
        "test": test,
        "importance": _importance(ready, ending, stop),
        "threshold": ending.threshold,
        "last_phase": ending.phase,
        "chosen": {key: best[key] for key in ("stage", "loss", "balanced", "epoch")},
        "rows": {name: len(getattr(ready.parts, name)) for name in ("train", "validation", "test")},
        "parameters": sum(tensor.numel() for tensor in fit.model.parameters()),
        "seconds": round(fit.state.seconds, 3),
        "notes": [*ready.notes, *fit.state.notes],
        "torch": torch.__version__,
        "history": fit.state.history,
    }


def _importance(ready: Prepared, ending: Ending, stop: Callable[[], bool]) -> dict[str, Any]:
    """Of each column of a table, on test rows."""
    if isinstance(ready.encoder, ImageEncoder):
        return {"left_out": "pixels have no importance of their own"}

    def interrupt() -> None:
        if stop():
            raise Interrupted("stopped; the state is saved")

    return permutation_importance(
        lambda rows: scores_of(ending.model, rows, ready.labels.outputs),
        lambda scores, y: ready.objective.value(scores, y, ending.threshold),
        *ready.test,
        ready.encoder.feature_columns,
        stopped=interrupt,
    )
