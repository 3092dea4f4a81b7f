"""Columns from what Python users hold: data frames of any library, Arrow tables, dictionaries, arrays."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import InputError
from ...spelling import without_control
from .cells import Column, from_array, from_arrow, from_objects


def columns_of(data: Any) -> dict[str, Column]:
    """Named columns of a data frame (pandas, polars, Arrow and others), a mapping of arrays or an ``(n, d)`` array.

    Columns of an array are called ``x0``, ``x1``, ….

    Raises:
        InputError: Something else, no rows, repeated names, columns of different lengths or of a type without meaning.

    Example:
        >>> columns_of({"age": [31, None], "city": ["Bern", "Rome"]})["age"].values.tolist()
        [31.0, nan]
    """
    if isinstance(data, Mapping):
        pairs = [(key, _any(key, values)) for key, values in data.items()]
    elif hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas: cells of one column may differ in type
        pairs = [(key, _pandas(key, data.iloc[:, i])) for i, key in enumerate(data.columns)]
    elif isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__"):
        table = pa.table(data)
        pairs = [(key, from_arrow(key, table.column(i))) for i, key in enumerate(table.column_names)]
    elif getattr(data, "ndim", 0) == 2:
        matrix = np.asarray(data)
        pairs = [(f"x{i}", from_array(f"x{i}", matrix[:, i])) for i in range(matrix.shape[1])]
    else:
        raise InputError("data", f"a {type(data).__name__}", "a data frame, a mapping of columns or an (n, d) array")
    return named(pairs)


def named(pairs: list[tuple[Any, Column]]) -> dict[str, Column]:
    """Columns by name. Names are text without space at the ends; a column without one is called by its place."""
    names = [
        unicodedata.normalize("NFC", without_control(str(key))).strip() or f"column {i + 1}"
        for i, (key, _) in enumerate(pairs)
    ]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise InputError(
            "data", f"the column name {repeated[0]!r} more than once", "column names that differ", "Rename one of them."
        )
    lengths = {len(column) for _, column in pairs}
    if len(lengths) > 1:
        raise InputError("data", f"columns of {min(lengths)} to {max(lengths)} rows", "columns of one length")
    if lengths in (set(), {0}):
        raise InputError("data", "0 rows", "at least one row")
    return dict(zip(names, (column for _, column in pairs), strict=True))


def _any(name: str, values: Any) -> Column:
    if isinstance(values, Column):
        return values
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return from_arrow(name, values)
    if hasattr(values, "iloc"):
        return _pandas(name, values)
    array = values if isinstance(values, np.ndarray) else None
    return from_objects(name, list(values)) if array is None else from_array(name, array)


def _pandas(name: Any, series: Any) -> Column:
    """A pandas series; objects go cell by cell where Arrow finds no common type."""
    if series.dtype == object:
        return from_objects(str(name), series.tolist())
    if isinstance(series.dtype, np.dtype):
        return from_array(str(name), series.to_numpy())
    return from_arrow(str(name), pa.array(series, from_pandas=True))
