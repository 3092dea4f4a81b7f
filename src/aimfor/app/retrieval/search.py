"""`aimfor search`: the nearest of stored vectors to pictures, to stored names, or to other vectors."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import InputError
from ...errors import nearest as spelled_like
from ...fitting.embedding import nearest
from ..data.images import SUFFIXES as PICTURES
from ..data.pictures import pictures_of
from .run import OWN, RetrievalRun, load_run
from .vectors import SUFFIXES, Matrix, Vectors, read_vectors

FORMATS = ("table", "csv", "json")
COLUMNS = ("query", "rank", "name", "class", "similarity")


@dataclass(frozen=True)
class Asked:
    """Queries with names; ``places`` are those that are in the gallery themselves, and are not their own answer."""

    names: list[str]
    rows: Matrix
    places: list[int | None]


def search(where: Path, queries: list[str], run: Path | None, k: int) -> list[dict[str, Any]]:
    """Rows of `COLUMNS`: the k nearest of every query, the nearest first.

    Args:
        where: A run, whose own pictures are searched, or a file of vectors.
        queries: Names in the gallery, pictures, folders of pictures, or files of vectors.
        run: Makes vectors of pictures; needed where ``where`` is a file.
        k: How many.

    Raises:
        InputError: A query that is nothing of the kind, vectors of another width, k above what there is.
    """
    if not queries:
        raise InputError("query", "nothing", "a picture, a name among the vectors, or a file of vectors")
    if where.is_dir() and run is not None:
        raise InputError("--run", f"{run} beside the run {where}", "one of the two", "Leave it out, or give vectors.")
    home = where if where.is_dir() else run
    gallery = read_vectors(where / OWN if where.is_dir() else where)
    loaded = None if home is None else load_run(home)
    asked = [_asked(one, gallery, loaded) for one in queries]
    for one in asked:
        if one.rows.shape[1] != gallery.rows.shape[1]:
            raise InputError(
                "query",
                f"{one.names[0]} with vectors of length {one.rows.shape[1]}",
                f"length {gallery.rows.shape[1]}, as those searched",
                "Make both with the same run.",
            )
    return [row for one in asked for row in _found(one, gallery, k)]


def _asked(query: str, gallery: Vectors, run: RetrievalRun | None) -> Asked:
    if query in gallery.names:
        place = gallery.names.index(query)
        return Asked([query], gallery.rows[place : place + 1], [place])
    path = Path(query)
    if path.suffix.lower() in SUFFIXES and path.is_file():
        found = read_vectors(path)
        return Asked(found.names, found.rows, [None] * len(found.names))
    if path.suffix.lower() in PICTURES or path.is_dir():
        if not path.exists():
            raise InputError("query", f"{query}, which does not exist", "a picture, or a name among the vectors")
        if run is None:
            raise InputError("--run", "nothing", "the run that made the vectors, to see pictures as it did")
        pictures = pictures_of(path)
        return Asked(pictures.names, run.vectors(pictures).numpy(), [None] * len(pictures))
    raise InputError(
        "query",
        repr(query),
        "a picture, a folder of pictures, a file of vectors, or a name among them",
        spelled_like(query, gallery.names[:100_000]),
    )


def _found(asked: Asked, gallery: Vectors, k: int) -> list[dict[str, Any]]:
    more = int(any(place is not None for place in asked.places))
    found = nearest(
        torch.from_numpy(np.asarray(asked.rows, dtype=np.float32)),
        torch.from_numpy(np.asarray(gallery.rows, dtype=np.float32)),
        _depth(k, len(gallery.names) - more) + more,
    )
    rows: list[dict[str, Any]] = []
    for query, own, places, cosines in zip(asked.names, asked.places, *found, strict=True):
        pairs = [(p, c) for p, c in zip(places.tolist(), cosines.tolist(), strict=True) if p != own][:k]
        for rank, (place, cosine) in enumerate(pairs, 1):
            named = gallery.names[place], None if gallery.labels is None else gallery.labels[place]
            rows.append(dict(zip(COLUMNS, (query, rank, *named, round(cosine, 6)), strict=True)))
    return rows


def _depth(k: int, there: int) -> int:
    if k > there:
        raise InputError("-k", repr(k), f"at most {there}, the vectors there are to find")
    return k


def as_text(rows: list[dict[str, Any]], kind: str) -> str:
    """The rows as CSV, as JSON, or in columns for people."""
    if kind == "json":
        return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    if kind == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()
    shown = [COLUMNS, *([_cell(row[column]) for column in COLUMNS] for row in rows)]
    widths = [max(len(line[place]) for line in shown) for place in range(len(COLUMNS))]
    return "".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n" for line in shown)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
