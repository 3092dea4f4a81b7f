"""An ONNX file is kept only if it answers as `predict` does, on rows that try every kind of cell of every column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.columns import TableEncoder
from ..data.columns.cells import Column
from ..data.columns.coders import Category, Coder
from ..data.columns.quantities import Date, Number, read_dates, read_numbers
from ..errors import InputError
from ..targets.calibrate import probability
from .columns import NOT_A_TIME, input_name
from .export import Reading

Array = NDArray[Any]
ROWS = 600
TOLERANCE = 1e-5


def feeds(encoder: TableEncoder, columns: Mapping[str, Column]) -> dict[str, Array]:
    """What the ONNX model takes, from columns as `predict` reads them."""
    return {input_name(coder.name): _feed(coder, columns[coder.name]) for coder in encoder.columns}


def _feed(coder: Coder, column: Column) -> Array:
    if isinstance(coder, Number):
        return np.asarray(read_numbers(column, coder.style)[0], dtype=np.float64)
    if isinstance(coder, Date):
        moments = read_dates(column, coder.format)[0].astype("M8[us]")
        return np.where(np.isnat(moments), NOT_A_TIME, moments.astype(np.int64))
    return np.array(["" if text is None else text for text in column.texts()], dtype=object)


def check(content: bytes, encoder: TableEncoder, scores_of: Callable[[Tensor], Tensor], reading: Reading) -> None:
    """Raises `InputError` when onnxruntime and the model disagree by more than 1e-5 on any drawn row.

    ``scores_of`` gives the model's scores of encoded rows.
    """
    import onnxruntime

    columns = drawn(encoder)
    scores = scores_of(torch.from_numpy(encoder.transform(columns))).double()
    wanted = (probability(scores, reading.calibration) if reading.binary else scores.softmax(1)).numpy()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    stated, decision = session.run(["probability", "decision"], feeds(encoder, columns))
    worst = float(np.abs(stated - wanted).max())
    if not worst <= TOLERANCE:
        raise InputError("--onnx", f"a file whose probabilities are off by {worst:.2g}", f"at most {TOLERANCE:g}")
    if reading.binary:
        decided, clear = scores > reading.threshold, (scores - reading.threshold).abs() > TOLERANCE
    else:
        top = scores.softmax(1).topk(2).values
        decided, clear = scores.argmax(1), top[:, 0] - top[:, 1] > TOLERANCE
    labels = np.array(reading.classes, dtype=object)[decided.long().numpy()]
    wrong = int((labels != decision)[clear.numpy()].sum())
    if wrong:
        raise InputError("--onnx", f"a file that decides {wrong} of {ROWS} rows differently", "the same decisions")


def drawn(encoder: TableEncoder, rows: int = ROWS, seed: int = 0) -> dict[str, Column]:
    """Columns of random cells: inside the training range and far outside, missing, of every level and of none."""
    rng = np.random.default_rng(seed)
    return {coder.name: _drawn(coder, rng, rows) for coder in encoder.columns}


def _drawn(coder: Coder, rng: np.random.Generator, n: int) -> Column:
    if isinstance(coder, Category):
        levels = [*coder.levels, *(coder.rare or ())[:20], "never seen in training"]
        texts = [None if rng.random() < 0.1 else levels[rng.integers(len(levels))] for _ in range(n)]
        return Column("text", pa.array(texts, pa.large_string()))
    if isinstance(coder, Date):
        days = next((number.scale for number in coder.numbers if number.name == "days"), None)
        span = (days.low, days.high) if days else (0.0, 20_000.0)
        moments = (_numbers(rng, n, *span) * 86_400e6).clip(-6e16, 2e17)
        held = np.where(np.isnan(moments), 0.0, moments).astype(np.int64).astype("M8[us]")
        return Column("time", np.where(np.isnan(moments), np.datetime64("NaT"), held).astype("M8[us]"))
    assert isinstance(coder, Number)
    values = _numbers(rng, n, coder.scale.low, coder.scale.high)
    return Column("number", np.where(rng.random(n) < 0.3, np.round(values), values))


def _numbers(rng: np.random.Generator, n: int, low: float, high: float) -> Array:
    """Mostly within the range; some at its ends, some far outside, some missing."""
    share, kind = rng.random(n), rng.random(n)
    inside = low * (1 - share) + high * share
    edge = np.where(rng.random(n) < 0.5, low, high)
    return np.select([kind < 0.1, kind < 0.15, kind < 0.25], [np.nan, 3 * inside, edge], inside)
