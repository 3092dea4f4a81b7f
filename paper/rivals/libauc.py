"""LibAUC's AUCM with PESG and its average precision loss with SOAP, as rivals where that package is installed.

They bring optimizers of their own (AUCM fails with any other), so they train here and not in `training`; everything
else is the protocol's: the same model, seed, number of steps and size of batches, as many rates, as many looks.
LibAUC asks for torchvision: ``pip install --no-deps libauc==2.0.1`` and what its import then names.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..protocol.protocol import Budget, Checkpoint, Contender, Contest, cross_entropy
from ..protocol.training import draw, scores_of, squeezed

#: PESG's own default is 0.1, SOAP's 1e-3; each gets the default and others around it.
RATES = {"LibAUC AUCM": (0.5, 0.1, 0.02), "LibAUC AP": (1e-3, 1e-2)}


def installed() -> bool:
    return importlib.util.find_spec("libauc") is not None


def rivals(*names: str) -> tuple[Contender, ...]:
    """The methods of these names, or none if LibAUC is not there. What trains on from them is cross-entropy."""
    return tuple(Contender(n, cross_entropy, True, partial(train_libauc, n)) for n in names) if installed() else ()


def train_libauc(name: str, task: Contest, budget: Budget, seed: int) -> list[Checkpoint]:
    """One of the two, from scratch on balanced batches (what LibAUC's DualSampler draws), at each of its rates."""
    return [point for rate in RATES[name] for point in _train(name, task, rate, budget, seed)]


def _train(name: str, task: Contest, rate: float, budget: Budget, seed: int) -> list[Checkpoint]:
    torch.manual_seed(seed)
    model = task.make_model()
    loss, optimizer = loss_and_optimizer(name, model, rate, task.train.y)
    generator = torch.Generator().manual_seed(seed)
    found = []
    for step in range(1, budget.steps + 1):
        model.train()
        rows = draw(task.train.y, budget.batch, True, generator)
        probabilities = torch.sigmoid(squeezed(model(task.train.x[rows])))
        value: Tensor = loss(probabilities, task.train.y[rows].float(), index=rows)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if step * budget.looks // budget.steps > (step - 1) * budget.looks // budget.steps:
            state = copy.deepcopy(model.state_dict())
            # The rate is the one that AdamW would go on with; theirs are on other scales.
            found.append(Checkpoint(name, state, scores_of(model, task.validation.x), budget.rates[0]))
    return found


def loss_and_optimizer(name: str, model: nn.Module, rate: float, labels: Tensor, **knob: float) -> tuple[Any, Any]:
    """A loss of this package with the optimizer that its documentation pairs it with.

    Args:
        name: "LibAUC AUCM", "LibAUC AP" or "LibAUC pAUC".
        model: What the optimizer steps.
        rate: Of the optimizer.
        labels: Of all training rows.
        knob: The loss's own argument (``margin``, ``gamma``, ``beta``), where it is not the package's default.
    """
    losses, optimizers = (importlib.import_module(f"libauc.{module}") for module in ("losses", "optimizers"))
    if name == "LibAUC AUCM":
        loss = losses.AUCMLoss(**knob)
        return loss, optimizers.PESG(model.parameters(), loss_fn=loss, lr=rate, verbose=False)
    if name == "LibAUC AP":
        loss = losses.APLoss(data_len=len(labels), **knob)
        return loss, optimizers.SOAP(model.parameters(), lr=rate, mode="adam", verbose=False)
    loss = losses.pAUC_CVaR_Loss(data_len=len(labels), pos_len=int(labels.sum()), **knob)
    return loss, optimizers.SOPA(model.parameters(), lr=rate, mode="adam", verbose=False)
