"""Training under the protocol: from scratch, on from a checkpoint, and many small models side by side."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from .protocol import Budget, Checkpoint, Contender, Contest


def scores_of(model: nn.Module, x: Tensor, batch: int = 2048) -> Tensor:
    """Scores in eval mode, ``(n,)`` for one output and ``(n, c)`` for several."""
    model.eval()
    with torch.no_grad():
        return torch.cat([squeezed(model(part)) for part in x.split(batch)])


def squeezed(scores: Tensor) -> Tensor:
    return scores.squeeze(1) if scores.ndim == 2 and scores.shape[1] == 1 else scores


def draw(targets: Tensor, size: int, balanced: bool, generator: torch.Generator) -> Tensor:
    """Positions of one batch, drawn with replacement; class by class alike when ``balanced``."""
    if not balanced:
        return torch.randint(len(targets), (min(size, len(targets)),), generator=generator)
    present = targets.unique()
    picked = []
    for number, label in enumerate(present):
        members = (targets == label).nonzero().squeeze(1)
        count = size // len(present) + (number < size % len(present))
        picked.append(members[torch.randint(len(members), (count,), generator=generator)])
    return torch.cat(picked)


def by_epochs(
    model: nn.Module,
    x: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    end_epoch: Callable[[], None],
    seed: int,
    *,
    epochs: int,
    batch: int,
    rate: float,
) -> nn.Module:
    """Adam over shuffled batches, for objectives with a state: ``loss`` takes scores and the rows they belong to."""
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=rate), torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(batch):
            optimizer.zero_grad()
            loss(squeezed(model(x[rows])), rows).backward()
            optimizer.step()
        end_epoch()
    return model


def train(task: Contest, method: Contender, rate: float, budget: Budget, seed: int) -> list[Checkpoint]:
    """Trains from scratch; the same seed gives every method the same starting weights."""
    torch.manual_seed(seed)
    model = task.make_model()
    return _run(task, model, method, rate, budget.steps, budget.batch, budget, seed)


def train_all(task: Contest, methods: Sequence[Contender], budget: Budget, seed: int) -> dict[str, list[Checkpoint]]:
    """Every method at every rate. Small perceptrons are trained side by side in one stacked model, which is the same
    computation (tested) for a fraction of the overhead."""
    layers = [module for module in task.make_model().modules() if not list(module.children())]
    small = all(isinstance(layer, nn.Linear | nn.ReLU) for layer in layers)
    found = train_stacked(task, [m for m in methods if m.trainer is None], budget, seed) if small else {}
    for method in methods:
        if method.trainer is not None:
            found[method.name] = method.trainer(task, budget, seed)
        elif not small:
            found[method.name] = [p for rate in budget.rates for p in train(task, method, rate, budget, seed)]
    return found


def train_stacked(
    task: Contest, methods: Sequence[Contender], budget: Budget, seed: int
) -> dict[str, list[Checkpoint]]:
    """As calling `train` for every method and rate, with all models stacked along a leading dimension."""
    runs = [(method, rate) for method in methods for rate in budget.rates]
    torch.manual_seed(seed)
    model = task.make_model()
    names = [name for name, _ in model.named_parameters()]
    stacked = {n: p.detach().repeat(len(runs), *[1] * p.ndim).requires_grad_() for n, p in model.named_parameters()}
    forward = torch.func.vmap(lambda parameters, x: torch.func.functional_call(model, parameters, (x,)))
    optimizer = _StackedAdamW([stacked[name] for name in names], [rate for _, rate in runs], budget.decay)
    generators = [torch.Generator().manual_seed(seed) for _ in runs]
    shares, y = task.class_shares(), task.train.y
    found: dict[str, list[Checkpoint]] = {method.name: [] for method in methods}
    for step in range(1, budget.steps + 1):
        rows = [draw(y, budget.batch, m.balanced, g) for (m, _), g in zip(runs, generators, strict=True)]
        scores = forward(stacked, torch.stack([task.train.x[r] for r in rows]))
        losses = [m.loss(squeezed(s), y[r], shares) for (m, _), s, r in zip(runs, scores, rows, strict=True)]
        optimizer.step(torch.autograd.grad(torch.stack(losses).sum(), optimizer.parameters))
        if _look(step, budget.steps, budget.looks):
            with torch.no_grad():
                every = torch.stack([task.validation.x] * len(runs))
                judged = forward(stacked, every)
            for number, (method, rate) in enumerate(runs):
                state = {name: stacked[name][number].detach().clone() for name in names}
                found[method.name].append(Checkpoint(method.name, state, squeezed(judged[number]), rate))
    # Grouped by rate, as separate runs would be.
    return {name: sorted(points, key=lambda p: budget.rates.index(p.rate)) for name, points in found.items()}


class _StackedAdamW:
    """AdamW (torch's defaults) with one learning rate per model of a stack."""

    def __init__(self, parameters: list[Tensor], rates: list[float], decay: float) -> None:
        self.parameters, self.decay, self.count = parameters, decay, 0
        self.rates = [torch.tensor(rates).reshape(-1, *[1] * (p.ndim - 1)) for p in parameters]
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]

    def step(self, gradients: Sequence[Tensor]) -> None:
        self.count += 1
        grow = 1 - 0.9**self.count, 1 - 0.999**self.count
        with torch.no_grad():
            every = zip(self.parameters, gradients, self.rates, self.first, self.second, strict=True)
            for parameter, gradient, rate, first, second in every:
                parameter.mul_(1 - rate * self.decay)
                first.lerp_(gradient, 0.1)
                second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                parameter.sub_(rate * (first / grow[0]) / ((second / grow[1]).sqrt() + 1e-8))


