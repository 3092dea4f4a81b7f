"""`aimfor train --metric map@r`, `embed` and `search`, with a live line and a few words at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from ...fitting.backbones import is_backbone, load_backbone
from ...fitting.config import Settings
from ...fitting.embedding.near import is_retrieval
from ..cli.bar import console
from ..cli.progress import features, learning
from ..data.features import SIDE, Work
from ..data.images import image_files
from ..data.pictures import pictures_of
from ..data.sources import Source, load
from ..report.page import between
from ..run.folder import check_unchanged, stopped_run
from . import run as retrieval
from .report import write_neighbours, write_retrieval_report
from .vectors import Vectors, check_suffix, read_vectors, write_vectors


def is_wanted(data: str, metric: str, model: str, query: str | None) -> bool:
    """Whether a run is about neighbours: such a metric on pictures (a table of paths needs a backbone to be one)."""
    return is_retrieval(metric) and query is None and (is_backbone(model) or Path(data).is_dir())


def train(settings: Settings, out: Path | None, quiet: bool) -> None:
    """Starts a run and finishes it."""
    with features(Path("runs") if out is None else out.resolve().parent, quiet) as work:
        folder, ready = retrieval.start(settings, _source(settings, work), out, work)
    _finish(folder, ready, quiet)


def resume(folder: Path, quiet: bool) -> None:
    """Goes on with a run that was stopped. Raises `InputError` when it is finished or has other data now."""
    config, settings = stopped_run(folder)
    with features(folder.resolve().parent, quiet) as work:
        ready = retrieval.prepare(settings, _source(settings, work), work)
    check_unchanged(folder, config, ready.fingerprint)
    _finish(folder, ready, quiet)


def _source(settings: Settings, work: Work) -> Source:
    known: Any = ()
    if is_backbone(settings.model):
        known = work.store(load_backbone(settings.model), settings.image_size or SIDE).known
    return load(
        settings.data,
        settings.target,
        encoding=settings.encoding,
        rows=settings.rows,
        lazy=True,
        skip_corrupt=settings.skip_corrupt,
        known=known,
    )


def _finish(folder: Path, ready: retrieval.Ready, quiet: bool) -> None:
    with learning(folder, ready.gallery.notes, quiet) as (live, stop):
        line = live.add_task("training", total=1, value="")

        def tell(done: int, total: int) -> None:
            live.update(line, completed=done, total=total, value=f"{done} of {total} steps")

        metrics = retrieval.finish(folder, ready, tell, stop)
        vectors = torch.from_numpy(read_vectors(folder / retrieval.OWN).rows)
        write_neighbours(folder, ready.gallery, vectors)
    write_retrieval_report(folder)
    console().print(_summary(folder, metrics))


def _summary(folder: Path, metrics: dict[str, Any]) -> Table:
    table, test = Table(box=None, show_header=False, pad_edge=False), metrics["test"]
    name = metrics["metric"]
    table.add_row(f"{name} on test classes", f"{test['metric']:.4f} (95 % over classes: {between(test['interval'])})")
    table.add_row(f"{name} before training", f"{metrics['untrained']['metric']:.4f}")
    rest = {key: one["value"] for key, one in test["all"].items() if key != name}
    table.add_row("also", ", ".join(f"{key} {value:.3f}" for key, value in rest.items()))
    table.add_row("embedding", f"{metrics['chosen']}, {metrics['width']} numbers")
    table.add_row("report", str(folder / "report.html"))
    return table


def embed(folder: Path, data: str, out: Path, quiet: bool) -> list[Path]:
    """Vectors of all pictures of a folder, with their names; classes where they lie in subfolders."""
    check_suffix(out)
    run, path = retrieval.load_run(folder), Path(data)
    pictures = pictures_of(path)
    with features(folder.resolve().parent, quiet) as work:
        vectors = run.vectors(pictures, Work(work.runs, write=False, tell=work.tell, stop=work.stop))
    nested = path.is_dir() and all(len(one.relative_to(path).parts) > 1 for one in image_files(path))
    labels = [Path(name).parts[0] for name in pictures.names] if nested else None
    return write_vectors(out, Vectors(pictures.names, vectors.numpy(), labels))
