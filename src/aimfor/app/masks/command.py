"""`aimfor train --masks` and `aimfor predict` of such a run, with a live line and a few words at the end."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.config import Settings
from ..cli.bar import console
from ..cli.progress import learning
from ..data.pictures import pictures_of
from ..report.page import between
from . import run as masks
from .data import Scenes
from .report import PALETTE, write_mask_report


def train(settings: Settings, out: Path | None, quiet: bool) -> None:
    """Starts a run on masks and finishes it."""
    folder, scenes, size = masks.train(settings, out)
    _finish(folder, settings, scenes, size, quiet)


def resume(folder: Path, quiet: bool) -> None:
    settings, scenes, size = masks.reopen(folder)
    _finish(folder, settings, scenes, size, quiet)


def _finish(folder: Path, settings: Settings, scenes: Scenes, size: tuple[int, int], quiet: bool) -> None:
    with learning(folder, scenes.notes, quiet) as (live, stop):
        line = live.add_task("training", total=1, value="")

        def tell(done: int, total: int) -> None:
            live.update(line, completed=done, total=total, value=f"{done} of {total} passes")

        metrics = masks.finish(folder, settings, scenes, size, tell, stop)
    write_mask_report(folder, masks.load_run(folder), scenes)
    console().print(_summary(folder, metrics))


def rewrite_mask_report(folder: Path) -> Path:
    """report.html anew, from the pictures and masks the run was trained on."""
    run = masks.load_run(folder)
    return write_mask_report(folder, run, masks.scenes_of(run.settings))


def _summary(folder: Path, metrics: dict[str, Any]) -> Table:
    table, test = Table(box=None, show_header=False, pad_edge=False), metrics["test"]
    table.add_row(f"{metrics['metric']} on test pictures", f"{test['metric']:.4f} (95 %: {between(test['interval'])})")
    found = metrics["out_of_fold"]
    table.add_row("out of fold, argmax and decided", f"{found['argmax']:.4f}, {found['offsets'] or 0:.4f}")
    table.add_row("decisions", found["text"])
    table.add_row("report", str(folder / "report.html"))
    return table


def predict(folder: Path, data: str, out: Path | None) -> None:
    """Writes one PNG of class ids a picture, of the picture's size, into the folder ``out``.

    Raises:
        InputError: No folder to write to, pictures that cannot be read, a damaged run.
    """
    from PIL import Image

    if out is None:
        raise InputError("--out", "nothing", "a folder for the masks", "For instance: --out masks.")
    run, pictures = masks.load_run(folder), pictures_of(Path(data))  # all are readable, or nothing is written
    colours = np.array(PALETTE, dtype=np.uint8)
    palette = colours[np.arange(256) % len(colours)].reshape(-1).tolist()
    for row, name in enumerate(pictures.names):
        image = Image.fromarray(run.decide(pictures, row))
        image.putpalette(palette)
        path = (out / name).with_suffix(".png")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("--out", f"{out} ({error.strerror})", "a folder that may be written") from None
        content = io.BytesIO()
        image.save(content, "PNG")
        checkpoint.write_bytes(path, content.getvalue())
