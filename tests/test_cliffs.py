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
#: Numbers written for each of n log₂ n scores.
MOST = 60


class Written(TorchDispatchMode):
    """Counts the numbers in what operations return, views apart."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
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


def written(name: str, lie: str, n: int, engine: aimfor.Engine | None = None) -> float:
    scores, targets = problem(name, lie, n)
    loss_fn = aimfor.MetricLoss(name) if engine is None else aimfor.MetricLoss(name, engine)
    loss_fn(scores, targets)  # what is found once for all calls
    with Written() as mode:
        loss = loss_fn(scores, targets)
        (gradient,) = torch.autograd.grad(loss, scores)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    return mode.numbers / (scores.numel() * math.log2(n))


@pytest.mark.parametrize("name", NAMES)
def test_no_scores_cost_a_default_more_than_others(name: str) -> None:
    n = 4096
    costs = {lie: written(name, lie, n) for lie in LIE}
    assert max(costs.values()) <= MOST, costs
    assert max(costs.values()) <= 1.5 * costs["ordinary"], costs


@pytest.mark.parametrize("name", ["ap", "map@r", "ndcg", "multilabel_ap", "recall@precision=0.9"])
@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 1.0, 1e3])
def test_no_temperature_costs_more_than_others(name: str, temperature: float) -> None:
    cost = written(name, "ordinary", 4096, aimfor.SmoothEngine(temperature))
    assert cost <= 1.2 * written(name, "ordinary", 4096, aimfor.SmoothEngine())


@pytest.mark.parametrize("name", NAMES)
def test_cost_grows_as_a_sort_does(name: str) -> None:
    """In n log n: twice as much for what is found again instead of being kept. All pairs would be 12 times as much."""
    costs = [written(name, "one of 200", n) for n in (4096, 65536)]
    assert costs[1] <= 2.0 * costs[0], costs
