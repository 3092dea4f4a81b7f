"""`aimfor predict` on a stream: rows in, rows out, never all of them at once."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import torch

from ...data.chunks import csv_blocks, open_table, partitions, tables_in
from ...data.columns import TableEncoder, columns_of
from ...data.columns.cells import Column
from ...data.columns.coders import Remarks
from ...errors import InputError
from ..finished import Run, load_run
from ..predict import TableWriter, evaluated, header, ids_in, lines, tell

#: Rows that are encoded and scored at once.
BLOCK = 1 << 15
_TABLES = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".gz")


def can_stream(data: str) -> bool:
    """Whether the data is one file that can be read in blocks."""
    return Path(data).suffix.lower() in _TABLES


def predict(
    folder: Path,
    data: str,
    out: Path | None,
    encoding: str = "utf8",
    rows: int | None = None,
    *,
    id_column: str | None = None,
    evaluate: bool = False,
    raw: bool = False,
    as_json: bool = False,
) -> None:
    """Writes score, probability and decision of every row; a file is there whole or not at all.

    With ``evaluate`` the scores and labels of all rows are kept, some twenty bytes a row; with ``as_json``
    what it finds has standard output to itself.
    """
    run = load_run(folder)
    if not isinstance(run.encoder, TableEncoder):
        raise InputError("data", f"{data}, a table", "images: the run was trained on them")
    work, at = _Scoring(run, run.encoder, id_column, evaluate), 0
    with _output(out, as_json) as file:
        writer = TableWriter(file, raw)
        writer.writerow(header(run, id_column or "row"))
        for block in _blocks(data, encoding, rows):
            writer.writerows(work.lines(columns_of(block), at))
            at += block.num_rows
        found = work.evaluated() if evaluate else None
    for sentence in [*run.warnings, *work.remarks.sentences]:
        print(f"warning: {sentence}", file=sys.stderr)
    if found is not None:
        tell(found, as_json)


class _Scoring:
    """What is the same for all blocks, and what they add up to."""

    def __init__(self, run: Run, encoder: TableEncoder, id_column: str | None, evaluate: bool) -> None:
        self.run, self.encoder, self.id_column, self.evaluate = run, encoder, id_column, evaluate
        self.target = run.config["settings"]["target"]
        self.remarks, self.labels, self.scores = Remarks(), list[Any](), list[torch.Tensor]()

    def lines(self, columns: dict[str, Column], first: int) -> Iterator[list[str]]:
        if self.id_column is not None:
            names = ids_in(columns, self.id_column)
        else:
            names = [str(number) for number in range(first, first + len(next(iter(columns.values()))))]
        x = self.encoder.transform(columns, remarks=self.remarks, source="the data")
        scores = self.run.scores_of_encoded(torch.from_numpy(x))
        if self.evaluate:
            self.scores.append(scores)
            self.labels += [columns[self.target].labels()] if self.target in columns else []
        return lines(self.run, names, scores)

    def evaluated(self) -> dict[str, Any]:
        labels = np.concatenate(self.labels) if self.labels else None
        return evaluated(self.run, labels, torch.cat(self.scores) if self.scores else torch.zeros(0), self.target)


def _blocks(data: str, encoding: str, rows: int | None) -> Iterator[Any]:
    left = rows
    for table in _tables(data, encoding):
        for begin in range(0, table.num_rows, BLOCK):
            if left is not None and left <= 0:
                return
            block = table.slice(begin, BLOCK if left is None else min(BLOCK, left))
            left = None if left is None else left - block.num_rows
            yield block


def _tables(data: str, encoding: str) -> Iterator[Any]:
    """Parts of a table: row groups, or blocks of CSV files."""
    files, parquet = tables_in(data)
    if parquet:
        table = open_table(data)
        yield from (table.arrow(number) for number in range(len(table.units)))
        return
    for file in files:
        keys = partitions(file, Path(data))
        for block in csv_blocks(file, encoding):
            for name, value in keys.items():
                block = block.append_column(name, pa.repeat(pa.scalar(value), block.num_rows))
            yield block


@contextlib.contextmanager
def _output(out: Path | None, as_json: bool) -> Iterator[TextIO]:
    if out is None and as_json:
        with open(os.devnull, "w", encoding="utf8") as nowhere:
            yield nowhere
        return
    if out is None:
        yield sys.stdout
        return
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf8", newline="") as file:
            yield file
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
