"""`aimfor predict` of a streamed run: rows in, rows out, never all of them at once."""

from __future__ import annotations

import contextlib
import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import torch

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.columns import TableEncoder
from ...fitting.config import Settings
from ...fitting.models import build, scores_of
from ..data.labels import Labels
from ..data.tables import csv_options
from ..run.trust import check_trust
from .table import columns_of_batch, open_table


def predict(folder: Path, data: str, out: Path | None, encoding: str, rows: int | None, trust: str | None) -> None:
    """Writes score, probability and decision of every row; a file is there whole or not at all."""
    score = _scorer(folder, trust)
    with _output(out) as file:
        writer, at = csv.writer(file, lineterminator="\n"), 0
        for table in _tables(data, encoding):
            part = table if rows is None else table.slice(0, rows - at)
            if part.num_rows:
                score(part, at, writer)
                at += part.num_rows
            if rows is not None and at >= rows:
                break


def _tables(data: str, encoding: str) -> Iterator[Any]:
    """Parts of a table: row groups, or blocks of a CSV file."""
    path = Path(data)
    if path.is_dir() or path.suffix.lower() in (".parquet", ".pq"):
        table = open_table(data)
        yield from (table.arrow(number) for number in range(len(table.units)))
        return
    from pyarrow import csv as arrow_csv

    if not path.exists():
        raise InputError("data", f"{data}, which does not exist", "a file or a folder")
    try:
        with arrow_csv.open_csv(str(path), **csv_options(path, encoding)) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError) as error:
        came = f"{path}, which cannot be read ({str(error).splitlines()[0][:160]})"
        raise InputError("data", came, "a CSV or Parquet file") from None


@contextlib.contextmanager
def _output(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf8") as file:
            yield file
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _scorer(folder: Path, trust: str | None) -> Any:
    """A function of (rows, number of the first, writer) that writes one line a row."""
    config, decision = (checkpoint.read_json(folder / name) for name in ("config.json", "threshold.json"))
    tensors, _ = checkpoint.load(folder / "model.safetensors")
    with checkpoint.reading(folder / "config.json"):
        settings, labels = Settings(**config["settings"]), Labels(**config["labels"])
        encoder = TableEncoder.restore(config["encoder"])
        check_trust(folder, settings.model, trust)
        model = build(settings.model, encoder.shape, labels.outputs, settings.hidden, settings.dropout)
    with checkpoint.reading(folder / "model.safetensors"):
        model.load_state_dict(tensors)
    model.eval()
    with checkpoint.reading(folder / "threshold.json"):
        threshold = float(decision["threshold"])
        slope, offset = decision.get("calibration") or (1.0, 0.0)

    def score(rows: Any, first: int, writer: Any) -> None:
        x = torch.from_numpy(encoder.transform(columns_of_batch(rows), source="the data"))
        found = scores_of(model, x, labels.outputs)
        names = range(first, first + len(found))
        if labels.binary:
            if first == 0:
                writer.writerow(["row", "score", "probability", "decision"])
            chances = torch.sigmoid(slope * found.double() + offset).tolist()
            decided = (found.double() > threshold).long().tolist()
            for row in zip(names, found.tolist(), chances, decided, strict=True):
                writer.writerow([row[0], repr(row[1]), f"{row[2]:.6g}", labels.classes[row[3]]])
            return
        if first == 0:
            writer.writerow(["row", *(f"score {one}" for one in labels.classes), "probability", "decision"])
        chance = found.double().softmax(1).numpy()
        for name, each, share in zip(names, found.tolist(), chance, strict=True):
            best = int(np.argmax(share))
            writer.writerow([name, *map(repr, each), f"{share[best]:.6g}", labels.classes[best]])

    return score
