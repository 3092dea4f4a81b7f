"""What `aimfor train` does on a table or on pictures: prepare, learn, evaluate, write the folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import __version__
from ...fitting.committee import Progress
from ...fitting.config import Settings
from ..data.features import Work
from ..data.source import Source
from .convening import check_committee, finish_committee
from .finished import one_network
from .folder import Prepared, check_unchanged, new_folder, prepare, stopped_run, write_config
from .lock import locked
from .signals import stop_on_signal


def start(
    settings: Settings, out: Path | None, source: Source | None = None, work: Work | None = None
) -> tuple[Path, Prepared]:
    """Checks everything, then makes the folder and writes config.json."""
    ready = prepare(settings, source, committee=True, work=work)
    check_committee(ready)
    folder = new_folder(out, f"{ready.source.name}-{settings.metric}")
    config = {
        "aimfor": __version__,
        "settings": ready.settings.model_dump(),
        "labels": ready.labels.state,
        "encoder": ready.encoder.state,
        "fingerprint": ready.fingerprint(),
    }
    write_config(folder, config)
    return folder, ready


def reopen(folder: Path, work: Work | None = None) -> Prepared:
    """A run to be continued. Raises `InputError` when it is finished or has other data now."""
    config, settings = stopped_run(folder)
    if config.get("recipe") is not None:
        raise one_network(folder, config)
    ready = prepare(settings, committee=True, work=work)
    check_unchanged(folder, config, ready.fingerprint())
    return ready


def finish(folder: Path, ready: Prepared, report: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Learns (or goes on) to the end and writes every output file; returns the metrics."""
    with locked(folder / "config.json"), stop_on_signal(folder, how_to_go_on(folder)) as stop:
        return finish_committee(folder, ready, report, stop)


def how_to_go_on(folder: Path) -> str:
    """What a user is told after a stop."""
    return f"Stopped; the state is saved. Continue with: aimfor train --resume {folder}"
