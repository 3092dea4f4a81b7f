"""The encoder of a table: one coder for each column, fitted once, stored as JSON, imposed on every later table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from ...errors import InputError, nearest
from .cells import Column
from .coders import Category, Coder, Matrix, Remarks, Text, fit_category, override
from .quantities import Date, Floats, Number, fit_date, fit_number, read_dates, read_numbers
from .schema import Decision, check_requested, decide

AnyCoder = Annotated[Number | Date | Category | Text, Field(discriminator="kind")]
_CODERS: TypeAdapter[list[AnyCoder]] = TypeAdapter(Annotated[list[AnyCoder], Field(min_length=1)])
#: Changes whenever a stored encoder would be read otherwise.
VERSION = 2
#: AUROC from which a column alone nearly decides the target, and the rows that are looked at.
_NEARLY = 0.995
_MOST_ROWS = 20_000


@dataclass
class TableEncoder:
    """Named columns to a float32 matrix.

    Numbers and dates have zero mean and unit deviation on training rows and are not clipped; a missing value is the
    median, with an output that says so where training rows had any. A row's numbers depend on that row alone.

    Attributes:
        columns: One coder for each column in use, in the order of the outputs.
        notes: Sentences about what was assumed or left out.

    Example:
        >>> from aimfor.data.columns import columns_of
        >>> table = columns_of({"age": [30, 40, None, 50], "city": ["Bern", "Rome", "Bern", "Bern"]})
        >>> encoder = TableEncoder.fit(table)
        >>> encoder.feature_names
        ['age', 'age: missing', 'city: Bern', 'city: Rome', 'city: any other']
        >>> bool((TableEncoder.restore(encoder.state).transform(table) == encoder.transform(table)).all())
        True
    """

    columns: list[Coder]
    notes: list[str] = field(default_factory=list)
    kind: str = "table"

    @classmethod
    def fit(
        cls,
        columns: Mapping[str, Column],
        rows: NDArray[np.int64] | None = None,
        requested: dict[str, str] | None = None,
        numbered: bool = True,
    ) -> TableEncoder:
        """Decides what each column is from all rows, and learns levels and scales from the given ones.

        Args:
            columns: Name and cells of each column.
            rows: Numbers of the training rows; all by default.
            requested: What some columns are to be: ``{"when": "date:%d/%m/%Y", "zip": "category", "code": "ignore"}``.
            numbered: Whether a category of many levels has an output that is the number of the level.

        Raises:
            InputError: No column is of use, or a request that cannot be met.
        """
        requested = requested or {}
        check_requested(requested, list(columns))
        encoder = cls([])
        for name, column in columns.items():
            decision = decide(name, column, requested.get(name))
            cells = column if rows is None else column.take(rows)
            coder = decision.note if decision.kind == "ignore" else _fit(name, cells, decision, numbered)
            if isinstance(coder, str):
                encoder.notes.append(f"column {name!r} left out: {coder}")
                continue
            encoder.columns.append(coder)
            if decision.note:
                encoder.notes.append(f"column {name!r}: {decision.note}")
        if not encoder.columns:
            reasons = "; ".join(encoder.notes[:3])
            raise InputError(
                "data", f"no column that could help ({reasons})", "at least one feature column that varies"
            )
        return encoder

    @property
    def state(self) -> dict[str, Any]:
        """Plain JSON."""
        columns = [coder.model_dump(mode="json", by_alias=True) for coder in self.columns]
        return {"kind": self.kind, "version": VERSION, "columns": columns, "notes": self.notes}

    @classmethod
    def restore(cls, state: Any) -> TableEncoder:
        """From `state`. Raises `InputError` for one of another version, or a damaged one."""
        if isinstance(state, dict) and state.get("version") != VERSION:
            raise InputError(
                "run", "a config.json whose columns are of another version", "one of this version", "Train it again."
            )
        try:
            columns = _CODERS.validate_python(state["columns"])
            notes = [str(note) for note in state["notes"]]
        except (ValidationError, KeyError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError("run", f"damaged columns in config.json ({reason})", "what training wrote") from None
        return cls(list(columns), notes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.feature_columns),)

    @property
    def feature_columns(self) -> list[str]:
        """For each of the d outputs the input column it comes from."""
        return [coder.name for coder in self.columns for _ in coder.parts]

    @property
    def levels(self) -> tuple[int, ...]:
        """Outputs that are numbers of levels."""
        last = np.cumsum([len(coder.parts) for coder in self.columns]) - 1
        numbered = np.array([isinstance(coder, Category) and coder.numbered for coder in self.columns], dtype=bool)
        return tuple(last[numbered].tolist())

    @property
    def feature_names(self) -> list[str]:
        """For each of the d outputs a name of its own."""
        return [f"{coder.name}: {title}" if title else coder.name for coder in self.columns for title in coder.parts]

    def transform(
        self,
        columns: Mapping[str, Column],
        remarks: Remarks | None = None,
        *,
        source: str = "a table",
        out: Matrix | None = None,
    ) -> Matrix:
        """``(n, d)`` float32, written to ``out`` if given; what was odd about the rows is added to ``remarks``.

        Raises:
            InputError: A column is missing, or holds text where only numbers or dates were learned.
        """
        remarks = Remarks() if remarks is None else remarks
        used = {coder.name for coder in self.columns}
        for coder in self.columns:
            if coder.name not in columns:
                raise InputError(
                    "data",
                    f"{source} without the column {coder.name!r}",
                    "the columns the model was trained on",
                    nearest(coder.name, [name for name in columns if name not in used]),
                )
            if columns[coder.name].kind == "unread":
                kind = columns[coder.name].values.type
                raise InputError("data", f"{kind} in the column {coder.name!r}", "cells such as those in training")
        n = len(columns[self.columns[0].name])
        encoded, at = np.empty((n, *self.shape), dtype=np.float32) if out is None else out, 0
        for coder in self.columns:
            width = len(coder.parts)
            coder.encode_into(columns[coder.name], remarks, encoded[:, at : at + width])
            at += width
        return encoded


def _fit(name: str, cells: Column, decision: Decision, numbered: bool) -> Coder | str:
    """The coder of one column, or why it is of no use."""
    if decision.kind == "number" or decision.kind == "boolean":
        values, _ = read_numbers(cells, decision.style)
        return fit_number(name, values, decision.style, decision.words, decision.kind)
    if decision.kind == "date":
        return fit_date(name, read_dates(cells, decision.form)[0], decision.form, decision.words)
    if decision.kind == "text":
        return Text(name=name)
    return fit_category(name, cells, decision.exact, numbered)


def near_perfect(encoder: TableEncoder, x: Matrix, ids: NDArray[np.int64]) -> list[str]:
    """A sentence for each input column whose values alone tell the classes apart.

    Args:
        encoder: The encoder that gave ``x``.
        x: Encoded training rows, ``(n, d)``.
        ids: Their classes, ``(n,)``. With more than two, each is taken against the rest, and the worst one counts.
    """
    step = max(1, len(x) // _MOST_ROWS)
    x, ids = x[::step], ids[::step]
    classes, counts = np.unique(ids, return_counts=True)
    if len(classes) < 2 or counts.min() < 10:  # fewer rows are told apart by chance
        return []
    sentences, at = [], 0
    for coder in encoder.columns:
        width = len(coder.parts)
        worst = min(_best_auroc(x[:, at : at + width], ids == c) for c in classes[-1 if len(classes) == 2 else 0 :])
        at += width
        if worst >= _NEARLY:
            sentences.append(
                f"column {coder.name!r} alone nearly decides the target (AUROC {worst:.4f}): if it is only known "
                f"afterwards, leave it out with {override(coder.name, 'ignore')}"
            )
    return sentences


def _best_auroc(outputs: Matrix, positive: NDArray[np.bool_]) -> float:
    """Of one output alone, or of the share of positives at each level of a category."""
    if bool(((outputs == 0) | (outputs == 1)).all()) and outputs.shape[1] > 1:
        indicators = outputs.astype(np.float64)
        share = (indicators.T @ positive + 1e-9) / (indicators.sum(0) + 2e-9)
        return _auroc(indicators @ share, positive)
    return max(_auroc(column.astype(np.float64), positive) for column in outputs.T)


def _auroc(values: Floats, positive: NDArray[np.bool_]) -> float:
    """Of the values or of their negatives, whichever is larger."""
    import torch

    from ...metrics import AUROC

    auroc = float(AUROC().value(torch.from_numpy(np.ascontiguousarray(values)), torch.from_numpy(positive).long()))
    return max(auroc, 1 - auroc)
