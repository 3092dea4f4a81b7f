"""`aimfor predict`: a CSV of scores, probabilities and decisions, warnings about odd rows, and how good it was.

A table that is larger than memory is read, scored and written a block at a time.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.chunks import csv_blocks, is_stream, open_table, partitions, tables_in
from ..data.columns import TableEncoder, columns_of
from ..data.columns.cells import Column
from ..data.columns.coders import Remarks
from ..data.encode import encode
from ..data.features import FeatureEncoder, Work
from ..data.load import load
from ..data.source import column_of, take_query
from ..errors import InputError
from ..files import finite
from ..spelling import is_number
from ..targets.calibrate import probability
from ..targets.classes import grades_of, list_numbers
from ..targets.evaluate import evaluate as evaluated
from ..targets.evaluate import or_undefined
from ..targets.lists import evaluate_lists
from ..targets.results import TwoClasses
from .finished import Run, load_run
from .folder import kind_of

#: Rows that are encoded and scored at once.
BLOCK = 1 << 15
#: Files that can be read in blocks.
_TABLES = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".gz")
Lines = Iterable[list[str]]


def predict(
    folder: Path,
    data: str,
    out: Path | None,
    encoding: str = "utf8",
    rows: int | None = None,
    *,
    id_column: str | None = None,
    evaluate: bool = False,
    skip_corrupt: bool = False,
    raw: bool = False,
    as_json: bool = False,
) -> None:
    """Scores every row and writes the CSV to ``out``, whole or not at all, or to standard output.

    Args:
        folder: Of a finished run on rows or pictures, with one label or several.
        data: What to score.
        out: The file; None is standard output.
        encoding: Of text.
        rows: The first so many; None for all.
        id_column: Column whose values name the rows of the output; row numbers by default.
        evaluate: Whether to print the metric and the rates of the rows, whose labels must be there.
        skip_corrupt: Whether pictures that cannot be read are left out, and named.
        raw: Whether texts are written as they are, also those that a spreadsheet would run as formulas.
        as_json: Whether standard output is for what ``evaluate`` finds, as JSON, instead of the CSV.

    Raises:
        InputError: An unfinished or damaged run, a missing column, unreadable data, no labels to evaluate by.
    """
    kind = kind_of(folder)
    how: dict[str, Any] = {"labelled": False, "encoding": encoding, "rows": rows, "skip_corrupt": skip_corrupt}
    if kind == "labels":
        lines = _lines_of_labels(folder, data, how)
        with _output(out, as_json) as file:
            write_rows(file, lines, raw)
        return
    scoring, values = Scoring(load_run(folder), id_column, evaluate), None
    if is_stream(data) or (kind == "stream" and Path(data).suffix.lower() in _TABLES):
        lines = scoring.blocks(data, encoding, rows)
    else:
        lines = scoring.whole(data, how)
        values = scoring.evaluated() if evaluate else None  # before anything is written
    with _output(out, as_json) as file:
        write_rows(file, lines, raw)
        values = scoring.evaluated() if evaluate and values is None else values
    for sentence in [*scoring.run.warnings, *scoring.remarks.sentences]:
        print(f"warning: {sentence}", file=sys.stderr)
    if values is not None:
        _tell(values, as_json)


class Scoring:
    """The lines that are written about rows, all at once or block by block, and what the rows add up to."""

    def __init__(self, run: Run, id_column: str | None, evaluate: bool) -> None:
        self.run, self.id_column, self.evaluate = run, id_column, evaluate
        self.target, self.remarks = run.settings.target, Remarks()
        self.scores, self.labels = list[Tensor](), list[NDArray[Any]]()
        self.queries: NDArray[Any] | None = None

    def whole(self, data: str, how: dict[str, Any]) -> Lines:
        """The header, and a line a row, of data in memory; scores are there before the first line is."""
        run, encoder = self.run, self.run.encoder
        size = encoder.shape[1] if encoder.kind == "image" else 0
        if isinstance(encoder, FeatureEncoder):
            encoder.work = Work(run.folder.resolve().parent, write=False)
        lazy = encoder.kind == "features"
        source = load(data, self.target, image_size=size, lazy=lazy, **how)
        if run.query is not None:
            take_query(source, run.query, self.target)
        for note in source.notes if how["skip_corrupt"] else ():
            print(f"note: {note}", file=sys.stderr)
        names = self._names(source.named, source.row_names or range(len(source)))
        scores = run.scores(source, self.remarks)
        self.scores, self.queries = [scores], source.queries
        self.labels = [] if source.labels is None else [source.labels]
        if source.queries is not None:
            return _ranked(self.id_column or "row", names, scores, source.queries)
        return itertools.chain([self.header], self._lines(names, scores))

    def blocks(self, data: str, encoding: str, rows: int | None) -> Lines:
        """The same of a table that is never in memory as a whole; to evaluate takes some twenty bytes a row."""
        encoder = self.run.encoder
        if not isinstance(encoder, TableEncoder):
            raise InputError("data", f"{data}, a table", "images: the run was trained on them")
        yield self.header
        at = 0
        for block in _blocks(data, encoding, rows):
            columns = columns_of(block)
            names = self._names(columns, range(at, at + block.num_rows))
            x = encoder.transform(columns, remarks=self.remarks, source="the data")
            scores = self.run.model.scores(torch.from_numpy(x))
            if self.evaluate:
                self.scores.append(scores)
                self.labels += [columns[self.target].labels()] if self.target in columns else []
            yield from self._lines(names, scores)
            at += block.num_rows

    @property
    def header(self) -> list[str]:
        """Names of the columns that are written; the first is of what names the rows."""
        classes = self.run.labels.classes
        scores = ["score"] if self.run.labels.binary else [f"score {name}" for name in classes]
        return [self.id_column or "row", *scores, "probability", "decision"]

    def _names(self, columns: Mapping[str, Column], otherwise: Iterable[object]) -> list[str]:
        """What names each row. Raises `InputError` where the column that is to do so is missing."""
        if self.id_column is None:
            return list(map(str, otherwise))
        return ["" if text is None else text for text in column_of(columns, self.id_column, "--id").texts()]

    def _lines(self, names: Iterable[str], scores: Tensor) -> Lines:
        labels, chances, decided = self.run.labels, self.run.probabilities(scores), self.run.decisions(scores)
        for name, score, chance, number in zip(names, scores.tolist(), chances, decided, strict=True):
            if labels.binary:
                yield [name, repr(score), f"{chance:.6g}", labels.classes[number]]
            else:
                yield [name, *map(repr, score), f"{chance[number]:.6g}", labels.classes[number]]

    def evaluated(self) -> dict[str, Any]:
        """The metric and the rates of the rows whose label is known; what they do not define is NaN."""
        run = self.run
        if not self.labels:
            came = f"data without the target {self.target or 'column'!r}"
            raise InputError("--evaluate", came, "labels to compare with")
        labels, scores = np.concatenate(self.labels), torch.cat(self.scores)
        labelled = np.array([label is not None for label in labels], dtype=bool)
        if not labelled.any():
            raise InputError("--evaluate", f"no value at all in the target {self.target!r}", "labels to compare with")
        scores, count = scores[torch.from_numpy(labelled)], int(labelled.sum())
        if self.queries is None:
            ids = torch.from_numpy(run.labels.encode(labels[labelled]))
            result = evaluated(run.objective, scores, ids, run.threshold)
            rates = {"rates": result.rates} if isinstance(result, TwoClasses) else {}
            return {"metric": run.metric, "rows": count, "value": result.metric, **rates}
        _, grades = grades_of(labels[labelled], run.objective)
        lists = torch.from_numpy(list_numbers(self.queries[labelled], str(run.query)))
        ranked = evaluate_lists(run.objective, scores, torch.from_numpy(grades), lists)
        beside = {row.name: row.value for row in ranked.beside}
        queries = ranked.queries.counted
        return {"metric": run.metric, "rows": count, "queries": queries, "value": ranked.metric, "beside": beside}


def _ranked(title: str, names: list[str], scores: Tensor, queries: NDArray[Any]) -> Lines:
    """The rows as they came, each with its rank in its query: 1 is first, and of equals the earlier row."""
    missing = next((row for row, query in enumerate(queries) if query is None), None)
    if missing is not None:
        raise InputError("--query", f"row {missing + 1} without one", "a query for every row")
    so_far: Counter[str] = Counter()
    ranks = [0] * len(queries)
    for row in (-scores.double()).argsort(stable=True).tolist():
        so_far[queries[row]] += 1
        ranks[row] = so_far[queries[row]]
    rows = zip(names, queries, map(repr, scores.tolist()), map(str, ranks), strict=True)
    return [[title, "query", "score", "place"], *map(list, rows)]


def _lines_of_labels(folder: Path, data: str, how: dict[str, Any]) -> Lines:
    """Score, probability and decision of every label."""
    from .labels import load_run as load_labels

    run = load_labels(folder)
    run.encoder.work = Work(folder.resolve().parent, write=False)
    source = load(data, None, lazy=True, **how)
    x = torch.from_numpy(encode(run.encoder, source))
    header, columns = ["row"], [source.row_names or []]
    for label, threshold, ensemble in zip(run.labels, run.thresholds, run.ensembles, strict=True):
        scores = ensemble.scores(x)
        header += [f"{title} {label}" for title in ("score", "probability", "decision")]
        columns.append([repr(score) for score in scores.tolist()])
        columns.append([f"{chance:.6g}" for chance in probability(scores).tolist()])
        columns.append([str(int(score > threshold)) for score in scores.tolist()])
    return itertools.chain([header], map(list, zip(*columns, strict=True)))


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
    """Row groups of a table, or blocks of CSV files."""
    import pyarrow as pa

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
    """Standard output, unless that is for JSON; or a file that is moved to where it belongs when it is complete."""
    if out is None:
        with open(os.devnull, "w", encoding="utf8") if as_json else contextlib.nullcontext(sys.stdout) as file:
            yield file
        return
    draft = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf8", newline="") as file:
            yield file
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)


def write_rows(file: Any, rows: Lines, raw: bool) -> None:
    """A CSV whose texts no spreadsheet runs.

    What begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end, and is no number, gets an apostrophe in front,
    unless ``raw``.
    """
    csv.writer(file, lineterminator="\n").writerows(rows if raw else (map(_no_formula, cells) for cells in rows))


def _no_formula(cell: str) -> str:
    return f"'{cell}" if cell[:1] in tuple("=+-@\t\r\n") and not is_number(cell) else cell


def _tell(values: dict[str, Any], as_json: bool) -> None:
    """What it found as lines on stderr; as JSON on standard output too, with null for what is undefined."""
    queries = f", {values['queries']} queries" if "queries" in values else ""
    value = or_undefined(values["value"])
    print(f"{values['metric']} on {values['rows']} labelled rows{queries}: {value}", file=sys.stderr)
    for name, words in (("rates", "at the stored threshold"), ("beside", "beside it")):
        if name in values:
            numbers = ", ".join(f"{title} {or_undefined(number)}" for title, number in values[name].items())
            print(f"{words}: {numbers}", file=sys.stderr)
    if as_json:
        print(json.dumps(finite(values), indent=1))
