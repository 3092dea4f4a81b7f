"""Tables with a column of every kind, and the same rows through every kind of file and frame."""

from __future__ import annotations

import gzip
import io
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from hypothesis import strategies as st

from aimfor.data.columns import Column, columns_of
from aimfor.data.tables import read_table

N = 60
WORDS = ("good", "bad", "ugly", "fine", "not", "so")
MIXED = ("02139", "True", "2020-01-01", "2020-01-01 10:00", "1.50", "inf", "A7", " b ", "x\ny", 'q"', "", "1e5")
SWAPPED = str.maketrans(",.", ".,")


def one_of(*cells: str) -> Callable[[int], str]:
    return lambda v: cells[v % len(cells)]


def date(v: int) -> np.datetime64:
    return np.datetime64("1970-01-01") + v % 30_000


#: For each kind of column: the cell that a whole number stands for, as a CSV says it, and what the column must be.
CELLS: dict[str, tuple[Callable[[int], str], str]] = {
    "number": (lambda v: repr((v % 10**15 - 5 * 10**14) / 7e8), "number"),
    "whole": (lambda v: str(v % 2001 - 1000), "number"),
    "cents": (lambda v: f"{v % 10**6 / 100:.2f}", "number"),
    "signs": (lambda v: f"{v % 1999 - 999:+d}", "number"),
    "comma": (lambda v: f"{v % 10**8 / 100:,.2f}".translate(SWAPPED), "number"),
    "price": (lambda v: f"${v % 10**8 / 100 + 1:,.2f}", "number"),
    "share": (lambda v: f"{v % 101} %", "number"),
    "holes": (one_of("", "NA", "?", "1.5", "2", "3"), "number"),
    "flag": (one_of("True", "False", "true", "FALSE", ""), "boolean"),
    "zip": (one_of("02139", "10001", "00501", ""), "category"),
    "apart": (one_of("02139", "2139", "007", ""), "category"),
    "mixed": (one_of(*MIXED), "category"),
    "version": (one_of("1.1", "1.10", "v2", "v3"), "category"),
    "city": (one_of("Bern", "Genève", "Zu\u0308rich", "a,b", "a;b", "None"), "category"),
    "iso": (lambda v: str(date(v)), "date"),
    "clock": (lambda v: str(date(v) + np.timedelta64(v % 86_400_000_000, "us")).replace("T", " "), "date"),
    "day first": (lambda v: date(v).astype(object).strftime("%d/%m/%Y"), "date"),
    "opinion": (lambda v: " ".join(WORDS[v // 6**i % 6] for i in range(4 + v % 5)), "text"),
}
#: A few cells in front, so that every column is what its name says whatever comes after.
FIXED: dict[str, list[str]] = {
    "comma": ["1.234,50", "0,99"],
    "zip": ["02139", "10001"],
    "apart": ["02139", "2139"],
    "version": ["1.1", "1.10", "v2"],
    "mixed": ["A7", "True"],
    "day first": ["31/01/2020", "01/02/2020"],
    "opinion": [f"good word {i} and more" for i in range(40)],
}
Table = dict[str, list[str]]
ROW = st.fixed_dictionaries({name: st.integers(0, 2**53) for name in CELLS})


def training_table(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    drawn = {name: [cell(int(v)) for v in rng.integers(0, 2**53, N)] for name, (cell, _) in CELLS.items()}
    return {name: (FIXED.get(name, []) + cells)[:N] for name, cells in drawn.items()}


def write_csv(table: Table, separator: str = ",") -> str:
    text = io.StringIO()
    pd.DataFrame(table, dtype=object).to_csv(text, index=False, sep=separator)
    return text.getvalue()


def typed(table: Table) -> dict[str, list[Any]]:
    """The same rows as a program would hold them: numbers as numbers, dates as dates, nothing as None."""
    nothing = ("", "NA", "?", "None")
    held: dict[str, list[Any]] = {name: [None if c in nothing else c for c in table[name]] for name in table}

    def each(name: str, convert: Any) -> None:
        held[name] = [None if cell is None else convert(cell) for cell in held[name]]

    for name in ("number", "whole", "cents", "signs", "holes"):
        each(name, float)
    for name in ("iso", "clock"):
        each(name, lambda cell: np.datetime64(cell.replace(" ", "T"), "us").astype(object))
    each("flag", lambda cell: cell.lower() == "true")
    each("comma", lambda cell: float(cell.replace(".", "").replace(",", ".")))
    each("price", lambda cell: float(cell[1:].replace(",", "")))
    each("share", lambda cell: float(cell[:-2]) / 100)
    each("day first", lambda cell: pd.Timestamp(f"{cell[6:]}-{cell[3:5]}-{cell[:2]}"))
    return held


def routes(table: Table, folder: Path) -> dict[str, dict[str, Column]]:
    """The table read back from every kind of file and frame."""
    (folder / "t.csv").write_text(write_csv(table))
    (folder / "semicolon.csv").write_text(write_csv(table, ";"))
    (folder / "bom.csv").write_text(write_csv(table), encoding="utf-8-sig")
    (folder / "wide.csv").write_text(write_csv(table), encoding="utf-16")
    with gzip.open(folder / "t.csv.gz", "wt", encoding="utf8") as file:
        file.write(write_csv(table))
    objects = typed(table)
    text, values = pa.table(table), pa.table({k: pa.array(v, from_pandas=True) for k, v in objects.items()})
    for name, one in (("text", text), ("typed", values)):
        pyarrow.parquet.write_table(one, folder / f"{name}.parquet")
        pyarrow.feather.write_feather(one, folder / f"{name}.arrow")
    found = {path.name: read_table(path) for path in sorted(folder.iterdir())}
    found["frame of text"] = columns_of(pd.DataFrame(table))
    found["frame of objects"] = columns_of(pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in objects.items()}))
    found["frame of types"] = columns_of(pd.DataFrame(objects))
    found["frame of Arrow types"] = columns_of(pd.DataFrame(objects).convert_dtypes(dtype_backend="pyarrow"))
    found["frame of categories"] = columns_of(pd.DataFrame({k: pd.Categorical(v) for k, v in table.items()}))
    found["dictionary"] = columns_of(objects)
    return found


def guessed(table: Table, folder: Path) -> dict[str, dict[str, Column]]:
    """The table through readers that guess types from the rows at hand: '02139' alone becomes the number 2139.

    Columns in which training told such spellings apart are read as text; a guess has lost there what the row said.
    """
    (folder / "t.csv").write_text(write_csv(table))
    composed = {name: [unicodedata.normalize("NFC", cell) for cell in cells] for name, cells in table.items()}
    (folder / "composed.csv").write_text(write_csv(composed))
    kept = ("apart", "version")
    convert = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in kept})
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return {
        "pandas": columns_of(pd.read_csv(folder / "t.csv", dtype=dict.fromkeys(kept, str))),
        "Arrow": columns_of(pyarrow.csv.read_csv(folder / "t.csv", parse_options=parse, convert_options=convert)),
        "composed": read_table(folder / "composed.csv"),
    }
