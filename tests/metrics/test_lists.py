"""One ranked list in any shape a model returns it; weights per list for one list as for many."""

from __future__ import annotations

import pytest
import torch

import aimfor
from aimfor.metrics import METRICS, PrecisionAtK, RecallAtK, metric_from_name

LISTS = [metric for metric in (metric_from_name(entry.example) for entry in METRICS) if metric.layout == "lists"]
every_list_metric = pytest.mark.parametrize("metric", [*LISTS, PrecisionAtK(5), RecallAtK(5)], ids=repr)


def one_list() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(128, generator=generator), (torch.rand(128, generator=generator) < 0.2).long()


@every_list_metric
def test_a_column_is_one_list(metric: aimfor.Metric) -> None:
    scores, targets = one_list()
    expected = metric.value(scores, targets)
    assert expected < 0.9  # lists of one item each would have the value 1
    for shaped in (targets, targets[:, None]):
        assert torch.equal(metric.value(scores[:, None], shaped), expected)
    where = torch.arange(128) % 5 != 0
    masked = metric.value(scores, targets, where=where)
    assert torch.equal(metric.value(scores[:, None], targets, where=where[:, None]), masked)


@every_list_metric
def test_a_column_trains_as_one_list(metric: aimfor.Metric) -> None:
    scores, targets = one_list()
    flat, column = scores.clone().requires_grad_(), scores[:, None].clone().requires_grad_()
    loss_fn = aimfor.MetricLoss(metric)
    loss = loss_fn(flat, targets)
    loss.backward()
    in_column = loss_fn(column, targets)
    in_column.backward()
    assert loss > 0.1
    assert flat.grad is not None
    assert flat.grad.any()
    assert torch.equal(loss, in_column)
    assert column.grad is not None
    assert torch.equal(column.grad[:, 0], flat.grad)


@every_list_metric
@pytest.mark.parametrize("weight", [torch.ones(1), torch.tensor(0.25), torch.tensor([[0.25]])], ids=str)
def test_one_list_takes_a_weight_per_list(metric: aimfor.Metric, weight: torch.Tensor) -> None:
    scores, targets = one_list()
    for shape in ((128,), (128, 1), (1, 128)):
        got = metric.value(scores.reshape(shape), targets.reshape(shape), weights=weight)
        assert torch.equal(got, metric.value(scores, targets))
        loss = aimfor.MetricLoss(metric)(scores.reshape(shape), targets.reshape(shape), weights=weight)
        assert torch.equal(loss, aimfor.MetricLoss(metric)(scores, targets))


@every_list_metric
@pytest.mark.parametrize("lists", [1, 2, 40])
def test_lists_cost_and_move_as_the_mean_of_them_one_by_one(metric: aimfor.Metric, lists: int) -> None:
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(lists, 7, generator=generator, dtype=torch.float64)
    targets = (torch.rand(lists, 7, generator=generator) < 0.4).long()
    targets[:, 0] = 1
    loss_fn = aimfor.MetricLoss(metric, aimfor.SmoothEngine(0.5, anchor=0.5))
    together, alone = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    loss = loss_fn(together, targets)
    loss.backward()
    each = torch.stack([loss_fn(one, hits) for one, hits in zip(alone, targets, strict=True)]).mean()
    each.backward()
    assert together.grad is not None
    assert bool(together.grad.any())
    torch.testing.assert_close((loss, together.grad), (each, alone.grad), rtol=1e-12, atol=1e-14)


def test_item_weights_may_stand_in_a_column() -> None:
    scores, targets = one_list()
    weights = torch.arange(128) % 3 + 0.5
    expected = aimfor.AveragePrecision().value(scores, targets, weights=weights)
    assert torch.equal(aimfor.AveragePrecision().value(scores[:, None], targets, weights=weights[:, None]), expected)
    assert expected != aimfor.AveragePrecision().value(scores, targets)


def test_lists_of_several_items_stay_lists() -> None:
    scores, targets = torch.tensor([[2.0, 1.0], [1.0, 2.0]]), torch.tensor([[1, 0], [1, 0]])
    assert float(aimfor.AveragePrecision().value(scores, targets)) == 0.75
