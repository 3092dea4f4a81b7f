"""`aimfor train` on a stream: checks, trains, and says what happens."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.config import Recipe, Settings
from ...fitting.default import default_recipe
from ...fitting.fit import Event, Interrupted
from ..data.tables import memory_needed
from ..run.folder import CHECKPOINT, new_folder, write_config
from ..run.lock import locked
from ..run.signals import stop_on_signal
from ..run.training import how_to_go_on
from ..run.trust import check_trust
from .convene import Learned, kinds_of
from .fit import StreamFit
from .prepare import Ready, prepare
from .ranks import Ranks, restarts, started
from .results import write_committee, write_network
from .table import is_stream

#: CSV files as Parquet, while the run is not finished.
STAGED = "rows"


def train(settings: Settings, recipe: Recipe | None, out: Path | None, quiet: bool) -> None:
    """Starts a streamed run; under torchrun, in every process. Without a recipe it is one of trees and a network."""
    with started() as ranks:
        again = out is not None and restarts() > 0 and (out / "config.json").exists()
        if out is not None and ranks.gathered(again)[0]:
            if not (out / "metrics.json").exists():
                _go_on(out, ranks, quiet, None)
            return
        name = f"{Path(settings.data).name.split('.')[0]}-{settings.metric}"
        folder = Path(ranks.gathered(str(new_folder(out, name)) if ranks.first else None)[0])
        try:
            work = _Work(folder, prepare(settings, ranks, folder / STAGED, recipe is None), recipe, ranks, quiet)
        except BaseException:
            if ranks.first:
                _leave_nothing(folder)
            raise
        if ranks.first:
            write_config(folder, _config(work.ready, recipe))
        with _alone(folder, ranks):
            work.finish()


def _alone(folder: Path, ranks: Ranks) -> AbstractContextManager[None]:
    """Holds the folder: of several processes the first does it for all."""
    return locked(folder / "config.json") if ranks.first else nullcontext()


def _leave_nothing(folder: Path) -> None:
    """A run that could not start leaves no folder behind, unless somebody else had put something there."""
    shutil.rmtree(folder / STAGED, ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def resume(folder: Path, quiet: bool, trust: str | None) -> None:
    """Goes on with a streamed run."""
    with started() as ranks:
        _go_on(folder, ranks, quiet, trust)


def is_wanted(data: str, memory: int) -> bool:
    """Whether the data is read as a stream: a folder of tables, or a file too large for ``memory`` bytes (if not 0)."""
    path = Path(data)
    if path.is_file():
        return bool(memory) and path.suffix.lower() != ".npz" and memory_needed(path) > memory
    return is_stream(data)


def _go_on(folder: Path, ranks: Ranks, quiet: bool, trust: str | None) -> None:
    config = checkpoint.read_json(folder / "config.json")
    if (folder / "metrics.json").exists():
        raise InputError("--resume", f"{folder}, which is finished", "a run that was stopped")
    with checkpoint.reading(folder / "config.json"):
        settings = Settings(**config["settings"])
        recipe = None if config["recipe"] is None else Recipe(**config["recipe"])
    check_trust(folder, settings.model, trust)
    with _alone(folder, ranks):
        ready = prepare(settings, ranks, folder / STAGED, recipe is None)
        if ready.fingerprint != config["fingerprint"]:
            raise InputError("--resume", f"{folder}, whose data has changed since", "the data the run was started with")
        _Work(folder, ready, recipe, ranks, quiet).finish()


def _config(ready: Ready, recipe: Recipe | None) -> dict[str, Any]:
    return {
        "aimfor": __version__,
        "kind": "stream",
        "settings": ready.settings.model_dump(),
        "recipe": None if recipe is None else recipe.model_dump(),
        "labels": ready.labels.state,
        "encoder": ready.encoder.state,
        "fingerprint": ready.fingerprint,
    }


class _Work:
    """One run from its preparation to its files, in every process."""

    def __init__(self, folder: Path, ready: Ready, recipe: Recipe | None, ranks: Ranks, quiet: bool) -> None:
        self.folder, self.ready, self.recipe, self.ranks, self.quiet = folder, ready, recipe, ranks, quiet
        self.kinds = ("network",) if recipe is not None else kinds_of(ready.settings)
        self.fit: StreamFit | None = None
        if "network" in self.kinds:
            self.fit = StreamFit(ready, recipe or default_recipe("stream"), ranks, self._report)

    def finish(self) -> None:
        self._tell()
        with stop_on_signal() as stop:
            try:
                if self.recipe is not None:
                    self._network(stop)
                else:
                    self._committee(stop)
            except Interrupted:
                if self.ranks.first:
                    print(how_to_go_on(self.folder), file=sys.stderr)
                raise
        if self.ranks.first:
            shutil.rmtree(self.folder / STAGED, ignore_errors=True)
            for part in self.folder.rglob(".*.part"):  # of a save in whose middle the process was killed
                part.unlink(missing_ok=True)
            if not self.quiet:
                value = checkpoint.read_json(self.folder / "metrics.json")["test"]["metric"]
                rows, metric = self.ready.rows["test"], self.ready.settings.metric
                print(f"{metric} on {rows:,} test rows: {value:.4f}\nrun: {self.folder}", file=sys.stderr)

    def _tell(self) -> None:
        if self.ranks.first and not self.quiet:
            who = " and ".join({"trees": "boosted trees", "network": "one network"}[kind] for kind in self.kinds)
            read = f"read as a stream: {self.ready.rows['train']:,} training rows, {who}"
            for note in [read, *self.ready.notes]:
                print(f"note: {note}", file=sys.stderr)

    def _learn_network(self, stop: Callable[[], bool]) -> StreamFit:
        assert self.fit is not None
        path = self.folder / CHECKPOINT
        if path.exists():
            self.fit.restore(path)
        if self.ranks.first:  # what was logged after the last save would otherwise come twice
            lines = "".join(json.dumps(event) + "\n" for event in self.fit.state.history)
            checkpoint.write_text(self.folder / "log.jsonl", lines)
        return self.fit.run(path, stop)

    def _network(self, stop: Callable[[], bool]) -> None:
        fit = self._learn_network(stop)
        validation, test = fit.scores(self.ready.validation), fit.scores(self.ready.test)
        weights = fit.weights()
        if self.ranks.first:
            write_network(self.folder, fit, self.ready, weights, validation, test)

    def _committee(self, stop: Callable[[], bool]) -> None:
        learned = Learned(self.ready, self.ranks)
        if "network" in self.kinds:
            learned.network(self._learn_network(stop))
        if "trees" in self.kinds:
            learned.trees(self.folder, stop)
        committee = learned.convened()
        test = learned.test_scores(committee)
        if self.ranks.first:
            for note in [] if self.quiet else learned.notes:
                print(f"note: {note}", file=sys.stderr)
            write_committee(self.folder, self.ready, committee, test)

    def _report(self, event: Event) -> None:
        from ..cli.bar import console

        with (self.folder / "log.jsonl").open("a", encoding="utf8") as file:
            file.write(json.dumps(event) + "\n")
        if not self.quiet:
            speed = event["rows"] / max(event["seconds"], 1e-9)
            console().print(
                f"epoch {event['epoch']:g} of {event['epochs']}, {event['title']}: {event['validation']:.4f}, "
                f"best {event['best']:.4f} ({speed:,.0f} rows/s)"
            )
