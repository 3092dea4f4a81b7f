"""LibAUC's own losses with their own optimizers, as rivals of the map where that package is installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from ..rivals.libauc import loss_and_optimizer
from .losses import Method, plain
from .task import CHECKPOINTS, Checkpoint, Task
from .training import scores_of

#: Of each loss the argument that is tried: the margin, the share of a moving average, the share of negatives.
KNOBS = {"LibAUC AUCM": "margin", "LibAUC AP": "gamma", "LibAUC pAUC": "beta"}


def train(
    name: str, task: Task, rate: float, knob: float, seed: int, twice: bool, parts: Sequence[str]
) -> list[Checkpoint]:
    """As `training.train`, on sigmoids of balanced batches (what LibAUC's `DualSampler` draws)."""
    torch.manual_seed(seed)
    network = task.network()
    loss, optimizer = loss_and_optimizer(name, network, rate, task.train.y, **{KNOBS[name]: knob})
    checkpoints, draws = [], task.draw(task, True, torch.Generator().manual_seed(task.seed))
    for step in range(task.steps * (2 if twice else 1)):
        index = next(draws)
        rows = task.train.at(index)
        scores = network(*rows.x)
        if bool(scores.isfinite().all()):
            optimizer.zero_grad()
            loss(torch.sigmoid(scores), rows.y.float(), index=index).backward()
            optimizer.step()
        if (step + 1) % (task.steps // CHECKPOINTS) == 0:
            checkpoints.append({part: scores_of(network, task.parts[part].x) for part in parts})
    return checkpoints


def _method(name: str, knobs: tuple[float, ...], rates: tuple[float, ...]) -> Method:
    return Method(name, plain, knobs, rates=rates, own=partial(train, name))


#: PESG's own learning rate is 0.1, that of SOAP and SOPA 1e-3.
METHODS = (
    _method("LibAUC AUCM", (0.5, 1.0, 2.0), (0.02, 0.1, 0.5)),
    _method("LibAUC AP", (0.1, 0.5, 0.9), (3e-4, 1e-3, 3e-3)),
    _method("LibAUC pAUC", (0.01, 0.1, 0.3), (3e-4, 1e-3, 3e-3)),
)
