"""`aimfor export`: a run on a table as one ONNX model: encoder, ensemble, calibration, threshold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..data import checkpoint
from ..data.columns import TableEncoder
from ..errors import InputError
from ..learners.ensemble import Ensemble
from ..learners.ensemble.calibration import MOST, Scale
from ..learners.ensemble.choices import SILENT
from ..runs.finished import load_run

if TYPE_CHECKING:
    from onnx import ModelProto

    from .graph import Graph


def export(folder: Path, out: Path | None, onnx: bool = False) -> Path:
    """Writes the ensemble of a table, from raw columns to probability and decision, and returns the path.

    Raises:
        InputError: No finished run, one that cannot be exported, ``onnx`` not asked for, or its packages missing.
    """
    run = load_run(folder)
    if not onnx:
        raise InputError("--onnx", "nothing", "the option: ONNX is the only format", "Add --onnx.")
    missing = next((package for package in ("onnx", "onnxruntime") if find_spec(package) is None), None)
    if missing is not None:
        remedy = "Install: pip install onnx onnxscript onnxruntime."
        raise InputError("--onnx", f"no package {missing}", "onnx and onnxruntime", remedy)
    if run.query is not None:
        remedy = "Use aimfor.load(RUN).scores(frame)."
        raise InputError("run", f"{folder}, an ensemble of ranked lists", "one with probabilities", remedy)
    if not isinstance(run.encoder, TableEncoder):
        raise InputError("run", f"{folder}, an ensemble for pictures", "an ensemble for a table")
    from .check import check

    labels = run.labels
    reading = Reading(run.metric, labels.classes, labels.binary, run.threshold, run.calibration or (1.0, 0.0))
    content: bytes = run_model(run.encoder, run.model, reading).SerializeToString()
    check(content, run.encoder, run.model.scores, reading)
    path = out or folder / "model.onnx"
    checkpoint.write_bytes(path, content)
    return path


@dataclass(frozen=True)
class Reading:
    """How scores become an answer.

    Attributes:
        metric: What the model was trained for.
        classes: Labels; of two, the second is the positive one.
        binary: One score a row; else one a class.
        threshold: Of a binary decision, on the score.
        calibration: Slope and offset from a binary score to log-odds.
    """

    metric: str
    classes: list[str]
    binary: bool
    threshold: float
    calibration: tuple[float, float] = (1.0, 0.0)


def run_model(encoder: TableEncoder, model: Ensemble, reading: Reading) -> ModelProto:
    """Inputs: the columns, each ``(rows,)`` under its own name. Outputs: ``probability`` (float64) and ``decision``.

    ``probability`` is ``(rows,)`` of the positive class, or ``(rows, classes)`` of several.

    Raises:
        InputError: A column that ONNX has no operators for.
    """
    from .columns import encoded, input_name, what_it_takes
    from .graph import DOUBLE, INT64, STRING, Graph

    g = Graph()
    scores = _scores(g, g.cast(encoded(g, encoder), DOUBLE), model)
    labels, classes = g.texts(reading.classes), reading.classes
    if reading.binary:
        score, (slope, offset) = g("Squeeze", scores, np.array([1])), reading.calibration
        chosen = g.cast(g("Greater", score, reading.threshold), INT64)
        g.output("probability", g("Sigmoid", g("Add", g("Mul", score, slope), offset)), DOUBLE, ["rows"])
    else:
        stated = g("Softmax", scores, axis=1)
        chosen = g("ArgMax", stated, axis=1, keepdims=0)
        g.output("probability", stated, DOUBLE, ["rows", len(classes)])
    g.output("decision", g("Gather", labels, chosen), STRING, ["rows"])
    columns = [{"column": c.name, "input": input_name(c.name), "takes": what_it_takes(c)} for c in encoder.columns]
    facts = {"metric": reading.metric, "classes": classes, "threshold": reading.threshold, "columns": columns}
    return g.model({"aimfor": json.dumps(facts, ensure_ascii=False)})


def _scores(g: Graph, x: str, ensemble: Ensemble) -> str:
    """Calibrated log-odds ``(n, outputs)``."""
    from .members import weighted_scores

    loud = [weighted for weighted in ensemble.weighted_members if weighted.share >= SILENT]
    total, mass = None, sum(weighted.share for weighted in loud)
    for weighted in loud:
        stated = g("ReduceMean", _scaled(g, weighted_scores(g, x, weighted), weighted.scale), np.array([1]), keepdims=0)
        term = g("Mul", stated, weighted.share / mass)
        total = term if total is None else g("Add", total, term)
    assert total is not None
    return _scaled(g, total, ensemble.scale)


def _scaled(g: Graph, scores: str, scale: Scale) -> str:
    """`Scale` along the last axis."""
    moved = g("Add", g("Mul", _bounded(g, scores), scale.slope), np.array(scale.offsets))
    if len(scale.offsets) > 1:
        moved = g("Sub", moved, g("ReduceMean", moved, np.array([-1]), keepdims=1))
    return _bounded(g, moved)


def _bounded(g: Graph, scores: str) -> str:
    """What exceeds ±15 counts by its logarithm."""
    excess = g("Max", g("Sub", g("Abs", scores), MOST), 0.0)
    return g("Add", g.bounded(scores, MOST), g("Mul", g("Sign", scores), g("Log", g("Add", excess, 1.0))))
