"""One network behind `MetricClassifier`: numbers in, the best of four ways to train on held-out rows, scores out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import refusal
from ..learners.ensemble.members.base import Job, Rows
from ..learners.ensemble.members.network import Schedule, loss_for_metric
from ..learners.networks.losses import why_untrainable
from ..learners.networks.models import build, scores_of
from ..learners.networks.one_network import Candidate, refit_candidate, train_candidate, with_class_weights
from ..refit import HeadFitter
from ..targets.calibrate import class_scaling, platt
from ..targets.objective import Objective

Array = NDArray[Any]
#: Steps of the metric's own loss, at least, and passes without a better value before an end.
_LEAST_STEPS, _PATIENCE = 60, 20


@dataclass(frozen=True)
class NetworkSettings:
    """Of the network and its training; see `MetricClassifier`."""

    model: str
    hidden: int
    epochs: int
    learning_rate: float
    weight_decay: float


@dataclass
class FittedNetwork:
    """A network with the scaling of its inputs, its calibration, and where it decides.

    Attributes:
        model: With the best weights.
        mean: Subtracted from each column.
        scale: Each column is divided by it.
        outputs: 1, or the number of classes.
        threshold: Decisions are ``score > threshold``; 0 for several classes.
        calibration: From scores to log-odds, as `platt` or `class_scaling` return it.
        value: The metric on the held-out rows.
        checkpoints: How often the held-out rows were looked at.
    """

    model: nn.Module
    mean: Array
    scale: Array
    outputs: int
    threshold: float
    calibration: Any
    value: float
    checkpoints: int

    def scores(self, X: Array) -> Tensor:
        """``(n,)``, or ``(n, c)`` for several classes."""
        return scores_of(self.model, torch.from_numpy(_scaled(X, self.mean, self.scale)), self.outputs)


def fit_network(
    X: Array,
    ids: Array,
    objective: Objective,
    outputs: int,
    *,
    weights: Array | None,
    held_out: float,
    settings: NetworkSettings,
    seed: int,
) -> FittedNetwork:
    """Trains on the rows that are not held out, and chooses, calibrates and decides on those that are.

    Args:
        X: ``(n, d)`` numbers.
        ids: Class ids ``(n,)``; 1 is the positive class of a binary metric.
        objective: The metric.
        outputs: 1, or the number of classes.
        weights: Of the rows, or None; rows of weight 0 are left out.
        held_out: Share of the rows that are held out.
        settings: Of the network and its training.
        seed: Decides which rows are held out.
    """
    counted = np.ones(len(X)) if weights is None else weights
    kept = counted > 0
    X, ids, counted = X[kept], ids[kept], counted[kept]
    mean = np.average(X, axis=0, weights=counted)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=counted))
    scale = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    held = _held_out(X, ids, held_out, seed)
    train = ~held
    if not all(set(ids[side]) == set(ids) for side in (train, held)):
        train = held = np.ones(len(X), dtype=bool)  # too few rows to hold some out: look at all of them
    x, y = torch.from_numpy(_scaled(X, mean, scale)), torch.from_numpy(ids.astype(np.int64))
    rows = [Rows(x[s], y[s], None if weights is None else torch.from_numpy(counted[s])) for s in (train, held)]
    job = Job(rows[0], rows[1], objective, outputs, seed % 2**20)
    best, checkpoints = _best_candidate(job, settings)
    threshold, calibration = _decided(job, best)
    return FittedNetwork(best.network, mean, scale, outputs, threshold, calibration, best.value, checkpoints)


def _best_candidate(job: Job, settings: NetworkSettings) -> tuple[Candidate, int]:
    """The best on held-out rows of cross-entropy, class weights, the metric's own loss and a refitted last layer, the
    last two starting from the best before them; and how often the held-out rows were looked at.

    Every step sees all rows at once: only so is a weight of two a repeated row, as scikit-learn asks.
    """
    schedule = Schedule(
        rate=settings.learning_rate,
        batch=len(job.train.y),
        checkpoints=settings.epochs,
        steps=1,
        patience=max(_PATIENCE, settings.epochs // 4),
        decay=0.0,
        weight_decay=settings.weight_decay,
        cosine=True,
    )
    best, checkpoints = None, 0
    with torch.random.fork_rng(devices=[]):
        for number, rows in enumerate((job.train, with_class_weights(job.train))):
            torch.manual_seed(job.seed * 1009 + number)
            # Without dropout: its masks depend on the number of rows, and weights would not mean repetition.
            network = build(settings.model, tuple(job.train.x.shape[1:]), job.outputs, settings.hidden, 0.0)
            candidate = train_candidate(network.to(job.train.x.dtype), replace(job, train=rows), schedule)
            best, checkpoints = candidate if candidate.beats(best) else best, checkpoints + candidate.checkpoints
        assert best is not None
        if why_untrainable(job.objective) is None:
            more = replace(schedule, rate=0.3 * schedule.rate, checkpoints=max(settings.epochs, _LEAST_STEPS))
            candidate = train_candidate(best.network, job, more, loss_for_metric(job.objective, best.threshold))
            best, checkpoints = candidate if candidate.beats(best) else best, checkpoints + candidate.checkpoints
        if refusal(lambda: HeadFitter(job.objective.metric)) is None:
            candidate = refit_candidate(best, job)
            best, checkpoints = candidate if candidate.beats(best) else best, checkpoints + 1
    return best, checkpoints


def _scaled(X: Array, mean: Array, scale: Array) -> Array:
    return np.ascontiguousarray((X - mean) / scale)


def _decided(job: Job, best: Candidate) -> tuple[float, Any]:
    """Threshold and calibration, from the held-out rows."""
    scores, held = scores_of(best.network, job.held.x, job.outputs), job.held
    if job.outputs > 1:
        return 0.0, class_scaling(scores, held.y, held.weights)
    calibration = platt(scores, held.y, held.weights)
    return _prefer_even_odds(job, scores, best.threshold, calibration), calibration


def _prefer_even_odds(job: Job, scores: Tensor, tuned: float, calibration: tuple[float, float]) -> float:
    """Probability one half is the threshold unless the tuned one gains more than chance would on so few rows.

    On n held-out rows the best of many thresholds wins by about ``0.5 / √n`` for no reason. Where that is all it
    wins, one half is as good, and makes `predict` and `predict_proba` agree.
    """
    if calibration[0] == 0:
        return tuned
    even, weights = -calibration[1] / calibration[0], job.held.weights
    objective = job.objective if job.objective.needs_threshold else Objective.of("f1")
    values = [objective.value(scores, job.held.y, threshold, weights) for threshold in (tuned, even)]
    rows = float(len(scores) if weights is None else weights.sum())
    return even if values[1] >= values[0] - 0.5 / max(1.0, rows) ** 0.5 else tuned


def _held_out(X: Array, ids: Array, fraction: float, seed: int) -> Array:
    """True for held-out rows. A row's own content decides (in the order of its hash within the class), not its place.

    Equal rows go together, so that a weight of two and a repeated row lead to the same split.
    """
    salt = str(seed).encode()
    digests = np.array([hashlib.sha256(salt + row.tobytes()).hexdigest() for row in np.ascontiguousarray(X + 0.0)])
    held = np.zeros(len(X), dtype=bool)
    for label in np.unique(ids):
        members = np.flatnonzero(ids == label)
        distinct = np.unique(digests[members])
        take = round(fraction * len(distinct)) or (1 if len(distinct) > 1 else 0)
        held[members] = np.isin(digests[members], distinct[:take])
    return held
