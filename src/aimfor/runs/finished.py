"""A finished run, read from its folder: what it says about rows, and what it decides."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Strict
from torch import Tensor

from ..data import checkpoint
from ..data.columns.coders import Remarks
from ..data.encode import Encoder, encode, restore_encoder
from ..data.settings import Settings
from ..data.source import Source
from ..errors import InputError
from ..learners.ensemble import Ensemble
from ..learners.ensemble.cells import Kept
from ..targets.calibrate import probability
from ..targets.classes import Labels
from ..targets.objective import Objective
from .folder import check_sealed, kind_of


class _Stored(BaseModel):
    """What threshold.json must hold."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    threshold: float
    calibration: Annotated[tuple[float, float], Strict(False)] | None
    guaranteed: bool | None


@dataclass
class Run:
    """A finished run, read back."""

    folder: Path
    config: dict[str, Any]
    model: Ensemble
    encoder: Encoder
    labels: Labels
    threshold: float
    calibration: tuple[float, float] | None
    #: Whether the threshold keeps the floor of the metric; None for a metric without one.
    guaranteed: bool | None = None

    @property
    def metric(self) -> str:
        return str(self.config["settings"]["metric"])

    @property
    def objective(self) -> Objective:
        """The metric on the classes of this run, or on its lists."""
        found = Objective.of(self.metric)
        positive = self.config["settings"].get("positive")
        return found.on_classes(len(self.labels.classes), positive) if self.query is None else found.by_list()

    @property
    def query(self) -> str | None:
        """The column that holds lists together, for a run of ranked lists."""
        found = self.config["settings"].get("query")
        return None if found is None else str(found)

    @property
    def warnings(self) -> list[str]:
        """What whoever uses its decisions must know."""
        if self.guaranteed is not False:
            return []
        return [f"decisions are made at a threshold without a guarantee of {self.metric}; the report says why"]

    def scores(self, source: Source, remarks: Remarks | None = None) -> Tensor:
        """Scores of every row; what was odd about the rows is added to ``remarks``."""
        return self.scores_of_encoded(torch.from_numpy(encode(self.encoder, source, remarks)))

    def scores_of_encoded(self, x: Tensor) -> Tensor:
        """The same from what the encoder gave."""
        return self.model.scores(x)

    def decisions(self, scores: Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The class each row is decided to be: by the stored threshold, or the most probable one."""
        if self.labels.binary:
            return np.asarray(scores.double().numpy() > self.threshold, dtype=np.int64)
        return np.asarray(self.probabilities(scores).argmax(1), dtype=np.int64)

    def probabilities(self, scores: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Calibrated on validation data: Platt's sigmoid for one score, softmax for classes."""
        if not self.labels.binary or self.calibration is None:
            return np.asarray(scores.double().softmax(1).numpy())
        return np.asarray(probability(scores, self.calibration).numpy())


def load_run(folder: Path) -> Run:
    """Reads a finished run.

    Raises:
        InputError: A folder without a finished run, or a damaged file.
    """
    if not folder.is_dir():
        raise InputError("run", f"{folder}, which is no folder", "the folder of an aimfor run")
    config = checkpoint.read_json(folder / "config.json")
    kind = kind_of(folder)
    if kind in ("masks", "labels", "embedding"):
        raise InputError("run", f"{folder}, one of another kind ({kind})", "one column of classes or a table")
    if config.get("recipe") is not None:
        raise one_network(folder, config)
    if not (folder / ENSEMBLE).exists():
        raise InputError("run", f"{folder}, which is not finished", "a finished run", "Continue it with --resume.")
    decision = checkpoint.read_json(folder / "threshold.json")
    with checkpoint.reading(folder / "config.json"):
        settings, labels = Settings.stored(config["settings"]), Labels.restore(config["labels"])
        encoder = restore_encoder(config["encoder"])
    model = load_ensemble(folder)
    with checkpoint.reading(folder / "threshold.json"):
        stored = _Stored.model_validate({key: decision.get(key) for key in _Stored.model_fields})
        if labels.binary and settings.query is None and stored.calibration is None:
            raise ValueError("no calibration")
    check_sealed(folder)
    return Run(folder, config, model, encoder, labels, stored.threshold, stored.calibration, stored.guaranteed)


def one_network(folder: Path, config: dict[str, Any]) -> InputError:
    """What is said of a run of one network, which earlier versions made."""
    came = f"{folder}, one network by aimfor {config.get('aimfor')}"
    return InputError("run", came, "a run of this version", "Read it by that version, or train again.")


ENSEMBLE, MEMBERS = "committee.json", "members"


def save_ensemble(folder: Path, ensemble: Ensemble) -> None:
    """Members first, committee.json last: a folder that has it has everything."""
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
            return _text(folder / MEMBERS / f"{name}.txt", texts[name])

        return Ensemble.restore(document, get)


def _text(path: Path, known: dict[str, Any]) -> Kept:
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != known["sha256"]:
        raise InputError("run", f"{path}, which is missing or damaged", "the file as aimfor wrote it")
    return {"lightgbm": torch.frombuffer(bytearray(content), dtype=torch.uint8)}, known["facts"]
