"""`aimfor predict`: a CSV of scores, probabilities and decisions, warnings about odd rows, and how good it was."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import checkpoint
from ..data.columns.cells import Column
from ..data.columns.coders import Remarks
from ..data.features import FeatureEncoder, Work
from ..data.load import load
from ..data.source import Source, column_of, take_query
from ..errors import InputError
from ..files import finite
from ..spelling import is_number
from ..targets.evaluate import evaluate, or_undefined
from ..targets.evaluate.lists import evaluate_lists
from ..targets.evaluate.results import TwoClasses
from ..targets.grades import grades_of, list_numbers
from .finished import Run, load_run


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
    """Scores every row and writes the CSV to ``out`` or standard output, whole or not at all.

    Args:
        id_column: Column whose values name the rows of the output; row numbers by default.
        skip_corrupt: Whether pictures that cannot be read are left out, and named.
        raw: Whether texts are written as they are, also those that a spreadsheet would run as formulas.
        evaluate: Whether to print the metric and the rates of the rows, whose labels must be there.
        as_json: Whether standard output is for what `evaluate` found, as JSON, instead of the CSV.

    Raises:
        InputError: An unfinished or damaged run, a missing column, unreadable data, no labels to evaluate by.
    """
    run = load_run(folder)
    size = run.encoder.shape[1] if run.encoder.kind == "image" else 0
    target = run.config["settings"]["target"]
    lazy = run.encoder.kind == "features"
    if isinstance(run.encoder, FeatureEncoder):
        run.encoder.work = Work(folder.resolve().parent, write=False)
    source = load(
        data,
        target,
        labelled=False,
        encoding=encoding,
        rows=rows,
        image_size=size,
        lazy=lazy,
        skip_corrupt=skip_corrupt,
    )
    if run.query is not None:
        take_query(source, run.query, target)
    for note in source.notes if skip_corrupt else ():
        print(f"note: {note}", file=sys.stderr)
    title, names = _names(source, id_column)
    remarks = Remarks()
    scores = run.scores(source, remarks)
    found = evaluated(run, source.labels, scores, target, source.queries) if evaluate else None
    ranked = source.queries is not None
    text = _ranked_table(source, title, names, scores, raw) if ranked else _table(run, title, names, scores, raw)
    for sentence in [*run.warnings, *remarks.sentences]:
        print(f"warning: {sentence}", file=sys.stderr)
    if out is not None or not as_json:
        put(text, out)
    if found is not None:
        tell(found, as_json)


def put(text: str, out: Path | None) -> None:
    """To a file, whole or not at all, or to standard output."""
    if out is None:
        sys.stdout.write(text)
    else:
        checkpoint.write_text(out, text)


def _names(source: Source, id_column: str | None) -> tuple[str, list[str]]:
    """What the first column is called, and what it says of each row."""
    if id_column is None:
        return "row", source.row_names or [str(number) for number in range(len(source))]
    return id_column, ids_in(source.named, id_column)


def ids_in(columns: Mapping[str, Column], name: str) -> list[str]:
    """What the column says of each row, as it stands in the file. Raises `InputError` where there is none."""
    return ["" if one is None else one for one in column_of(columns, name, "--id").texts()]


class TableWriter:
    """A CSV whose texts no spreadsheet runs.

    What begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end, and is no number, gets an apostrophe in front,
    unless ``raw``.
    """

    def __init__(self, file: Any, raw: bool) -> None:
        self._writer, self._raw = csv.writer(file, lineterminator="\n"), raw

    def writerow(self, cells: Iterable[str | int]) -> None:
        self._writer.writerow(cells if self._raw else map(_no_formula, cells))

    def writerows(self, rows: Iterable[Iterable[str | int]]) -> None:
        for cells in rows:
            self.writerow(cells)


def _no_formula(cell: str | int) -> str | int:
    risky = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and not is_number(cell)
    return f"'{cell}" if risky and cell else cell


def _table(run: Run, title: str, names: list[str], scores: Tensor, raw: bool) -> str:
    text = io.StringIO()
    writer = TableWriter(text, raw)
    writer.writerow(header(run, title))
    writer.writerows(lines(run, names, scores))
    return text.getvalue()


def header(run: Run, title: str) -> list[str]:
    """Names of the columns that are written; the first is of what names the rows."""
    scores = ["score"] if run.labels.binary else [f"score {one}" for one in run.labels.classes]
    return [title, *scores, "probability", "decision"]


def lines(run: Run, names: Iterable[str], scores: Tensor) -> Iterator[list[str]]:
    """What is written about each row."""
    classes, chances, decided = run.labels.classes, run.probabilities(scores), run.decisions(scores)
    for name, score, chance, one in zip(names, scores.tolist(), chances, decided, strict=True):
        if run.labels.binary:
            yield [name, repr(score), f"{chance:.6g}", classes[one]]
        else:
            yield [name, *map(repr, score), f"{chance[one]:.6g}", classes[one]]


def _ranked_table(source: Source, title: str, names: list[str], scores: Tensor, raw: bool) -> str:
    """The rows as they came, each with its place in its query: 1 is first, and of equals the earlier row."""
    assert source.queries is not None
    missing = next((place for place, one in enumerate(source.queries) if one is None), None)
    if missing is not None:
        raise InputError("--query", f"row {missing + 1} without one", "a query for every row")
    text = io.StringIO()
    writer = TableWriter(text, raw)
    writer.writerow([title, "query", "score", "place"])
    places = places_in_lists(scores, source.queries)
    for row in zip(names, source.queries, map(repr, scores.tolist()), places, strict=True):
        writer.writerow(row)
    return text.getvalue()


def places_in_lists(scores: Tensor, queries: NDArray[Any]) -> list[int]:
    """From 1, by falling score within each query."""
    seen: Counter[str] = Counter()
    places = [0] * len(queries)
    for row in (-scores.double()).argsort(stable=True).tolist():
        seen[queries[row]] += 1
        places[row] = seen[queries[row]]
    return places


def evaluated(
    run: Run, labels: NDArray[Any] | None, scores: Tensor, target: str | None, queries: NDArray[Any] | None = None
) -> dict[str, Any]:
    """The metric and the rates of the rows whose label is known; what they do not define is NaN."""
    if labels is None:
        raise InputError("--evaluate", f"data without the target {target or 'column'!r}", "labels to compare with")
    known = np.array([label is not None for label in labels], dtype=bool)
    if queries is not None and known.any():
        return _evaluated_lists(run, labels, queries, scores, known)
    if not known.any():
        raise InputError("--evaluate", f"no value at all in the target {target!r}", "labels to compare with")
    ids = torch.from_numpy(run.labels.encode(labels[known]))
    found = evaluate(run.objective, scores[torch.from_numpy(known)], ids, run.threshold)
    rates = {"rates": found.rates} if isinstance(found, TwoClasses) else {}
    return {"metric": run.metric, "rows": int(known.sum()), "value": found.metric, **rates}


def _evaluated_lists(
    run: Run, labels: NDArray[Any], queries: NDArray[Any], scores: Tensor, known: NDArray[np.bool_]
) -> dict[str, Any]:
    """The metric and the usual ones beside it, over the queries of the labelled rows."""
    objective = run.objective
    _, grades = grades_of(labels[known], objective)
    lists = torch.from_numpy(list_numbers(queries[known], str(run.query)))
    found = evaluate_lists(objective, scores[torch.from_numpy(known)], torch.from_numpy(grades), lists)
    beside = {one.name: one.value for one in found.beside}
    counted = {"rows": int(known.sum()), "queries": found.queries.counted}
    return {"metric": run.metric, **counted, "value": found.metric, "beside": beside}


def tell(found: dict[str, Any], as_json: bool) -> None:
    """What was found as lines on stderr; as JSON on standard output too, with null for what is undefined."""
    queries = f", {found['queries']} queries" if "queries" in found else ""
    value = or_undefined(found["value"])
    print(f"{found['metric']} on {found['rows']} labelled rows{queries}: {value}", file=sys.stderr)
    for name, words in (("rates", "at the stored threshold"), ("beside", "beside it")):
        if name in found:
            numbers = ", ".join(f"{one} {or_undefined(number)}" for one, number in found[name].items())
            print(f"{words}: {numbers}", file=sys.stderr)
    if as_json:
        print(json.dumps(finite(found), indent=1))
