"""`aimfor export`: an ensemble as one ONNX file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..data import checkpoint
from ..data.columns import TableEncoder
from ..errors import InputError
from ..runs.finished import Run, load_run


def export(folder: Path, out: Path | None, onnx: bool = False) -> Path:
    """Writes the ensemble of a table, from raw columns to probability and decision, and returns the path.

    Raises:
        InputError: No finished run, one that cannot be exported, ``onnx`` not asked for, or its packages missing.
    """
    run = load_run(folder)
    if not onnx:
        raise InputError("--onnx", "nothing", "the option: ONNX is the only format", "Add --onnx.")
    path = out or folder / "model.onnx"
    checkpoint.write_bytes(path, _from_columns(run))
    return path


def _from_columns(run: Run) -> bytes:
    """The file, which has answered as the run does."""
    _need("onnx", "onnxruntime")
    from . import Reading, run_model
    from .check import check

    if run.query is not None:
        remedy = "Use aimfor.load(RUN).scores(frame)."
        raise InputError("run", f"{run.folder}, an ensemble of ranked lists", "one with probabilities", remedy)
    encoder, labels = run.encoder, run.labels
    if not isinstance(encoder, TableEncoder):
        raise InputError("run", f"{run.folder}, an ensemble for pictures", "an ensemble for a table")
    reading = Reading(run.metric, labels.classes, labels.binary, run.threshold, run.calibration or (1.0, 0.0))
    content: bytes = run_model(encoder, run.model, reading).SerializeToString()
    check(content, encoder, run.model.scores, reading)
    return content


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            remedy = "Install: pip install onnx onnxscript onnxruntime."
            raise InputError("--onnx", f"no package {package}", " and ".join(packages), remedy)
