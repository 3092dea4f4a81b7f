"""`map_regret`: predict costs, then decide by them; judged by what the decisions cost. Ten independent draws."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.lp import BlackBox, Oracle, PerturbedFenchelYoung, SPOPlus

from ..experiment import Cell, Experiment, Options, Result
from ..report.pages import report_of
from .board import table_lines
from .contest import contest
from .losses import Loss, Method
from .task import Rows, Task, best_of

FEATURES, DEGREE, GRID, SECTORS, EACH = 5, 6, 5, 5, 10
#: Of PyEPO's knapsack: what 32 items weigh in two ways, and how much of each is allowed.
WEIGHTS, CAPACITY = np.random.default_rng(0).integers(3, 8, size=(32, 2)).tolist(), 20
DRAWS, PARTS = 10, {"train": 200, "choose": 200, "judge": 1000}
Solver = Callable[[Tensor], Tensor]


def shortest_path(costs: Tensor) -> Tensor:
    """Steps right, then steps down of a grid, ``(b, v)``: 1 on the cheapest way from corner to corner."""
    n, rights = GRID, GRID * (GRID - 1)
    right = {i: k for k, i in enumerate(i for i in range(n * n) if (i + 1) % n)}  # the step that leaves node i
    best: list[Tensor] = []
    by_right: list[Tensor] = []
    for i in range(n * n):
        never = costs.new_full((len(costs),), math.inf)
        left = best[i - 1] + costs[:, right[i - 1]] if i % n else never
        above = best[i - n] + costs[:, rights + i - n] if i >= n else never
        best.append(torch.minimum(left, above) if i else torch.zeros_like(never))
        by_right.append(left <= above)
    came, row = torch.stack(by_right, 1), torch.arange(len(costs))
    steps = torch.tensor([right.get(i, 0) for i in range(n * n)])
    node, steps_taken = torch.full_like(row, n * n - 1), torch.zeros_like(costs)
    for _ in range(2 * n - 2):
        across = came[row, node]
        before = torch.where(across, node - 1, node - n)
        steps_taken[row, torch.where(across, steps[before], rights + before)] = 1.0
        node = before
    return steps_taken


def portfolio(costs: Tensor) -> Tensor:
    """Shares of assets that sum to 1, at most 0.4 a sector: the best of each of the best three sectors."""
    least, asset = costs.view(len(costs), SECTORS, EACH).min(2)
    sectors = least.argsort(1)[:, :3]
    bought = torch.zeros_like(costs)
    shares = torch.tensor([0.4, 0.4, 0.2], dtype=costs.dtype).expand(len(costs), 3)
    return bought.scatter_(1, sectors * EACH + asset.gather(1, sectors), shares)


def knapsack(costs: Tensor) -> Tensor:
    """Whether each item is taken: the least sum of costs within both capacities, item by item over what is left."""
    best = costs.new_zeros(len(costs), CAPACITY + 1, CAPACITY + 1)
    taken = []
    for cost, (first, second) in zip(costs.unbind(1), WEIGHTS, strict=True):
        better = torch.zeros_like(best, dtype=torch.bool)
        better[:, first:, second:] = (lower := best[:, :-first, :-second] + cost[:, None, None]) < best[
            :, first:, second:
        ]
        best = best.clone()
        best[:, first:, second:] = torch.minimum(lower, best[:, first:, second:])
        taken.append(better)
    chosen, row = torch.zeros_like(costs), torch.arange(len(costs))
    left = torch.full((len(costs), 2), CAPACITY)
    for item in reversed(range(len(WEIGHTS))):
        takes = taken[item][row, left[:, 0], left[:, 1]]
        chosen[:, item] = takes.to(costs.dtype)
        left = left - takes[:, None] * torch.tensor(WEIGHTS[item])
    return chosen


#: By name: how many costs, their sign, and the solver.
PROBLEMS: dict[str, tuple[int, float, Solver]] = {
    "shortest path": (2 * GRID * (GRID - 1), 1.0, shortest_path),
    "portfolio": (SECTORS * EACH, -1.0, portfolio),
    "knapsack": (len(WEIGHTS), -1.0, knapsack),
}


def draw(problem: str, seed: int) -> dict[str, Rows]:
    """PyEPO's polynomial costs with multiplicative noise of a half, beside the decisions that were best."""
    size, sign, solve = PROBLEMS[problem]
    random, rows = np.random.default_rng(seed), sum(PARTS.values())
    x = random.normal(size=(rows, FEATURES))
    mixing = random.binomial(1, 0.5, size=(FEATURES, size))
    smooth = sign * ((x @ mixing / math.sqrt(FEATURES) + 3) ** DEGREE + 1) / 3.5**DEGREE
    costs = torch.from_numpy(smooth * random.uniform(0.5, 1.5, size=smooth.shape)).float()
    targets = torch.cat((costs, solve(costs)), 1).split(list(PARTS.values()))
    features = torch.from_numpy(x).float().split(list(PARTS.values()))
    return {name: Rows((of_x,), of_y) for name, of_x, of_y in zip(PARTS, features, targets, strict=True)}


