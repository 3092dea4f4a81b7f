"""Several yes/no labels per example, judged by the mean over labels of average precision.

The transposed scores are ranked lists, one per label, so `AveragePrecision` and its engines apply as they are; labels
that are not annotated (−1) are masked. One network with one output per label is trained for all of them.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor import AveragePrecision, Engine, MetricLoss
from aimfor.direct import DirectEngine
from aimfor.refit import HeadFitter
from aimfor.refit.features import collect, last_linear

from ...protocol.protocol import Budget, Checkpoint, Contest, State
from ...protocol.training import scores_of

#: Scores ``(n, c)``, targets ``(n, c)`` in {1, 0, −1} and the rows of the training part they come from, to a scalar.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
#: How slowly the running average of the weights moves, by step.
AVERAGE = 0.95
#: What a refitted head tries: convex objectives only, label by label.
RIDGES, OBJECTIVES = (1.0, 0.1), ("all pairs", "top pairs", "balanced cross-entropy")


@dataclass(frozen=True)
class Way:
    """A way to train: how its loss is made for a training part's targets, and whether labels are drawn alike."""

    name: str
    make: Callable[[Tensor], Loss]
    balanced: bool = False


def lists(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One ranked list per label: scores ``(c, n)``, targets in {0, 1}, and what is annotated."""
    return scores.T, targets.T.clamp_min(0), (targets >= 0).T


def mean_ap(scores: Tensor, targets: Tensor) -> float:
    ranked, relevant, where = lists(scores, targets)
    return float(AveragePrecision().value(ranked, relevant, where=where))


def label_aps(scores: Tensor, targets: Tensor) -> list[float]:
    return [mean_ap(scores[:, [label]], targets[:, [label]]) for label in range(targets.shape[1])]


# ---------------------------------------------------------------- losses


def entropies(scores: Tensor, targets: Tensor, *, gamma: float = 0.0, weight: Tensor | None = None) -> Tensor:
    """Binary cross-entropy over what is annotated; focal with ``gamma``, positives weighted with ``weight``."""
    known = targets >= 0
    loss = functional.binary_cross_entropy_with_logits(scores, targets.clamp_min(0).to(scores.dtype), reduction="none")
    mass = known.to(scores.dtype)
    if gamma:
        loss = (1.0 - torch.exp(-loss)).pow(gamma) * loss
    if weight is not None:
        mass = torch.where(targets == 1, mass * weight, mass)
    return (loss * mass).sum() / mass.sum()


def hinge(scores: Tensor, targets: Tensor) -> Tensor:
    """``max(0, 1 − y s)`` with y = ±1: the structured hinge with the 0-1 loss."""
    known = targets >= 0
    return functional.relu(1.0 - (2 * targets - 1) * scores)[known].mean()


def plain(loss: Callable[..., Tensor], **options: float) -> Callable[[Tensor], Loss]:
    """A loss that needs neither the training part nor the rows."""
    return lambda _: lambda scores, targets, rows: loss(scores, targets, **options)


def weighted(train: Tensor) -> Loss:
    """Positives and negatives of each label count alike in the training part."""
    ratio = (train == 0).sum(0) / (train == 1).sum(0).clamp_min(1)
    return lambda scores, targets, rows: entropies(scores, targets, weight=ratio.to(scores))


def ranked(engine: Engine) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean over labels of average precision, by an engine."""
    loss_fn = MetricLoss(AveragePrecision(), engine)

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        by_label, relevant, where = lists(scores, targets)
        value: Tensor = loss_fn(by_label, relevant, where=where)
        return value

    return loss


def direct(epsilon: float | str = "auto", sign: int | None = None, mode: str = "direct") -> Callable[[Tensor], Loss]:
    return plain(ranked(DirectEngine(epsilon, sign, mode)))


def libauc_ap(train: Tensor) -> Loss:
    """LibAUC's ``APLoss`` on raw scores, one per label, with its own defaults and everyone's optimizer.

    Labels without a positive in the batch are left out: it refuses them.
    """
    module: Any = importlib.import_module("libauc.losses")
    terms = [module.APLoss(len(train), device=torch.device("cpu")) for _ in range(train.shape[1])]

    def loss(scores: Tensor, targets: Tensor, rows: Tensor) -> Tensor:
        total, count = scores.sum() * 0.0, 0
        for label, term in enumerate(terms):
            known = targets[:, label] >= 0
            if bool((targets[known, label] == 1).any()):
                total = total + term(scores[known, label], targets[known, label], rows[known])
                count += 1
        return total / max(count, 1)

    return loss


# ---------------------------------------------------------------- training


def draw(targets: Tensor, size: int, balanced: bool, generator: torch.Generator) -> Tensor:
    """Rows of one batch, with replacement; when ``balanced``, every label and "none of them" equally often."""
    if not balanced:
        return torch.randint(len(targets), (size,), generator=generator)
    groups = torch.cat((targets == 1, (targets != 1).all(1, keepdim=True)), dim=1).double()
    chance = (groups / groups.sum(0).clamp_min(1)).sum(1)
    return torch.multinomial(chance, size, replacement=True, generator=generator)


def shaken(x: Tensor, generator: torch.Generator, reach: int = 3) -> Tensor:
    """Images mirrored at random and shifted by up to ``reach`` pixels, the edge repeated."""
    n, _, height, width = x.shape
    mirrored = torch.rand(n, generator=generator) < 0.5
    x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    x = functional.pad(x, (reach,) * 4, mode="replicate")
    down, right = torch.randint(2 * reach + 1, (2, n), generator=generator)
    row = (torch.arange(height) + down[:, None])[:, :, None]
    column = (torch.arange(width) + right[:, None])[:, None, :]
    return x[torch.arange(n)[:, None, None], :, row, column].permute(0, 3, 1, 2)


def train(
    task: Contest, way: Way, budget: Budget, seed: int, *, rate: float, start: Checkpoint | None = None
) -> list[Checkpoint]:
    """``budget.steps`` from the task's own start, or ``budget.extra`` on larger batches from a checkpoint.

    Each look at validation data gives two checkpoints: the weights, and their running average. The same seed gives
    every way the same start, batches (unless balanced) and shifts.
    """
    torch.manual_seed(seed)
    model = task.make_model()
    if start is not None:
        model.load_state_dict(start.state)
    steps, batch = (budget.steps, budget.batch) if start is None else (budget.extra, budget.large)
    generator = torch.Generator().manual_seed(seed if start is None else seed + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=budget.decay, fused=True)
    loss_fn, x, y = way.make(task.train.y), task.train.x, task.train.y
    average: State = copy.deepcopy(model.state_dict())
    found: list[Checkpoint] = []
    for step in range(1, steps + 1):
        model.train()
        rows = draw(y, batch, way.balanced, generator)
        loss = loss_fn(model(shaken(x[rows], generator)), y[rows], rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, value in model.state_dict().items():
            average[name].lerp_(value, 1 - AVERAGE) if value.is_floating_point() else average[name].copy_(value)
        if step * budget.looks // steps > (step - 1) * budget.looks // steps:
            states = {way.name: copy.deepcopy(model.state_dict()), f"{way.name}, averaged": copy.deepcopy(average)}
            found += [checkpoint(task, name, state, rate) for name, state in states.items()]
    return found


def checkpoint(task: Contest, name: str, state: State, rate: float) -> Checkpoint:
    return Checkpoint(name, state, scores_with(task, state, task.validation.x), rate)


def scores_with(task: Contest, state: State, x: Tensor) -> Tensor:
    model: nn.Module = task.make_model()
    model.load_state_dict(state)
    return scores_of(model, x)


def best(task: Contest, points: Sequence[Checkpoint]) -> tuple[Checkpoint, float]:
    """The checkpoint with the highest mean average precision on validation data (the first of equals)."""
    values = [mean_ap(point.validation, task.validation.y) for point in points]
    at = max(range(len(values)), key=lambda i: (values[i], -i))
    return points[at], values[at]


def refit(task: Contest, point: Checkpoint) -> Checkpoint:
    """`HeadFitter` for average precision, label by label, on a checkpoint's features."""
    model: nn.Module = task.make_model()
    model.load_state_dict(point.state)
    model.eval()
    with torch.no_grad():
        name = last_linear(model, task.train.x[:8])
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    features, judged = (collect(model, [(part.x, part.y)], name)[0] for part in (task.train, task.validation))
    head = HeadFitter("ap", ridges=RIDGES, iterations=30, objectives=OBJECTIVES)
    for label in range(layer.out_features):
        original = nn.Linear(layer.in_features, 1)
        original.load_state_dict({"weight": layer.weight[[label]], "bias": layer.bias[[label]]})
        known, seen = task.train.y[:, label] >= 0, task.validation.y[:, label] >= 0
        judge = (judged[seen], task.validation.y[seen, label])
        fit = head.fit(features[known], task.train.y[known, label], validation=judge, original=original)
        with torch.no_grad():
            layer.weight[label] = fit.layer.weight[0]
            layer.bias[label] = fit.layer.bias[0]
    return checkpoint(task, f"head on {point.name}", model.state_dict(), point.rate)
