"""Columns as they came, from files, data frames and arrays, before anything decides what they mean.

One value has one form, whatever it came from. Text is stripped, and the usual words for "missing" are missing.
A float32 is the decimal it prints as (0.1, not 0.10000000149), because that is what a CSV of the same rows says. Truth
values are the texts "true" and "false". Whole numbers beyond 2^53, which float64 cannot hold, are text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import InputError
from ...spelling import CONTROL, MISSING, is_number, number_text, tidy_labels, time_text, utc, without_control

Array = NDArray[Any]
_EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """One column of n cells.

    Attributes:
        kind: ``"number"`` (float64, NaN where missing), ``"time"`` (datetime64[us], NaT), ``"text"`` (an Arrow array
            of strings, null where missing) or ``"unread"`` (an Arrow array of lists, structures or bytes, which may
            lie in a table as long as nobody asks for them).
        values: The cells, ``(n,)``.

    Example:
        >>> column = Column("number", np.array([1.0, np.nan, 2.5]))
        >>> len(column), column.texts().tolist()
        (3, ['1', None, '2.5'])
    """

    kind: Literal["number", "time", "text", "unread"]
    values: Any

    def __len__(self) -> int:
        return len(self.values)

    def followed_by(self, other: Column) -> Column:
        """The cells of both; as text where they are of two kinds.

        Example:
            >>> Column("number", np.array([1.0])).followed_by(from_objects("a", ["x"])).texts().tolist()
            ['1', 'x']
        """
        if self.kind != other.kind:
            return Column("text", pa.concat_arrays([pa.array(c.texts(), pa.large_string()) for c in (self, other)]))
        if self.kind in ("number", "time"):
            return Column(self.kind, np.concatenate((self.values, other.values)))
        return Column(self.kind, pa.concat_arrays([self.values, other.values.cast(self.values.type)]))

    def take(self, rows: Array) -> Column:
        """The given rows, by number or by a mask."""
        if self.kind in ("number", "time"):
            return Column(self.kind, self.values[rows])
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        return Column(self.kind, self.values.take(pa.array(rows)))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where there is no value."""
        if self.kind == "number":
            return np.asarray(np.isnan(self.values))
        if self.kind == "time":
            return np.asarray(np.isnat(self.values))
        return np.asarray(self.values.is_null().to_numpy(zero_copy_only=False), dtype=bool)

    def distinct(self) -> tuple[NDArray[np.int64], list[str]]:
        """The different values as text, and for each row the index of its value there (-1: missing)."""
        if self.kind == "unread":
            raise InputError("data", f"cells of type {self.values.type}", "numbers, text, dates or booleans")
        if self.kind == "text":
            encoded = self.values.dictionary_encode()
            codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return codes.astype(np.int64), encoded.dictionary.to_pylist()
        present = ~self.missing
        codes = np.full(len(self), -1, dtype=np.int64)
        values, codes[present] = np.unique(self.values[present], return_inverse=True)
        write = number_text if self.kind == "number" else time_text
        return codes, [write(value) for value in values]

    def texts(self) -> Array:
        """Every cell as text, ``(n,)`` objects; None where missing."""
        codes, texts = self.distinct()
        return np.array([*texts, None], dtype=object)[codes]

    def labels(self) -> Array:
        """As `texts`, in one spelling: ``1.0`` and ``1`` are one label, ``01`` is another."""
        codes, texts = self.distinct()
        return np.array([*tidy_labels(texts), None], dtype=object)[codes]


def from_arrow(array: Any) -> Column:
    """An Arrow array of any type."""
    if isinstance(array, pa.ChunkedArray):  # long texts: the pieces may not fit into one array of the small type
        array = array.cast(pa.large_string()) if pa.types.is_string(array.type) else array
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()  # one piece needs no copy
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type.value_type):  # polars' categories, which Arrow cannot decode
            array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.large_string()))
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_null(kind):
        return Column("number", np.full(len(array), np.nan))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        moments = array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        moments = moments.fill_null(np.iinfo(np.int64).min)  # which datetime64 reads as "not a time"
        return Column("time", np.array(moments.to_numpy(zero_copy_only=False)).view("M8[us]"))
    if pa.types.is_duration(kind):
        return Column("number", _floats(array.cast(pa.duration("us"), safe=False).cast(pa.int64())) / 1e6)
    if pa.types.is_float64(kind) or (pa.types.is_integer(kind) and _held_exactly(array)):
        return Column("number", _floats(array))
    if pa.types.is_float32(kind):
        return Column("number", _floats(array.cast(pa.string()).cast(pa.float64())))
    if pa.types.is_float16(kind):  # Arrow prints these with all their digits
        return Column("number", array.to_numpy(zero_copy_only=False).astype("U32").astype(np.float64))
    plain = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    exact = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if not (plain or exact or pa.types.is_time(kind)):
        return Column("unread", array)
    return Column("text", _stripped(array.cast(pa.large_string())))


