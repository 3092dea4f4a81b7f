"""No input of n scores costs more than c n log n: time does not depend on luck.

Counted are the numbers that a step writes, by a mode that sees every operation: seconds depend on the machine.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import aimfor
from aimfor.metrics import METRICS, metric_from_name

NAMES = [entry.example for entry in METRICS]
#: How scores may lie. Each is made of standard normal ones.
LIE = {
    "ordinary": lambda x: x,
    "one of 200": lambda x: x.index_fill(0, torch.tensor([3]), 200.0),
    "deviation 6": lambda x: 6.0 * x,
    "deviation 1e6": lambda x: 1e6 * x,
    "deviation 1e-6": lambda x: 1e-6 * x,
    "two clusters": lambda x: torch.where(x > 0, 1e30 + x, x),
    "1e31 beside 1e-38": lambda x: torch.where(x > 0, 1e31, 1e-38) * x.sign(),  # beyond, scores are refused
    "denormal": lambda x: 1e-41 * x,
    "ties": lambda x: x.round(),
    "all equal": torch.zeros_like,
    "ascending": lambda x: x.sort(0).values,
    "a step of 40": lambda x: 40.0 * torch.arange(x.numel()).view(x.shape),
}
#: Those that lie farther apart than 4 n temperatures, or in more than n/32 cells as wide as one: by one sort.
FAR_APART = ("deviation 6", "deviation 1e6", "two clusters", "1e31 beside 1e-38", "a step of 40")
#: Numbers written for each of n log₂ n scores.
MOST = 60
#: Operations of one step of 128 scores, views apart, and of the losses that are dearest. Cross-entropy has 6.
OPERATIONS = 75
DEARER = {"hit@1": 107, "eer": 89}
#: Those of the checks among them, which read values.
CHECKS = 9
#: Those that 1,024 scores have more, where ranks are summed on cells.
CELLS = 85


class Written(TorchDispatchMode):
    """Counts the operations, views apart, and the numbers in what they return."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.operations += 1
            self.numbers += sum(leaf.numel() for leaf in tree_leaves(found) if isinstance(leaf, Tensor))
        return found


def problem(name: str, lie: str, n: int) -> tuple[Tensor, Tensor]:
    layout = metric_from_name(name).layout
    generator = torch.Generator().manual_seed(0)
    shape = (n, 4) if layout in ("multiclass", "multilabel") else (n,)
    targets = (torch.rand(shape, generator=generator) < 0.3).long()
    if layout == "multiclass":
        targets = torch.arange(n) % 4
    return LIE[lie](torch.randn(shape, generator=generator)).requires_grad_(), targets


def step(name: str, lie: str, n: int, engine: aimfor.Engine | None = None, validate: bool = True) -> Written:
    scores, targets = problem(name, lie, n)
    loss_fn = aimfor.MetricLoss(name, engine, validate=validate)
    loss_fn(scores, targets)  # what is found once for all calls
    with Written() as mode:
        loss = loss_fn(scores, targets)
        (gradient,) = torch.autograd.grad(loss, scores)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    return mode


def written(name: str, lie: str, n: int, engine: aimfor.Engine | None = None) -> float:
    return step(name, lie, n, engine).numbers / (problem(name, lie, n)[0].numel() * math.log2(n))


@pytest.mark.parametrize("name", NAMES)
def test_no_scores_cost_a_default_more_than_others(name: str) -> None:
    n = 4096
    costs = {lie: written(name, lie, n) for lie in LIE}
    assert max(costs.values()) <= MOST, costs
    near = [cost for lie, cost in costs.items() if lie not in FAR_APART]
    assert max(near) <= 1.5 * costs["ordinary"], costs
    assert max(costs.values()) <= 6 * costs["ordinary"], costs


@pytest.mark.parametrize("name", ["ap", "map@r", "ndcg", "multilabel_ap", "recall@precision=0.9"])
@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 1.0, 1e3])
def test_no_temperature_costs_more_than_others(name: str, temperature: float) -> None:
    cost = written(name, "ordinary", 4096, aimfor.SmoothEngine(temperature))
    assert cost <= (1.2 if temperature >= 1 else 6) * written(name, "ordinary", 4096, aimfor.SmoothEngine())


@pytest.mark.parametrize("name", NAMES)
def test_cost_grows_as_a_sort_does(name: str) -> None:
    """In n log n: twice as much for what is found again instead of being kept. All pairs would be 12 times as much."""
    costs = [written(name, "one of 200", n) for n in (4096, 65536)]
    assert costs[1] <= 2.0 * costs[0], costs


@pytest.mark.parametrize("name", NAMES)
def test_small_batches_take_few_operations(name: str) -> None:
    few, many = step(name, "ordinary", 128).operations, step(name, "ordinary", 1024).operations
    assert few <= DEARER.get(name, OPERATIONS)
    assert many <= few + CELLS
    assert few - step(name, "ordinary", 128, validate=False).operations <= CHECKS


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e38])
def test_scores_beyond_all_bounds_are_refused(name: str, value: float) -> None:
    scores, targets = problem(name, "ordinary", 128)
    scores = scores.detach().clone()
    scores[(5,) + (0,) * (scores.ndim - 1)] = value
    with pytest.raises(aimfor.InputError, match="scores"):
        aimfor.MetricLoss(name)(scores, targets)


@pytest.mark.parametrize("name", ["ap", "map@r", "ndcg", "precision@1"])
@pytest.mark.parametrize("lie", [lie for lie in LIE if lie != "1e31 beside 1e-38"])
def test_the_lowest_temperature_is_finite_for_any_scores(name: str, lie: str) -> None:
    assert written(name, lie, 1024, aimfor.SmoothEngine(1e-30)) <= MOST
