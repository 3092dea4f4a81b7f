"""torch.func on every pair: grad, jacrev and vmap equal the plain loop; the meta device is refused by a sentence."""

from __future__ import annotations

import pytest
import torch

import aimfor
from aimfor.engine import Engine
from aimfor.metrics import ENGINES, METRICS, metric_from_name
from samples import sample

PAIRS = [
    (entry.example, engine)
    for entry in METRICS
    for engine in ENGINES
    if engine.default_constructible and engine().refuses(metric_from_name(entry.example)) is None
]
every_pair = pytest.mark.parametrize(("name", "engine"), PAIRS, ids=lambda v: v if isinstance(v, str) else v.name)


@every_pair
def test_functional_gradients_equal_backward(name: str, engine: type[Engine]) -> None:
    s = sample(metric_from_name(name).layout, seed=1, ties=False)
    leaf = s.scores.clone().requires_grad_()
    loss = aimfor.MetricLoss(name, engine())(3.0 * leaf, s.targets)
    (expected,) = torch.autograd.grad(loss, leaf)
    assert expected.any()

    def scaled(scores: torch.Tensor) -> torch.Tensor:
        return aimfor.MetricLoss(name, engine())(3.0 * scores, s.targets)

    gradient, value = torch.func.grad_and_value(scaled)(s.scores)
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(value, loss.detach())
    torch.testing.assert_close(torch.func.jacrev(scaled)(s.scores), expected)


@every_pair
def test_vmap_equals_a_loop(name: str, engine: type[Engine]) -> None:
    batches = [sample(metric_from_name(name).layout, seed=seed, ties=False) for seed in range(3)]
    scores, targets = torch.stack([s.scores for s in batches]), torch.stack([s.targets for s in batches])

    def loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return aimfor.MetricLoss(name, engine()).eval()(scores, targets)  # engines with state keep it as it is

    together = torch.func.vmap(loss)(scores, targets)
    torch.testing.assert_close(together, torch.stack([loss(s.scores, s.targets) for s in batches]))
    gradients = torch.func.vmap(torch.func.grad(loss))(scores, targets)
    one_by_one = [torch.func.grad(loss)(s.scores, s.targets) for s in batches]
    torch.testing.assert_close(gradients, torch.stack(one_by_one))
    shared = torch.func.vmap(loss, in_dims=(0, None))(scores, batches[0].targets)
    torch.testing.assert_close(shared[0], together[0])


@pytest.mark.parametrize("name", [entry.example for entry in METRICS if entry.example != "pairwise_f1"])
def test_the_meta_device_is_refused_by_a_sentence(name: str) -> None:
    s = sample(metric_from_name(name).layout)
    scores, targets = s.scores.to("meta"), s.targets.to("meta")
    for call in (aimfor.MetricLoss(name), metric_from_name(name).value):
        with pytest.raises(aimfor.InputError, match="meta device"):
            call(scores, targets)


@pytest.mark.parametrize("name", [entry.example for entry in METRICS])
def test_default_losses_map_as_the_slices(name: str) -> None:
    """Members of a vmap are not each other's past, and leave none behind."""
    batches = [sample(metric_from_name(name).layout, seed=seed) for seed in range(5, 9)]
    scores, targets = torch.stack([s.scores for s in batches]), torch.stack([s.targets for s in batches])
    loss_fn = aimfor.MetricLoss(name)
    before = {key: one.clone() for key, one in loss_fn.state_dict().items()}
    got = torch.func.vmap(loss_fn)(scores, targets)
    alone = torch.stack([aimfor.MetricLoss(name)(one, y) for one, y in zip(scores, targets, strict=True)])
    torch.testing.assert_close(got, alone, rtol=1e-12, atol=1e-12)
    after = loss_fn.state_dict()
    assert all(torch.equal(one, after[key]) for key, one in before.items())
    assert loss_fn.training
    assert loss_fn.engine.training
