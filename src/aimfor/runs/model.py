"""A finished run as a Python object: ``aimfor.load("runs/customers-ap").predict(frame)``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.columns import columns_of
from ..data.columns.coders import Remarks
from ..data.load import load as load_source
from ..data.source import Source
from ..errors import InputError, OddRowsWarning
from .finished import Run, load_run

Array = NDArray[Any]


class Model:
    """A trained run with its columns, threshold and probabilities.

    New rows are read by the description stored with the run, never by their own types: a row has the same score alone,
    in any batch, and as CSV, Parquet or data frame. Unseen levels and values far out of range raise an
    `OddRowsWarning` with their number.

    Attributes:
        classes: The labels in the order of `predict_proba`'s columns; of two, the second is the positive one.
        metric: The name of the metric it was trained for.
        threshold: Scores above it are decided positive (binary tasks).
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.classes = list(run.labels.classes)
        self.metric = run.metric
        self.threshold = run.threshold

    def __repr__(self) -> str:
        return f"Model({str(self._run.folder)!r}, metric={self.metric!r}, classes={self.classes})"

    def scores(self, data: Any) -> Array:
        """Raw scores ``(n,)``, or ``(n, c)`` for several classes."""
        return np.asarray(self._scored(data).numpy())

    def predict(self, data: Any) -> Array:
        """The decided label of each row, ``(n,)``, at the stored threshold.

        Args:
            data: A data frame (pandas, polars, Arrow, …), a mapping of columns, an ``(n, d)`` array, uint8 images
                ``(n, h, w, c)``, or the path of a file. Columns the model does not know are left aside.
        """
        self._refuse_lists("predict")
        for sentence in self._run.warnings:
            warnings.warn(sentence, UserWarning, stacklevel=2)
        return np.asarray(np.array(self.classes, dtype=object)[self._run.decisions(self._scored(data))])

    def predict_proba(self, data: Any) -> Array:
        """Calibrated probabilities ``(n, c)``, in the order of `classes`."""
        self._refuse_lists("predict_proba")
        found = self._run.probabilities(self._scored(data))
        return np.stack((1 - found, found), axis=1) if found.ndim == 1 else found

    def _refuse_lists(self, what: str) -> None:
        if self._run.query is not None:
            raise InputError(
                what,
                "a model of ranked lists, which makes no decisions",
                "scores()",
                "Sort the rows of a query by them.",
            )

    def _scored(self, data: Any) -> Any:
        remarks = Remarks()
        lazy = self._run.encoder.kind == "features"
        scores = self._run.scores(_source(data, lazy), remarks)
        for sentence in remarks.sentences:
            warnings.warn(sentence, OddRowsWarning, stacklevel=3)
        return scores


def _source(data: Any, lazy: bool) -> Source:
    if isinstance(data, str | Path):
        return load_source(str(data), None, labelled=False, lazy=lazy)
    if getattr(data, "ndim", 0) == 4:
        return Source("the array", {}, images=np.asarray(data))
    return Source("the data", columns_of(data))


def load(folder: str | Path) -> Model:
    """The model of a run folder that ``aimfor train`` wrote. Nothing in the folder is executed.

    Args:
        folder: The run folder.

    Raises:
        InputError: No finished run there, or a damaged one.

    Example:
        >>> import aimfor
        >>> aimfor.load("no/such/run")
        Traceback (most recent call last):
            ...
        aimfor.errors.InputError: run: got no/such/run, which is no folder, expected the folder of an aimfor run.
    """
    if not isinstance(folder, str | Path):
        raise InputError("folder", f"a {type(folder).__name__}", "the path of a run folder")
    return Model(load_run(Path(folder)))
