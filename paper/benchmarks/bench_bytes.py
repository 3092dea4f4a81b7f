"""Bytes that a process receives in a step, at 1, 2 and 4 processes, beside the formula of docs/scale.md; and CPU time.

python paper/benchmarks/bench_bytes.py [--times]

Counted are the bytes that the kernel says the process's own sockets have received (TCP_INFO), so other programs do not
disturb the count. `--times` adds CPU time and the share of it spent on joining the batch. It needs a quiet machine:
on a busy one even CPU time changes by a factor of two from run to run.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable

import torch
from common import record
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import aimfor
from aimfor import distributed as joining

BATCH, COLUMNS, HIDDEN, STEPS = 16_384, 20, 128, 8
ENGINES: dict[str, Callable[[], nn.Module] | None] = {
    "cross-entropy": None,
    "sorted, auroc": lambda: aimfor.MetricLoss("auroc", aimfor.SortedEngine()),
    "smooth, f1": lambda: aimfor.MetricLoss("f1", aimfor.SmoothEngine()),
    "direct, ap": lambda: aimfor.MetricLoss("ap", aimfor.DirectEngine()),
    "lp, f1": lambda: aimfor.MetricLoss("f1", aimfor.LPEngine()),
    "lagrangian, f1": lambda: aimfor.MetricLoss("f1", aimfor.LagrangianEngine(rows()[1])),
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(COLUMNS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
    )


def rows() -> tuple[Tensor, Tensor]:
    """A batch of all processes."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(BATCH, COLUMNS, generator=generator), torch.rand(BATCH, generator=generator) < 0.1
    return x, y.long()


def received() -> int:
    """By all TCP sockets of this process since they were opened."""
    total = 0
    for entry in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry))) as one:
                facts = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += struct.unpack_from("Q", facts, 128)[0]  # tcpi_bytes_received
        except OSError:  # closed meanwhile, or not one of TCP
            continue
    return total


def steps(loss: nn.Module | None, rank: int, world: int) -> dict[str, float]:
    """Of one process: bytes received a step, CPU seconds a step, and CPU seconds a step spent in joining the batch."""
    model = network()
    wrapped = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x, y, index = (part[rank::world] for part in (*rows(), torch.arange(BATCH)))
    spent, join = [0.0], joining.joined_batch

    def timed(check: Callable[[], object], *given: object) -> object:
        """Without the check of the input, which one process makes as well."""
        batch = check()
        began = time.process_time()
        try:
            return join(lambda: batch, *given)  # type: ignore[arg-type,return-value]
        finally:
            spent[0] += time.process_time() - began

    def step() -> None:
        optimizer.zero_grad()
        scores: Tensor = wrapped(x).squeeze(1)
        if loss is None:
            value = nn.functional.binary_cross_entropy_with_logits(scores, y.float())
        else:
            value = loss(scores, y, **({"index": index} if isinstance(loss.engine, aimfor.LagrangianEngine) else {}))
        value.backward()
        optimizer.step()

    for _ in range(3):
        step()
    joining.joined_batch = timed  # type: ignore[assignment]
    before, began = received(), time.process_time()
    for _ in range(STEPS):
        step()
    cpu, moved = time.process_time() - began, received() - before
    joining.joined_batch = join
    return {"bytes": moved / STEPS, "cpu": cpu / STEPS, "joining": spent[0] / STEPS}


def work(rank: int, world: int) -> dict[str, dict[str, float]]:
    return {name: steps(None if make is None else make(), rank, world) for name, make in ENGINES.items()}


def formula(name: str, world: int, parameters: int) -> float:
    """Of docs/scale.md: gradients; for a metric the scores and labels forward and the gradient of all scores back."""
    share, index = (world - 1) / world, 8 * name.startswith("lagrangian")
    gradients = 2 * share * 4 * parameters
    return gradients if name == "cross-entropy" else gradients + share * BATCH * (4 + 1 + index) + 2 * share * 4 * BATCH


def main() -> None:
    import torch._dynamo  # noqa: F401 (before the forks)

    parameters = sum(one.numel() for one in network().parameters())
    found = {world: on_ranks(world, work) for world in (1, 2, 4)}
    table = []
    for name in ENGINES:
        alone = found[1][0][name]["cpu"]
        for world in (1, 2, 4):
            ranks = [one[name] for one in found[world]]
            slowest = max(one["cpu"] for one in ranks)
            moved = sum(one["bytes"] for one in ranks) / world
            expected = formula(name, world, parameters)
            row = {
                "loss": name,
                "processes": world,
                "kB received a step": f"{moved / 1000:.0f}",
                "formula, kB": f"{expected / 1000:.0f}",
            }
            times = {
                "CPU ms a step, each process": f"{1000 * slowest:.1f}",
                "joining the batch": f"{100 * max(one['joining'] / one['cpu'] for one in ranks):.1f} %",
                "× one process, by CPU time": f"{alone / slowest:.2f}",
            }
            table.append({**row, **times} if "--times" in sys.argv else row)
    title = f"Bytes a process receives in a step: {BATCH:,} rows of all processes, {parameters:,} parameters, gloo"
    record("bytes", title, "python paper/benchmarks/bench_bytes.py", table)


if __name__ == "__main__":
    main()
