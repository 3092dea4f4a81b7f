"""A plain training loop for AUROC that runs alone or under torchrun.

Start it as `python examples/plain_loop_ddp.py`, or as `torchrun --nproc-per-node 2 examples/plain_loop_ddp.py`.

The loss gathers the scores of all processes with exact gradients; the sampler gives each its own balanced batches.
"""

import os

import torch
import torch.distributed as dist
from matplotlib.figure import Figure
from torch.nn.parallel import DistributedDataParallel

import aimfor
from aimfor.learners.networks.sampler import BalancedBatchSampler

distributed = "RANK" in os.environ
if distributed:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)

torch.manual_seed(0)  # the same data and the same initial weights everywhere
x = torch.randn(2000, 10)
y = (x[:, :3].sum(1) + torch.randn(2000) > 3.5).long()
model: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
model = DistributedDataParallel(model) if distributed else model
loss_fn = aimfor.MetricLoss("auroc")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
sampler = BalancedBatchSampler(y, batch_size=64 // world, rank=rank, world_size=world)
history = []
for epoch in range(5):
    sampler.set_epoch(epoch)
    for rows in sampler:
        optimizer.zero_grad()
        loss_fn(model(x[rows]).squeeze(1), y[rows]).backward()
        optimizer.step()
    loss_fn.end_epoch()
    with torch.no_grad():
        history.append(float(loss_fn.value(model(x).squeeze(1), y)))
if rank == 0:
    print(f"AUROC {history[-1]:.4f}")
    figure = Figure(figsize=(5.5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, 6), history, marker="o")
    axes.set(xlabel="epoch", ylabel="AUROC of all rows", title="Balanced batches of 64, one process or several")
    figure.savefig("plain_loop_ddp.svg")
if distributed:
    del model  # first: the last to let go of the group must not be the model, or torch may wait for itself
    dist.destroy_process_group()
