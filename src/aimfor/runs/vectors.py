"""Vectors with names on disk: ``.npy`` with a ``.json`` of names beside it, or one ``.parquet`` table."""

from __future__ import annotations

import io
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
