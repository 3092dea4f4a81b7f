"""What a finished streamed run writes: the model first, metrics.json last, so that a folder with it has everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...fitting import checkpoint
from ...fitting.calibrate import platt, probability
from ...fitting.committee import Committee
from ..run.committee_files import forget_cells, save_committee
from ..run.convening import committee_facts, decision_of
from ..run.evaluate import evaluate
from .convene import RULE
from .fit import StreamFit
from .prepare import Ready


def write_network(
    folder: Path, fit: StreamFit, ready: Ready, weights: dict[str, Tensor], validation: Tensor, test: Tensor
) -> None:
    """A run of one network."""
    best = fit.state.best
    decision: dict[str, Any] = {
        "threshold": best["threshold"], "rule": "score > threshold", "tuned_on": "validation",
        "classes": ready.labels.classes,
    }  # fmt: skip
    stated = test.double().softmax(1) if test.ndim == 2 else None
    if ready.labels.binary:
        slope, offset = platt(validation, ready.validation[1])
        decision["calibration"], stated = [slope, offset], probability(test, (slope, offset))
    metrics = {
        **_common(ready, test, stated, best["threshold"]),
        "validation": best["value"],
        "chosen": {**{key: best[key] for key in ("loss", "epoch", "stage")}, "balanced": False},
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "seconds": round(fit.state.seconds, 3),
        "history": fit.state.history,
    }
    checkpoint.save(folder / "model.safetensors", weights, {"threshold": best["threshold"]})
    checkpoint.write_json(folder / "threshold.json", decision)
    checkpoint.write_json(folder / "metrics.json", metrics)


def write_committee(folder: Path, ready: Ready, committee: Committee, test: Tensor) -> None:
    """A run of trees, a network, or both."""
    stated = probability(test) if ready.labels.binary else test.softmax(1)
    metrics = {
        **_common(ready, test, stated, committee.threshold.value),
        "validation": committee.promised,
        "threshold_text": committee.threshold.text,
        "committee": committee_facts(committee, RULE),
        "seconds": round(sum(seat.seconds for seat in committee.seats), 3),
        "history": [],
    }
    metrics["notes"] += committee.notes
    checkpoint.write_json(folder / "threshold.json", decision_of(ready.labels, committee))
    save_committee(folder, committee)
    checkpoint.write_json(folder / "metrics.json", metrics)
    forget_cells(folder)


def _common(ready: Ready, test: Tensor, stated: Tensor | None, threshold: float) -> dict[str, Any]:
    chances = None if stated is None else stated.numpy()
    return {
        "metric": ready.settings.metric,
        "test": evaluate(ready.objective, test, ready.test[1], threshold, ready.groups, probabilities=chances),
        "importance": {"left_out": "the rows of a stream are not kept"},
        "threshold": threshold,
        "rows": ready.rows,
        "notes": [*ready.notes],
        "torch": torch.__version__,
    }
