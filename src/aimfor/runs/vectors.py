"""Vectors with names on disk: ``.npy`` with a ``.json`` of names beside it, or one ``.parquet`` table."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import checkpoint
from ..errors import InputError

Matrix = NDArray[np.float32]
SUFFIXES = (".npy", ".parquet")


@dataclass(frozen=True)
class Vectors:
    """``(n, d)`` float32, a name each, and the class of each where it is known."""

    names: list[str]
    rows: Matrix
    labels: list[str] | None = None


def check_suffix(path: Path) -> None:
    """Raises `InputError` for a file that is neither kind."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("--out", str(path), "a file that ends in .npy or .parquet")


def write_vectors(path: Path, vectors: Vectors) -> list[Path]:
    """The files written: names first, so that whoever sees vectors finds their names."""
    check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".parquet":
        checkpoint.write_bytes(path, _parquet(vectors))
        return [path]
    beside = path.with_suffix(".json")
    checkpoint.write_json(beside, {"names": vectors.names, "classes": vectors.labels})
    content = io.BytesIO()
    np.save(content, vectors.rows.astype(np.float32), allow_pickle=False)
    checkpoint.write_bytes(path, content.getvalue())
    return [path, beside]


def _parquet(vectors: Vectors) -> bytes:
    arrow, parquet = _arrow()
    flat = arrow.array(np.ascontiguousarray(vectors.rows, dtype=np.float32).reshape(-1))
    columns = {"name": arrow.array(vectors.names, arrow.string())}
    if vectors.labels is not None:
        columns["class"] = arrow.array(vectors.labels, arrow.string())
    columns["vector"] = arrow.FixedSizeListArray.from_arrays(flat, vectors.rows.shape[1])
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError(
            "--out", "a .parquet file", "pyarrow to write it", "Use .npy, or pip install pyarrow."
        ) from None
    return pyarrow, parquet


def read_vectors(path: Path) -> Vectors:
    """What `write_vectors` wrote; an .npy file without names gets the numbers of its rows.

    Raises:
        InputError: A missing or damaged file, numbers that are not finite, or names of other vectors.
    """
    if not path.is_file():
        raise InputError("vectors", f"{path}, which is no file", "vectors written by aimfor embed")
    try:
        found = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_npy(path)
    except (ValueError, OSError, KeyError, TypeError, EOFError) as error:
        words = " ".join(str(error).split())[:120]
        raise InputError("vectors", f"{path.name}, which cannot be read ({words})", "vectors of aimfor embed") from None
    if found.rows.ndim != 2 or found.rows.dtype.kind != "f" or not len(found.rows):
        raise InputError("vectors", f"{path.name} of shape {found.rows.shape}", "rows of real numbers, (n, d)")
    if len(found.names) != len(found.rows) or (found.labels is not None and len(found.labels) != len(found.rows)):
        raise InputError("vectors", f"{len(found.names)} names of {len(found.rows)} vectors", "one name each")
    if not bool(np.isfinite(found.rows).all()):
        raise InputError("vectors", f"{path.name} with numbers that are not finite", "finite numbers")
    return found


def _read_npy(path: Path) -> Vectors:
    with path.open("rb") as stream:
        rows = np.load(stream, allow_pickle=False)
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return Vectors([str(row) for row in range(len(rows))], rows)
    document = json.loads(beside.read_text(encoding="utf8"))
    if not isinstance(document, dict):
        raise TypeError(f"{beside.name} holds no names")
    labels = document.get("classes")
    return Vectors(
        [str(one) for one in document["names"]], rows, None if labels is None else [str(one) for one in labels]
    )


def _read_parquet(path: Path) -> Vectors:
    _, parquet = _arrow()
    table = parquet.read_table(path)
    column = table.column("vector").combine_chunks()
    rows = np.asarray(column.values.to_numpy(zero_copy_only=False)).reshape(len(table), -1)
    labels = table.column("class").to_pylist() if "class" in table.column_names else None
    return Vectors([str(one) for one in table.column("name").to_pylist()], rows.astype(np.float32), labels)
