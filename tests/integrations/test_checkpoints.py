"""State of a loss in other people's checkpoints: safetensors, Hugging Face, torch.distributed.checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import nn

import aimfor
from aimfor.errors import InputError
from aimfor.rates import fpr, precision, recall
from aimfor.rates.saved import from_tensor
from programs import Program

#: Losses whose state takes its size from the first batch, with the columns of their scores.
LOSSES = {"f1": 1, "iou": 1, "f1_macro": 3, "recall@precision=0.6": 1, "problem": 1, "ap": 1, "auroc": 1}
BANKS = {"ap": aimfor.SmoothEngine, "auroc": aimfor.SortedEngine}


def loss_of(name: str) -> nn.Module:
    if name == "problem":
        return aimfor.maximize(recall, precision >= 0.8)
    return aimfor.MetricLoss(name, BANKS[name](bank=64) if name in BANKS else None)


def batch(name: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    columns = LOSSES[name]
    scores = torch.randn(40, columns, generator=generator).squeeze(1)
    return scores, torch.randint(max(2, columns), (40,), generator=generator)


def trained(name: str) -> nn.Module:
    loss = loss_of(name)
    for seed in range(3):
        scores, y = batch(name, seed)
        loss(scores.requires_grad_(), y).backward()
    loss.end_epoch()  # type: ignore[operator]
    return loss


@pytest.mark.parametrize("name", LOSSES)
def test_shapes_are_final_at_construction_and_safetensors_restores(name: str, tmp_path: Path) -> None:
    loss, fresh = trained(name), loss_of(name)
    before = {key: value.shape for key, value in fresh.state_dict().items()}
    assert {key: value.shape for key, value in loss.state_dict().items()} == before
    save_model(loss, str(tmp_path / "loss.safetensors"))
    load_model(fresh, str(tmp_path / "loss.safetensors"))
    scores, y = batch(name, 9)
    ours, theirs, new = (one(scores.requires_grad_(), y).item() for one in (loss, fresh, loss_of(name)))
    assert ours == theirs
    assert ours != new  # what was restored matters


def test_a_problem_with_groups_is_restored_to_the_bit(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return aimfor.maximize(recall, [precision >= 0.8, fpr.gap("sex") <= 0.1], dual_every=1)

    ours, theirs = build(), build()
    for seed in range(3):
        scores, y = batch("f1", seed)
        ours(scores.requires_grad_(), y, groups={"sex": torch.arange(40) % 3}).backward()
    save_model(ours, str(tmp_path / "p.safetensors"))
    load_model(theirs, str(tmp_path / "p.safetensors"))
    assert ours.multipliers == theirs.multipliers
    assert len(ours.multipliers) == 1 + 6  # type: ignore[arg-type]
    assert torch.equal(ours.get_extra_state(), theirs.get_extra_state())  # type: ignore[operator]
    old = from_tensor(ours.get_extra_state())  # type: ignore[operator]
    old["soft"] = torch.tensor(old["soft"])
    for counts, own in zip(old["counts"], (ours._window, ours._epoch, ours._basis), strict=True):
        counts["table"] = torch.from_numpy(own.table)
    again = build()
    again.load_state_dict({"_extra_state": old})  # as 0.1 saved it
    assert torch.equal(ours.get_extra_state(), again.get_extra_state())  # type: ignore[operator]
    with pytest.raises(InputError, match="state_dict"):
        theirs.load_state_dict({"_extra_state": {"multipliers": {}}})


#: One process saves at the end of half of the steps, or goes on from there; the number of processes may differ.
SHARDED = """
    import os, sys
    import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    import aimfor

    rank, world, folder, first, last = (int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:6]))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}.{world}.{last}", rank=rank, world_size=world)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.body = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
            self.losses = torch.nn.ModuleList(map(aimfor.MetricLoss, ["f1", "iou", "recall@precision=0.6"]))
            self.losses.append(aimfor.MetricLoss("ap", aimfor.SmoothEngine(bank=64)))

    net = Net()
    fully_shard(net.body, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def state():
        model, moments = get_state_dict(net, optimizer)
        return {"model": model, "optimizer": moments}

    if first:
        saved = state()
        dcp.load(saved, checkpoint_id=folder)
        set_state_dict(net, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(320, 4, generator=generator)
    y = (x[:, 0] + torch.randn(320, generator=generator) > 0.8).long()
    for step in range(first, last):
        rows = torch.arange(step * 32, step * 32 + 32)[rank * 32 // world:(rank + 1) * 32 // world]
        optimizer.zero_grad()
        scores = net.body(x[rows]).squeeze(1)
        loss = sum(one(scores, y[rows]) for one in net.losses)
        loss.backward()
        optimizer.step()
    if last < 10:
        dcp.save(state(), checkpoint_id=folder)
    print(*(f"{value:.9f}" for value in (loss.item(), *net.body[2].weight.full_tensor().flatten().tolist())))
    dist.destroy_process_group()
"""


def test_another_number_of_processes_goes_on_from_a_sharded_checkpoint(tmp_path: Path) -> None:
    """FSDP2 on two processes for five steps, saved by DCP; one process goes on, as one would have done all along."""

    def run(world: int, first: int, last: int, name: str) -> list[float]:
        words = [(rank, world, tmp_path / name, first, last) for rank in range(world)]
        programs = [Program(*each, code=SHARDED) for each in words]
        assert [program.wait() for program in programs] == [0] * world, [program.stderr for program in programs]
        return [float(word) for word in programs[0].stdout.split()]

    run(2, 0, 5, "two")
    resumed, alone = run(1, 5, 10, "two"), run(1, 0, 10, "one")
    assert resumed == pytest.approx(alone, abs=1e-5)
    assert resumed != pytest.approx(run(1, 0, 5, "half"), abs=1e-2)