def _floats(array: Any) -> NDArray[np.float64]:
    if pa.types.is_float64(array.type) and not array.null_count:
        return np.asarray(array.to_numpy())  # Arrow's own memory, which nobody writes to
    return np.array(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _held_exactly(array: Any) -> bool:
    """Whether float64 holds every whole number of the array."""
    ends = pc.min_max(array).as_py()
    return ends["min"] is None or (ends["min"] >= -_EXACT and ends["max"] <= _EXACT)


def _stripped(array: Any) -> Any:
    """Without space at the ends, composed characters in one form, null for the words that mean "missing"."""
    if not pc.all(pc.string_is_ascii(array)).as_py():
        array = pc.utf8_normalize(array, form="NFC")
    if pc.any(pc.match_substring_regex(array, CONTROL)).as_py():
        array = pc.replace_substring_regex(array, CONTROL, "")
    array = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.is_in(array, value_set=pa.array(MISSING, array.type)), pa.scalar(None, array.type), array)


def from_array(name: str, values: Array) -> Column:
    """A numpy array ``(n,)`` of any type."""
    values = np.asarray(values)
    if values.dtype.kind == "f" and values.dtype.itemsize >= 8:
        return Column("number", np.array(values, dtype=np.float64))
    if values.dtype.kind == "M":
        return Column("time", values.astype("M8[us]"))
    if values.dtype.kind in "OUST":
        return from_objects(name, values.tolist())
    if values.dtype.kind not in "biufm":
        raise InputError("data", f"the column {name!r} of type {values.dtype}", "numbers, text, dates or booleans")
    return from_arrow(pa.array(np.ascontiguousarray(values)))


def from_objects(name: str, values: Sequence[Any]) -> Column:
    """Python values, also of several types in one column."""
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        array = pa.array([_cell_text(name, value) for value in values], pa.large_string())
    return from_arrow(array)


def _cell_text(name: str, value: Any) -> str | None:
    """One cell of a column whose cells differ in type, written as a column of its own would be."""
    if value is None or (isinstance(value, float | np.floating) and value != value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return number_text(float(str(value)))
    if isinstance(value, bytes):
        return value.decode("utf8", "replace")
    if isinstance(value, datetime | date | np.datetime64):
        moment: Any = utc(value) if isinstance(value, datetime) else value
        return None if np.isnat(np.datetime64(moment)) else time_text(np.datetime64(moment, "us"))
    text = str(value)
    if text in MISSING or is_number(text):  # pandas' NA, a Decimal
        return text
    raise InputError(
        "data", f"a {type(value).__name__} in the column {name!r}", "cells of numbers, text, dates or booleans"
    )


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
        pairs = [(key, _column(key, values)) for key, values in data.items()]
    elif hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas: cells of one column may differ in type
        pairs = [(key, _column(key, data.iloc[:, i])) for i, key in enumerate(data.columns)]
    elif isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__"):
        table = pa.table(data)
        pairs = [(key, from_arrow(table.column(i))) for i, key in enumerate(table.column_names)]
    elif getattr(data, "ndim", 0) == 2:
        matrix = np.asarray(data)
        pairs = [(f"x{i}", from_array(f"x{i}", matrix[:, i])) for i in range(matrix.shape[1])]
    else:
        raise InputError("data", f"a {type(data).__name__}", "a data frame, a mapping of columns or an (n, d) array")
    return _named(pairs)


def _named(pairs: list[tuple[Any, Column]]) -> dict[str, Column]:
    """Columns by name. Names are text without space at the ends; a column without one is called by its number."""
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


def _column(name: Any, values: Any) -> Column:
    """Of a pandas series, an Arrow array, a numpy array or a list."""
    if isinstance(values, Column):
        return values
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return from_arrow(values)
    if hasattr(values, "iloc"):
        if not isinstance(values.dtype, np.dtype):
            return from_arrow(pa.array(values, from_pandas=True))
        values = values.to_numpy()
    return from_array(str(name), values) if isinstance(values, np.ndarray) else from_objects(str(name), list(values))
