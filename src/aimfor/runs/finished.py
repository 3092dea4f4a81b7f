"""A finished run, read from its folder: ``aimfor.load("runs/customers-ap").predict(frame)``."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Strict
from torch import Tensor

from ..data import checkpoint
from ..data.columns import columns_of
from ..data.columns.coders import Remarks
from ..data.encode import Encoder, encode, restore_encoder
from ..data.load import load as load_source
from ..data.settings import Settings
from ..data.source import Source
from ..errors import InputError, OddRowsWarning
from ..learners.ensemble import Ensemble
from ..learners.ensemble.cells import Kept
from ..targets.calibrate import probability
from ..targets.classes import Labels
from ..targets.objective import Objective
from .folder import finished_run

Array = NDArray[Any]
#: The file of weights and thresholds, by the name that 0.1 gave it, and the folder of the members.
ENSEMBLE, MEMBERS = "committee.json", "members"


class _Stored(BaseModel):
    """What threshold.json must hold."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    threshold: float
    calibration: Annotated[tuple[float, float], Strict(False)] | None
    guaranteed: bool | None


@dataclass
class Run:
    """A finished run on a table, lists or pictures, read back.

    Attributes:
        folder: Where it was read.
        settings: What it was made with.
        model: Scores encoded rows.
        encoder: Encodes them.
        labels: The classes.
        threshold: Of decisions.
        calibration: Slope and offset from scores to log-odds; None where scores are not calibrated.
        guaranteed: Whether the threshold keeps the floor of the metric; None for a metric without one.
    """

    folder: Path
    settings: Settings
    model: Ensemble
    encoder: Encoder
    labels: Labels
    threshold: float
    calibration: tuple[float, float] | None
    guaranteed: bool | None = None

    @property
    def metric(self) -> str:
        return self.settings.metric

    @property
    def query(self) -> str | None:
        """The column that holds lists together, for a run of ranked lists."""
        return self.settings.query

    @property
    def objective(self) -> Objective:
        """The metric on the classes of this run, or on its lists."""
        objective = Objective.of(self.metric)
        if self.query is not None:
            return objective.by_list()
        return objective.on_classes(len(self.labels.classes), self.settings.positive)

    @property
    def warnings(self) -> list[str]:
        """What whoever uses its decisions must know."""
        if self.guaranteed is not False:
            return []
        return [f"decisions are made at a threshold without a guarantee of {self.metric}; the report says why"]

    def scores(self, source: Source, remarks: Remarks | None = None) -> Tensor:
        """Scores of every row; what was odd about the rows is added to ``remarks``."""
        return self.model.scores(torch.from_numpy(encode(self.encoder, source, remarks)))

    def decisions(self, scores: Tensor) -> NDArray[np.int64]:
        """The class each row is decided to be: by the stored threshold, or the most probable one."""
        if self.labels.binary:
            return np.asarray(scores.double().numpy() > self.threshold, dtype=np.int64)
        return np.asarray(self.probabilities(scores).argmax(1), dtype=np.int64)

    def probabilities(self, scores: Tensor) -> NDArray[np.float64]:
        """Calibrated on validation data: Platt's sigmoid for one score, softmax for classes."""
        if not self.labels.binary or self.calibration is None:
            return np.asarray(scores.double().softmax(1).numpy())
        return np.asarray(probability(scores, self.calibration).numpy())


def load_run(folder: Path) -> Run:
    """Reads a finished run.

    Raises:
        InputError: A folder without a finished run, or a damaged file.
    """
    with finished_run(folder) as (config, settings):
        decision = checkpoint.read_json(folder / "threshold.json")
        with checkpoint.reading(folder / "config.json"):
            labels, encoder = Labels.restore(config["labels"]), restore_encoder(config["encoder"])
        model = load_ensemble(folder)
        with checkpoint.reading(folder / "threshold.json"):
            stored = _Stored.model_validate({key: decision.get(key) for key in _Stored.model_fields})
            if labels.binary and settings.query is None and stored.calibration is None:
                raise ValueError("no calibration")
    return Run(folder, settings, model, encoder, labels, stored.threshold, stored.calibration, stored.guaranteed)


def save_ensemble(folder: Path, ensemble: Ensemble) -> None:
    """Members first, the ensemble last: a folder that has it has everything."""
    (folder / MEMBERS).mkdir(exist_ok=True)
    texts: dict[str, Any] = {}
    for name, (tensors, facts) in ensemble.parts():
        if "lightgbm" in tensors:
            content = tensors["lightgbm"].numpy().tobytes()
            checkpoint.write_bytes(folder / MEMBERS / f"{name}.txt", content)
            texts[name] = {"facts": facts, "sha256": hashlib.sha256(content).hexdigest()}
        else:
            checkpoint.save(folder / MEMBERS / f"{name}.safetensors", tensors, facts)
    checkpoint.write_json(folder / ENSEMBLE, {**ensemble.facts, "texts": texts})


def load_ensemble(folder: Path) -> Ensemble:
    """The ensemble. Raises `InputError` naming the file that is missing or damaged."""
    document = checkpoint.read_json(folder / ENSEMBLE)
    with checkpoint.reading(folder / ENSEMBLE):
        texts = document["texts"]

        def get(name: str) -> Kept:
            if name not in texts:
                return checkpoint.load(folder / MEMBERS / f"{name}.safetensors")
            path = folder / MEMBERS / f"{name}.txt"
            content = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(content).hexdigest() != texts[name]["sha256"]:
                raise InputError("run", f"{path}, which is missing or damaged", "the file as aimfor wrote it")
            return {"lightgbm": torch.frombuffer(bytearray(content), dtype=torch.uint8)}, texts[name]["facts"]

        return Ensemble.restore(document, get)


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
        stated = self._run.probabilities(self._scored(data))
        return np.stack((1 - stated, stated), axis=1) if stated.ndim == 1 else stated

    def _refuse_lists(self, method: str) -> None:
        if self._run.query is not None:
            came = "a model of ranked lists, which makes no decisions"
            raise InputError(method, came, "scores()", "Sort the rows of a query by them.")

    def _scored(self, data: Any) -> Tensor:
        remarks = Remarks()
        if isinstance(data, str | Path):
            source = load_source(str(data), None, labelled=False, lazy=self._run.encoder.kind == "features")
        elif getattr(data, "ndim", 0) == 4:
            source = Source("the array", {}, images=np.asarray(data))
        else:
            source = Source("the data", columns_of(data))
        scores = self._run.scores(source, remarks)
        for sentence in remarks.sentences:
            warnings.warn(sentence, OddRowsWarning, stacklevel=3)
        return scores


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
