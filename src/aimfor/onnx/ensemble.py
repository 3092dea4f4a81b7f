"""A whole run as one ONNX model: encoder, ensemble, calibration, threshold."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto

from ..data.columns import TableEncoder
from ..learners.ensemble import Ensemble
from ..learners.ensemble.calibration import MOST, Scale
from ..learners.ensemble.choices import SILENT
from .columns import encoded, input_name, what_it_takes
from .graph import Graph
from .members import weighted_scores

DOUBLE, INT64, STRING = TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING


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
    loud = [weighted for weighted in ensemble.weighted_members if weighted.share >= SILENT]
    total, mass = None, sum(weighted.share for weighted in loud)
    for weighted in loud:
        stated = g("ReduceMean", _scaled(g, weighted_scores(g, x, weighted), weighted.scale), np.array([1]), keepdims=0)
        part = g("Mul", stated, weighted.share / mass)
        total = part if total is None else g("Add", total, part)
    assert total is not None
    return _scaled(g, total, ensemble.scale)


def _scaled(g: Graph, scores: str, scale: Scale) -> str:
    """`Scale` along the last axis."""
    found = g("Add", g("Mul", _bounded(g, scores), scale.slope), np.array(scale.offsets))
    if len(scale.offsets) > 1:
        found = g("Sub", found, g("ReduceMean", found, np.array([-1]), keepdims=1))
    return _bounded(g, found)


def _bounded(g: Graph, scores: str) -> str:
    """What exceeds ±15 counts by its logarithm."""
    excess = g("Max", g("Sub", g("Abs", scores), MOST), 0.0)
    return g("Add", g.bounded(scores, MOST), g("Mul", g("Sign", scores), g("Log", g("Add", excess, 1.0))))
