"""LibAUC's own losses with their own optimizers, as rivals of the map where that package is installed.

``pip install --no-deps libauc==2.0.1`` (it asks for torchvision otherwise), and what its import then names.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from .losses import Method, plain
from .task import CHECKPOINTS, Checkpoint, Task
from .training import scores_of

NAMES = ("LibAUC AUCM", "LibAUC AP", "LibAUC pAUC")


def _loss_and_optimizer(name: str, network: nn.Module, rate: float, knob: float, labels: torch.Tensor) -> Any:
    losses, optimizers = (importlib.import_module(f"libauc.{module}") for module in ("losses", "optimizers"))
    if name == "LibAUC AUCM":
        loss = losses.AUCMLoss(margin=knob)
        return loss, optimizers.PESG(network.parameters(), loss_fn=loss, lr=rate, verbose=False)
    if name == "LibAUC AP":
        loss = losses.APLoss(data_len=len(labels), gamma=knob)
        return loss, optimizers.SOAP(network.parameters(), lr=rate, mode="adam", verbose=False)
    loss = losses.pAUC_CVaR_Loss(data_len=len(labels), pos_len=int(labels.sum()), beta=knob)
    return loss, optimizers.SOPA(network.parameters(), lr=rate, mode="adam", verbose=False)


def train(
    name: str, task: Task, rate: float, knob: float, seed: int, twice: bool, parts: Sequence[str]
) -> list[Checkpoint]:
    """As `training.train`, on sigmoids of balanced batches (what LibAUC's `DualSampler` draws)."""
    torch.manual_seed(seed)
    network = task.network()
    loss, optimizer = _loss_and_optimizer(name, network, rate, knob, task.train.y)
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


#: PESG's own learning rate is 0.1, that of SOAP and SOPA 1e-3. Knobs: margin, moving average, share of negatives.
METHODS = (
    Method(NAMES[0], plain, (0.5, 1.0, 2.0), rates=(0.02, 0.1, 0.5), own=partial(train, NAMES[0])),
    Method(NAMES[1], plain, (0.1, 0.5, 0.9), rates=(3e-4, 1e-3, 3e-3), own=partial(train, NAMES[1])),
    Method(NAMES[2], plain, (0.01, 0.1, 0.3), rates=(3e-4, 1e-3, 3e-3), own=partial(train, NAMES[2])),
)
