"""One small network trained by one loss: a rival in `aimfor compare`, and a candidate of `MetricClassifier`."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...refit import HeadFitter
from ..ensemble.members.base import Job, Rows
from ..ensemble.members.network import LossOfBatch, Schedule, cross_entropy, together, train
from .models import scores_of


@dataclass(frozen=True)
class Candidate:
    """A network at its best checkpoint on the held-out rows.

    Attributes:
        network: In evaluation mode.
        value: The metric there, at the best threshold where it needs one; -inf where it is undefined.
        threshold: That threshold.
        log_loss: On the held-out rows; the lower one of equal values is better.
        checkpoints: How many were compared.
    """

    network: nn.Module
    value: float
    threshold: float
    log_loss: float
    checkpoints: int

    def beats(self, other: Candidate | None) -> bool:
        """Whether its value is higher; the earlier of equals stays."""
        return other is None or self.value > other.value + 1e-12


class _OneHead(nn.Module):
    """Scores ``(n, 1, outputs)``, as the training loop takes them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.inner(x)
        return scores.reshape(len(x), 1, -1)


def by_cross_entropy(scores: Tensor, batch: Rows, rows: Tensor) -> Tensor:
    """The loss of a batch."""
    return cross_entropy(together(scores), batch)


def with_class_weights(rows: Rows) -> Rows:
    """The rows with weights under which every class weighs the same."""
    weights = torch.ones(len(rows.y), dtype=rows.x.dtype) if rows.weights is None else rows.weights
    counts = torch.bincount(rows.y, weights).double()
    even = counts.sum() / (len(counts) * counts.clamp_min(1e-12))
    return replace(rows, weights=(weights * even[rows.y]).to(weights.dtype))


def train_candidate(
    network: nn.Module, job: Job, schedule: Schedule, loss: LossOfBatch = by_cross_entropy
) -> Candidate:
    """Trains a copy of the network and keeps the checkpoint that is best by the metric on the held-out rows."""
    whole = _OneHead(copy.deepcopy(network))
    seen: list[tuple[float, float, float]] = []

    def value(scores: Tensor) -> float:
        seen.append(_judged(scores, job))
        return seen[-1][0]

    weights = train(whole, job, schedule, loss, value)
    best = max(range(len(seen)), key=lambda number: seen[number][:2])
    whole.load_state_dict(weights[best])
    best_value, log_likelihood, threshold = seen[best]
    return Candidate(whole.inner.eval(), best_value, threshold, -log_likelihood, len(seen))


def refit_candidate(candidate: Candidate, job: Job) -> Candidate:
    """The candidate with its last layer fitted anew on all training rows for the metric.

    Raises:
        InputError: A metric that `HeadFitter` cannot fit for.
    """
    network = copy.deepcopy(candidate.network)
    batches, validation = (
        list(zip(*(values.split(4096) for values in (rows.x, rows.y, rows.weights) if values is not None), strict=True))
        for rows in (job.train, job.held)
    )
    HeadFitter(job.objective.metric).from_model(network, batches, validation=validation, install=True)
    value, log_likelihood, threshold = _judged(scores_of(network, job.held.x, job.outputs), job)
    return Candidate(network.eval(), value, threshold, -log_likelihood, 1)


def _judged(scores: Tensor, job: Job) -> tuple[float, float, float]:
    """The metric, the log-likelihood and the threshold on the held-out rows."""
    threshold, value = job.objective.tuned(scores, job.held.y, job.held.weights)
    return value if math.isfinite(value) else -math.inf, -float(cross_entropy(scores, job.held)), threshold
