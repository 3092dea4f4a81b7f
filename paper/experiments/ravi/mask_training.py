"""Training of mask networks under the protocol: whole epochs, a look at validation data after each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from aimfor import FBeta, LagrangianEngine, MetricLoss
from aimfor.regularized import Regularized

from ...data.mask_data import IGNORED, MaskPart, MaskTask
from ...protocol.protocol import Contender, State
from .as_printed import AS_PRINTED, PLAIN
from .mask_judges import Judge, Judged


@dataclass(frozen=True)
class MaskBudget:
    """What every method may spend.

    Attributes:
        epochs: From scratch; the rate falls linearly to zero.
        extra: Further epochs from the chosen checkpoint: our metric fine-tuning, and the rival's own loss again.
        batch: Images per step from scratch.
        large: Images per step of the further epochs.
        rates: Learning rates, tried by every method.
        extra_rates: Rates of the further epochs, as shares of the checkpoint's.
    """

    epochs: int
    extra: int
    batch: int = 8
    large: int = 16
    rates: tuple[float, ...] = (1e-3, 5e-3)
    extra_rates: tuple[float, ...] = (0.1, 0.3)
    decay: float = 1e-4


@dataclass(frozen=True)
class Look:
    """A network after one epoch, judged on validation data.

    Attributes:
        judged: By metric: its value at the best decision rule found on validation data, and that rule.
        facts: Of a regularized run: F₁ of the size node on training data, the bound on it, and projections so far.
    """

    name: str
    rate: float
    epoch: int
    state: State
    judged: dict[str, Judged]
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Regularizer:
    """The papers' ``α · F₁(size)``; ``size`` names the rule of the task, ``mode`` says when projections are made.

    Mode `PLAIN` is the papers' own: no augmented terms, τ and ε by the network's optimizer, separate dual steps.
    """

    alpha: float
    size: str
    mode: str = "ravi"


def mask_scores(model: nn.Module, part: MaskPart) -> tuple[Tensor, Tensor]:
    """Scores in eval mode: ``(n, c, h, w)`` of pixels, at the size the network gives, and ``(n,)`` of the size."""
    model.eval()
    with torch.no_grad():
        pixels, sizes = zip(*(model(x) for x in part.x.split(16)), strict=True)
    return torch.cat(pixels), torch.cat(sizes)


def known(scores: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Labelled pixels alone: ``(b, c, h, w)`` scores as ``(n, c)``, or ``(n,)`` when c is 1, and their class ids."""
    inside = masks != IGNORED
    flat = scores.movedim(1, -1)[inside]
    return flat.squeeze(1) if flat.shape[1] == 1 else flat, masks[inside].long()


def flipped(x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Left and right exchanged in half of the images."""
    turned = torch.rand(len(x), generator=generator) < 0.5
    x = torch.where(turned[:, None, None, None], x.flip(-1), x)
    return x, torch.where(turned[:, None, None], y.flip(-1), y)


def train(
    task: MaskTask,
    judges: dict[str, Judge],
    method: Contender,
    rate: float,
    budget: MaskBudget,
    seed: int,
    *,
    start: Look | None = None,
    regularizer: Regularizer | None = None,
) -> list[Look]:
    """From scratch for ``budget.epochs``, or from a look for ``budget.extra``; one look per epoch.

    The same seed gives every method the same starting weights, order of images and flips. Further epochs are looked
    at twice: with the last weights, and with the mean of the weights of all their steps.
    """
    torch.manual_seed(seed)
    model: nn.Module = task.make_model().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if start is not None:
        model.load_state_dict(start.state)
    epochs, batch = (budget.epochs, budget.batch) if start is None else (budget.extra, budget.large)
    mean = None if start is None else AveragedModel(model, use_buffers=True)
    generator = torch.Generator().manual_seed(seed if start is None else seed + 1)
    objective = _Objective(task, method, regularizer)
    groups = [{"params": list(model.parameters())}, *objective.groups(rate)]
    optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=budget.decay, fused=True)
    n, batch = len(task.train), min(batch, len(task.train))
    total = epochs * (n // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / total)
    found = []
    for epoch in range(1, epochs + 1):
        model.train()
        for index in torch.randperm(n, generator=generator)[: n - n % batch].split(batch):
            x, y = flipped(task.train.x[index], task.train.y[index], generator)
            scores, size = model(x)
            loss = objective(scores, size, y, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if mean is not None:
                mean.update_parameters(model)
        facts = objective.end_epoch()
        for name, net in {method.name: model, f"{method.name}, averaged": mean and mean.module}.items():
            if net is not None:
                judged = judged_on(net, task.validation, judges)
                found.append(Look(name, rate, epoch, copy.deepcopy(net.state_dict()), judged, facts))
    return found


def judged_on(model: nn.Module, part: MaskPart, judges: dict[str, Judge]) -> dict[str, Judged]:
    """Every metric at the best rule for this part, at the size the network gives."""
    scores, _ = mask_scores(model, part)
    return {name: judge.tune(scores, part.y) for name, judge in judges.items()}


class _Objective:
    """A method's loss of the labelled pixels, with the papers' regularizer beside it when there is one."""

    def __init__(self, task: MaskTask, method: Contender, regularizer: Regularizer | None) -> None:
        shares = task.class_shares()
        self.erm: Callable[[Tensor, Tensor], Tensor] = lambda scores, y: method.loss(*known(scores, y), shares)
        self.regularized: Regularized | None = None
        if regularizer is not None:
            self.big = task.sizes[regularizer.size](task.train.y)
            plain = regularizer.mode == PLAIN
            self.engine = LagrangianEngine(self.big, **(AS_PRINTED if plain else {"mode": regularizer.mode}))
            self.regularized = Regularized(self.erm, MetricLoss(FBeta(1.0), self.engine), regularizer.alpha)

    def groups(self, rate: float) -> list[dict[str, Any]]:
        """τ and ε, where the network's optimizer steps them."""
        stepped = self.regularized is not None and self.engine.primal == "optimizer"
        return [self.engine.param_group(rate)] if stepped else []

    def __call__(self, scores: Tensor, size: Tensor, y: Tensor, index: Tensor) -> Tensor:
        if self.regularized is None:
            return self.erm(scores, y)
        total: Tensor = self.regularized(scores, y, size, self.big[index], index=index)
        return total

    def end_epoch(self) -> dict[str, float]:
        if self.regularized is None:
            return {}
        self.regularized.end_epoch()
        return {key: float(self.engine.history[key][-1]) for key in ("f_beta", "bound", "projections")}
