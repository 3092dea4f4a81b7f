"""`aimfor train` on a stream: checks, trains, and writes the run folder."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...errors import AimforError, InputError
from ...fitting import checkpoint
from ...fitting.calibrate import platt
from ...fitting.config import Recipe, Settings
from ...fitting.fit import Event, Interrupted
from ..data.tables import memory_needed
from ..run.evaluate import evaluate
from ..run.folder import CHECKPOINT, new_folder
from ..run.training import stop_on_signal
from ..run.trust import check_trust
from .fit import StreamFit
from .prepare import Ready, prepare
from .ranks import Ranks, restarted, started
from .table import is_stream

#: CSV files as Parquet, while the run is not finished.
STAGED = "rows"


class Silent(AimforError):
    """Another process has told the user."""


def train(settings: Settings, recipe: Recipe, out: Path | None, quiet: bool) -> None:
    """Starts a streamed run; under torchrun, in every process."""
    with started() as ranks:
        try:
            name = f"{Path(settings.data).name.split('.')[0]}-{settings.metric}"
            if out is not None and restarted() and (out / "config.json").exists():
                _go_on(out, ranks, quiet, None)
                return
            folder = Path(ranks.gathered(str(new_folder(out, name)) if ranks.first else None)[0])
            ready = prepare(settings, ranks, folder / STAGED)
            fit = StreamFit(ready, recipe, ranks, _reporter(folder, quiet))
            if ranks.first:
                checkpoint.write_json(folder / "config.json", _config(ready, recipe))
            _finish(folder, fit, ready, recipe, ranks, quiet)
        except (AimforError, OSError) as error:
            raise _told_once(error, ranks) from None


def resume(folder: Path, quiet: bool, trust: str | None) -> None:
    """Goes on with a streamed run."""
    with started() as ranks:
        try:
            _go_on(folder, ranks, quiet, trust)
        except (AimforError, OSError) as error:
            raise _told_once(error, ranks) from None


def _told_once(error: Exception, ranks: Ranks) -> Exception:
    return error if isinstance(error, Interrupted) or ranks.may_complain() else Silent("")


def is_wanted(data: str, memory: int) -> bool:
    """Whether the data is read as a stream: a folder of tables, or a file too large for ``memory`` bytes (if not 0)."""
    path = Path(data)
    if path.is_file():
        return bool(memory) and path.suffix.lower() != ".npz" and memory_needed(path) > memory
    return is_stream(data)


def is_streamed(folder: Path) -> bool:
    """Whether a run folder is of a streamed run."""
    path = folder / "config.json"
    return path.exists() and checkpoint.read_json(path).get("kind") == "stream"


def _go_on(folder: Path, ranks: Ranks, quiet: bool, trust: str | None) -> None:
    config = checkpoint.read_json(folder / "config.json")
    if (folder / "metrics.json").exists():
        raise InputError("--resume", f"{folder}, which is finished", "a run that was stopped")
    with checkpoint.reading(folder / "config.json"):
        settings, recipe = Settings(**config["settings"]), Recipe(**config["recipe"])
    check_trust(folder, settings.model, trust)
    ready = prepare(settings, ranks, folder / STAGED)
    if ready.fingerprint != config["fingerprint"]:
        raise InputError("--resume", f"{folder}, whose data has changed since", "the data the run was started with")
    _finish(folder, StreamFit(ready, recipe, ranks, _reporter(folder, quiet)), ready, recipe, ranks, quiet)


def _config(ready: Ready, recipe: Recipe) -> dict[str, Any]:
    return {
        "aimfor": __version__,
        "kind": "stream",
        "settings": ready.settings.model_dump(),
        "recipe": recipe.model_dump(),
        "labels": ready.labels.state,
        "encoder": ready.encoder.state,
        "fingerprint": ready.fingerprint,
    }


def _reporter(folder: Path, quiet: bool) -> Any:
    from ..cli.bar import console

    screen = console()

    def report(event: Event) -> None:
        with (folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
        if not quiet:
            speed = event["rows"] / max(event["seconds"], 1e-9)
            screen.print(
                f"epoch {event['epoch']:g} of {event['epochs']}, {event['title']}: {event['validation']:.4f}, "
                f"best {event['best']:.4f} ({speed:,.0f} rows/s)"
            )

    return report


def _finish(folder: Path, fit: StreamFit, ready: Ready, recipe: Recipe, ranks: Ranks, quiet: bool) -> None:
    path = folder / CHECKPOINT
    if path.exists():
        fit.restore(path)
    if ranks.first and not quiet:
        for note in [f"read as a stream: {ready.rows['train']:,} training rows, one network", *ready.notes]:
            print(f"note: {note}", file=sys.stderr)
    with stop_on_signal() as stop:
        try:
            fit.run(path, stop)
        except Interrupted:
            if ranks.first:
                print(f"Stopped; the state is saved. Continue with: aimfor train --resume {folder}", file=sys.stderr)
            raise
    validation, test = fit.scores(ready.validation), fit.scores(ready.test)
    if ranks.first:
        _write(folder, fit, ready, recipe, validation, test)
        if not quiet:
            value = json.loads((folder / "metrics.json").read_text())["test"]["metric"]
            print(f"{ready.settings.metric} on {ready.rows['test']:,} test rows: {value:.4f}", file=sys.stderr)
            print(f"run: {folder}", file=sys.stderr)


def _write(folder: Path, fit: StreamFit, ready: Ready, recipe: Recipe, validation: Any, test: Any) -> None:
    best = fit.state.best
    decision: dict[str, Any] = {
        "threshold": best["threshold"], "rule": "score > threshold", "tuned_on": "validation",
        "classes": ready.labels.classes,
    }  # fmt: skip
    if ready.labels.binary:
        decision["calibration"] = list(platt(validation, ready.validation[1]))
    metrics = {
        "metric": ready.settings.metric,
        "validation": best["value"],
        "test": evaluate(ready.objective, test, ready.test[1], best["threshold"]),
        "threshold": best["threshold"],
        "chosen": {key: best[key] for key in ("loss", "epoch")},
        "rows": ready.rows,
        "parameters": sum(tensor.numel() for tensor in fit.model.parameters()),
        "seconds": round(fit.state.seconds, 3),
        "notes": ready.notes,
        "torch": torch.__version__,
        "history": fit.state.history,
    }
    checkpoint.save(folder / "model.safetensors", fit.model.state_dict(), {"threshold": best["threshold"]})
    checkpoint.write_json(folder / "threshold.json", decision)
    checkpoint.write_json(folder / "metrics.json", metrics)
    shutil.rmtree(folder / STAGED, ignore_errors=True)