def fine_tune(
    task: Contest, start: Checkpoint, method: Contender, rate: float, budget: Budget, seed: int
) -> list[Checkpoint]:
    """``budget.extra`` steps on larger batches from a checkpoint, with any loss."""
    return _run(task, restored(task, start), method, rate, budget.extra, budget.large, budget, seed + 1)


def averaged(task: Contest, start: Checkpoint, method: Contender, rate: float, budget: Budget, seed: int) -> Checkpoint:
    """As `fine_tune`, ending at the mean of the weights after each of its steps (Izmailov 2018)."""
    model = restored(task, start)
    steps = _steps(task, model, method, rate, budget.extra, budget.large, budget.decay, seed + 1)
    final = mean_of_weights(model, steps)
    return Checkpoint(method.name, final.state_dict(), scores_of(final, task.validation.x), rate)


def mean_of_weights(model: nn.Module, steps: Iterable[object]) -> nn.Module:
    """A copy of the model with the mean of its weights and buffers after each of the steps.

    Args:
        model: What the steps train, in place.
        steps: Each item is asked for, and then the model is looked at; what the item is does not matter.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> mean = mean_of_weights(model, (model.weight.data.fill_(value) for value in (1.0, 2.0, 6.0)))
        >>> mean.weight.item(), model.weight.item()
        (3.0, 6.0)

    References:
        Izmailov et al., Averaging weights leads to wider optima and better generalization, 2018.
    """
    mean = AveragedModel(model, use_buffers=True)
    for _ in steps:
        mean.update_parameters(model)
    return mean.module


def restored(task: Contest, point: Checkpoint) -> nn.Module:
    """The model of a checkpoint."""
    model = task.make_model()
    model.load_state_dict(point.state)
    return model


def _run(
    task: Contest, model: nn.Module, method: Contender, rate: float, steps: int, batch: int, budget: Budget, seed: int
) -> list[Checkpoint]:
    found = []
    for step in _steps(task, model, method, rate, steps, batch, budget.decay, seed):
        if _look(step, steps, budget.looks):
            state = copy.deepcopy(model.state_dict())
            found.append(Checkpoint(method.name, state, scores_of(model, task.validation.x), rate))
    return found


def _steps(
    task: Contest, model: nn.Module, method: Contender, rate: float, steps: int, batch: int, decay: float, seed: int
) -> Iterator[int]:
    """Trains the model; yields after each step its number, from 1."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay, fused=True)
    shares = task.class_shares()
    for step in range(1, steps + 1):
        model.train()
        rows = draw(task.train.y, batch, method.balanced, generator)
        loss = method.loss(squeezed(model(task.train.x[rows])), task.train.y[rows], shares)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield step


def _look(step: int, steps: int, looks: int) -> bool:
    return step * looks // steps > (step - 1) * looks // steps