def minus_regret(solve: Solver, predicted: Tensor, y: Tensor) -> float:
    """What deciding by predicted costs loses, over the optimal costs; a higher value is better."""
    costs, best = y.double().chunk(2, 1)
    least = (costs * best).sum()
    return float((least - (costs * solve(predicted).double()).sum()) / least.abs())


def _error(norm: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Solver, float], Loss]:
    return lambda solve, knob: lambda predicted, y, done: norm(predicted, y.chunk(2, 1)[0])


def _decision(make: Callable[[Oracle, float], Any]) -> Callable[[Solver, float], Loss]:
    def made(solve: Solver, knob: float) -> Loss:
        loss = make(Oracle(solve, batched=True), knob)
        return lambda predicted, y, done: loss(predicted, *y.chunk(2, 1))

    return made


def _black_box(solve: Solver, knob: float) -> Loss:
    decide = Oracle(solve, BlackBox(knob), batched=True)
    return lambda predicted, y, done: (y.chunk(2, 1)[0] * decide(predicted)).sum(1).mean()


def _then(solve: Solver, knob: float) -> Loss:
    first, after = _error(functional.mse_loss)(solve, 0.0), SPO(solve, 0.0)
    return lambda predicted, y, done: (first if done < knob else after)(predicted, y, done)


SPO = _decision(lambda oracle, knob: SPOPlus(oracle))
LOSSES: dict[str, tuple[Callable[[Solver, float], Loss], tuple[float, ...]]] = {
    "metric": (SPO, ()),
    "squared error": (_error(functional.mse_loss), ()),
    "absolute error": (_error(functional.l1_loss), ()),
    "Fenchel–Young": (_decision(lambda oracle, knob: PerturbedFenchelYoung(oracle, 10, knob)), (0.3, 1.0, 3.0)),
    "black box": (_black_box, (3.0, 10.0, 30.0)),
    "squared error, then metric": (_then, (0.25, 0.5, 0.75)),
}


def method(name: str, solve: Solver) -> Method:
    make, knobs = LOSSES[name]
    return Method(name, lambda shares, knob, metric: make(solve, knob), knobs)


def load(name: str, seed: int) -> Task:
    size, _, solve = PROBLEMS[name]
    parts = draw(name, seed)
    train = parts.pop("train")
    return Task(
        train=train,
        parts=parts,
        network=functools.partial(nn.Linear, FEATURES, size),
        evaluate=lambda checkpoints: {"regret": best_of(checkpoints, parts, functools.partial(minus_regret, solve))},
        metrics=("regret",),
        shares=torch.ones(1),
        seed=seed,
        steps=200,
        batch=32,
        rates=(1e-3, 1e-1),
    )


def cells(options: Options) -> list[Cell]:
    return [{"data": name, "draws": DRAWS, "method": loss, "metric": "all"} for loss in LOSSES for name in PROBLEMS]


def run(cell: Cell, options: Options) -> Result:
    solve = PROBLEMS[cell["data"]][2]
    load_draw = functools.partial(load, cell["data"])
    return contest(load_draw, method(cell["method"], solve), cell["metric"], cell["draws"])


TITLE = "The map: predict, then optimise"
EXPERIMENT = Experiment("map_regret", TITLE, "aimfor", cells, run, report_of(TITLE, table_lines))
