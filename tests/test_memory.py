"""Training does not grow: after the first steps a loss holds as much as after many."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator

import pytest
import torch

import aimfor
from aimfor.engine import Engine
from aimfor.metrics import ENGINES, METRICS, metric_from_name
from draws import LONG, draws
from samples import sample

STEPS = draws(40, 20_000)
#: A leak of 200 bytes a step is four megabytes; less is how an allocator breathes.
GROWTH = 4 << 20
PAIRS: list[tuple[str, type[Engine] | None]] = [
    (entry.example, engine)
    for entry in METRICS
    for engine in (None, *ENGINES)
    if engine is None or (engine.default_constructible and engine().refuses(metric_from_name(entry.example)) is None)
]


def train(loss_fn: aimfor.MetricLoss, layout: str, steps: int) -> None:
    """Batches of several sizes, as the last one of an epoch has another."""
    batches = [sample(layout, seed, n=18 + 3 * (seed % 3), dtype=torch.float32) for seed in range(6)]
    for step in range(steps):
        s = batches[step % len(batches)]
        loss_fn.detailed(s.scores.clone().requires_grad_(), s.targets).loss.backward()
    loss_fn.end_epoch()


@pytest.fixture(autouse=True, scope="module")
def _only_new_objects() -> Iterator[None]:
    """What was imported before is not looked through again, which would take longer than the steps."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def held() -> tuple[int, int]:
    """Tensors that live, and their numbers."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter)]
    return len(tensors), sum(one.numel() for one in tensors)


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
@pytest.mark.parametrize(("name", "engine"), PAIRS, ids=lambda v: v if isinstance(v, str) else v and v.name)
def test_memory_is_flat(name: str, engine: type[Engine] | None) -> None:
    layout = metric_from_name(name).layout
    loss_fn = aimfor.MetricLoss(name, None if engine is None else engine())
    train(loss_fn, layout, STEPS // 10 + 20)  # banks, caches and multipliers have their final shapes
    before, peak = held(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    train(loss_fn, layout, STEPS)
    assert held() == before
    if LONG:
        assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) < GROWTH
