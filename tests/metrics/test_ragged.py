"""Ranked lists of different lengths: rows with the number of their list."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.metrics import MAPAtR, Metric, PrecisionAtK

METRICS: list[Metric] = [
    aimfor.NDCG(), aimfor.NDCG(2), aimfor.AveragePrecision(), PrecisionAtK(2), MAPAtR(),
]  # fmt: skip
every = pytest.mark.parametrize("metric", METRICS, ids=repr)


def rows(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """40 rows of 7 lists in random order; list 5 has one row."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.cat((torch.arange(39) % 6, torch.tensor([77])))[torch.randperm(40, generator=generator)]
    targets = (torch.rand(40, generator=generator) < 0.4).long()
    return torch.randn(40, generator=generator, dtype=torch.float64), targets, groups


@every
def test_value_is_the_mean_over_the_lists_by_themselves(metric: Metric) -> None:
    scores, targets, groups = rows()
    alone = [metric.value(scores[groups == one][None], targets[groups == one][None]) for one in groups.unique()]
    assert float(metric.value(scores, targets, groups=groups)) == pytest.approx(
        float(torch.stack(alone).nanmean()), abs=1e-12
    )


@every
@pytest.mark.parametrize("engine", [aimfor.SmoothEngine, aimfor.DirectEngine])
def test_loss_is_that_of_padded_lists_and_its_gradient_finds_the_rows(metric: Metric, engine: type) -> None:
    if engine is aimfor.DirectEngine and isinstance(metric, MAPAtR):
        with pytest.raises(aimfor.UnsupportedPairError):
            aimfor.MetricLoss(metric, engine())
        return
    scores, targets, groups = rows(1)
    loss_fn = aimfor.MetricLoss(metric, engine())
    ids = groups.unique()
    longest = int(torch.bincount(groups).max())
    padded, labels = torch.zeros(len(ids), longest, dtype=torch.float64), torch.zeros(len(ids), longest).long()
    where = torch.zeros(len(ids), longest, dtype=torch.bool)
    for place, one in enumerate(ids):
        inside = (groups == one).nonzero().squeeze(1)
        padded[place, : len(inside)], labels[place, : len(inside)] = scores[inside], targets[inside]
        where[place, : len(inside)] = True
    first, second = scores.clone().requires_grad_(), padded.clone().requires_grad_()
    ragged, table = loss_fn(first, targets, groups=groups), loss_fn(second, labels, where=where)
    torch.testing.assert_close(ragged, table)
    by_row, by_cell = torch.autograd.grad((ragged, table), (first, second))
    for place, one in enumerate(ids):
        inside = (groups == one).nonzero().squeeze(1)
        torch.testing.assert_close(by_row[inside], by_cell[place, : len(inside)])


def test_weights_are_per_row_or_per_list_and_masked_rows_are_removed() -> None:
    scores, targets, groups = rows(2)
    metric, keep = aimfor.AveragePrecision(), torch.arange(40) % 5 != 0
    removed = metric.value(scores[keep], targets[keep], groups=groups[keep])
    assert torch.equal(metric.value(scores, targets, groups=groups, where=keep), removed)
    assert torch.equal(metric.value(scores, targets, groups=groups, weights=keep.double()), removed)
    lists = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0, 1.0, 1.0])
    alone = torch.stack(
        [metric.value(scores[groups == one][None], targets[groups == one][None]) for one in groups.unique()]
    )
    there = ~alone.isnan()
    expected = (lists[there] * alone[there]).sum() / lists[there].sum()
    assert float(metric.value(scores, targets, groups=groups, weights=lists)) == pytest.approx(float(expected))


def test_one_row_a_list_and_a_column_of_scores() -> None:
    scores, targets = torch.randn(4, 1), torch.tensor([1, 0, 1, 0])
    assert float(aimfor.AveragePrecision().value(scores, targets, groups=torch.arange(4))) == 1.0
    output = aimfor.MetricLoss("ndcg@10", aimfor.DirectEngine()).detailed(
        scores.requires_grad_(), targets, groups=torch.arange(4)
    )
    assert output.loss == 0


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (torch.arange(3), "3 ids for 4 scores"),
        (torch.rand(4), "whole numbers"),
        ([0, 0, 1, 1], "torch tensor"),
        ({"query": torch.arange(4)}, "whole number per row"),
    ],
)
def test_bad_groups_are_named(groups: object, said: str) -> None:
    with pytest.raises(aimfor.InputError, match=said):
        aimfor.MetricLoss("ndcg@10")(torch.randn(4), torch.tensor([1, 0, 1, 0]), groups=groups)


def test_groups_of_padded_lists_and_tables_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(aimfor.InputError, match="one score per row"):
        aimfor.AveragePrecision().value(torch.randn(2, 2), torch.ones(2, 2), groups=torch.arange(4))
    monkeypatch.setattr("aimfor.checks.batches.MOST_CELLS", 5)
    with pytest.raises(aimfor.InputError, match="different batches"):
        aimfor.AveragePrecision().value(torch.randn(4), torch.ones(4), groups=torch.tensor([0, 0, 1, 2]))
