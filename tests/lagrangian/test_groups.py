"""|S| = p > 2: each ordered pair of groups is a program of its own on the first group's head."""

from __future__ import annotations

import copy

import pytest
import torch

import aimfor
from aimfor.lagrangian import LagrangianEngine
from aimfor.lagrangian.groups import checked_index
from aimfor.metrics import PairwiseFBeta

GROUPS = torch.tensor([0, 1, 2, 0, 1, 2, 2, 0, 1, 1])


def make() -> aimfor.MetricLoss:
    return aimfor.MetricLoss(PairwiseFBeta(1.0), LagrangianEngine(GROUPS)).double()


def test_loss_and_steps_are_the_mean_of_the_binary_engines_on_each_pair() -> None:
    whole = make()
    scores = torch.randn(10, 3, dtype=torch.float64, requires_grad=True)
    batches = [torch.tensor([0, 1, 2, 3, 4]), torch.tensor([5, 6, 7, 8, 9])]
    parts = {}
    for j, k in whole.engine.pairs:
        rows = ((j == GROUPS) | (k == GROUPS)).nonzero().squeeze(1)
        parts[j, k] = (rows, aimfor.MetricLoss("f1", LagrangianEngine((GROUPS[rows] == j).long())).double())
    assert len(parts) == 6
    for batch in batches:
        loss = whole(scores[batch], GROUPS[batch], index=batch)
        expected = []
        for (j, _), (rows, binary) in parts.items():
            local = torch.isin(rows, batch).nonzero().squeeze(1)
            place = rows[local]
            expected.append(binary(scores[place, j], (GROUPS[place] == j).long(), index=local))
        torch.testing.assert_close(loss, torch.stack(expected).mean())
        (ours,) = torch.autograd.grad(loss, scores)
        (theirs,) = torch.autograd.grad(torch.stack(expected).mean(), scores)
        torch.testing.assert_close(ours, theirs)
    whole.end_epoch()
    for duals, (_, binary) in zip(whole.engine.duals, parts.values(), strict=True):
        binary.end_epoch()
        torch.testing.assert_close(duals.tau, binary.engine.duals[0].tau)
        torch.testing.assert_close(duals.lam, binary.engine.duals[0].lam)


def test_training_separates_three_groups() -> None:
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(90) % 3
    x = torch.nn.functional.one_hot(groups, 3).double() * 2 + torch.randn(90, 3, generator=generator).double()
    model = torch.nn.Linear(3, 3).double()
    loss_fn = aimfor.MetricLoss("pairwise_f1", LagrangianEngine(groups)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    start = float(loss_fn.value(model(x).detach(), groups))
    for _ in range(25):
        for index in torch.randperm(90, generator=generator).split(30):
            optimizer.zero_grad()
            loss_fn(model(x[index]), groups[index], index=index).backward()
            optimizer.step()
        loss_fn.end_epoch()
    end = float(loss_fn.value(model(x).detach(), groups))
    assert end > start + 0.5 * (1 - start)
    assert float(loss_fn.eval()(model(x).detach(), groups)) >= 1 - end - 1e-9  # the bound is below the truth


def test_missing_groups_in_a_batch_are_no_error_and_wrong_groups_are() -> None:
    loss_fn = make()
    batch = torch.tensor([0, 3])
    assert torch.isfinite(loss_fn(torch.randn(2, 3, dtype=torch.float64), GROUPS[batch], index=batch))
    before = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(aimfor.InputError, match="labels that differ"):
        loss_fn(torch.zeros(2, 3, dtype=torch.float64), torch.tensor([0, 1]), index=batch)
    with pytest.raises(aimfor.InputError, match="whole data set"):
        loss_fn.engine.end_epoch(torch.zeros(10))
    assert all(torch.equal(before[key], value) for key, value in loss_fn.state_dict().items())
    with pytest.raises(aimfor.UnsupportedPairError):
        aimfor.MetricLoss("pairwise_f1", LagrangianEngine(torch.tensor([0, 1])))
    loss_fn.engine.end_epoch(torch.zeros(10, 3, dtype=torch.float64))
    assert len(loss_fn.engine.history) == 1


class Elsewhere(torch.Tensor):
    """Says that it is on another device, where a gather outside the bounds would not raise."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda")


@pytest.mark.parametrize("kind", [torch.Tensor, Elsewhere])
def test_positions_are_checked_on_every_device_and_none_are_in_order(kind: type[torch.Tensor]) -> None:
    def checked(places: list[int], groups: list[int]) -> list[int]:
        index = torch.tensor(places, dtype=torch.int64).as_subclass(kind)
        return checked_index(index, torch.tensor(groups, dtype=torch.int64), GROUPS).tolist()

    assert checked([], []) == []
    assert checked([9, 0], [1, 0]) == [9, 0]
    for outside in (-1, 10):
        with pytest.raises(aimfor.InputError, match="positions from 0 to 9"):
            checked([2, outside], [2, 1])


class Silent:
    """Positions of a data set on a device that gathers outside the bounds without a word."""

    def numel(self) -> int:
        return 10

    def index_select(self, dim: int, index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(index.numel(), dtype=torch.int64)


@pytest.mark.parametrize("outside", [-1, 10])
def test_positions_are_refused_before_a_device_that_does_not_refuse_them(outside: int) -> None:
    index = torch.tensor([9, outside]).as_subclass(Elsewhere)
    with pytest.raises(aimfor.InputError, match="positions from 0 to 9") as caught:
        checked_index(index, torch.zeros(2, dtype=torch.int64), Silent())  # type: ignore[arg-type]
    assert caught.value.argument == "index"
