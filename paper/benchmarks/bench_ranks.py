"""Two processes beside one at the same batch of all together: rows per second by the clock, for networks of four sizes.

python paper/benchmarks/bench_ranks.py

Steps of a plain loop with DDP over gloo, cross-entropy or a metric that joins the batch. By the
clock, so it needs two cores and a quiet machine. "joining" is the share of a step that exchanging scores takes.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from common import record
from ranks import on_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import aimfor
from aimfor import distributed as joining

COLUMNS, STEPS = 20, 30
#: Rows of a batch of all processes, and hidden units of each layer.
SIZES = {
    "small (default)": (2_048, (128, 128)),
    "small, larger batch": (16_384, (128, 128)),
    "medium": (4_096, (512, 512, 512)),
    "large": (4_096, (1024, 1024, 1024)),
}


def network(hidden: tuple[int, ...]) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in zip((COLUMNS, *hidden), hidden, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], 1))


def measure(rank: int, world: int, batch: int, hidden: tuple[int, ...], loss: nn.Module | None) -> dict[str, float]:
    """Median seconds of a step, and of the exchange of scores in it."""
    model = network(hidden)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True) if world > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(batch // world, COLUMNS, generator=generator)
    y = (x[:, 0] > 1).long()
    spent, exchange = [0.0], joining._exchange

    def timed(*given: Any) -> Any:
        began = time.perf_counter()
        try:
            return exchange(*given)
        finally:
            spent[0] += time.perf_counter() - began

    joining._exchange = timed
    seconds, joined = [], []
    for _ in range(STEPS + 3):
        if world > 1:
            dist.barrier()
        spent[0], began = 0.0, time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        scores = wrapped(x).squeeze(1)
        value = nn.functional.binary_cross_entropy_with_logits(scores, y.float()) if loss is None else loss(scores, y)
        value.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        joined.append(spent[0])
    joining._exchange = exchange
    return {"step": statistics.median(seconds[3:]), "joining": statistics.median(joined[3:])}


def work(rank: int, world: int) -> dict[str, Any]:
    losses = {"cross-entropy": None, "auroc": aimfor.MetricLoss("auroc")}
    return {
        f"{size}/{name}": measure(rank, world, batch, hidden, loss)
        for size, (batch, hidden) in SIZES.items()
        for name, loss in losses.items()
    }


def measured(world: int) -> dict[str, dict[str, float]]:
    """The slowest process of each."""
    every = on_ranks(world, work)
    return {key: max((one[key] for one in every), key=lambda entry: entry["step"]) for key in every[0]}


def main() -> None:
    import torch._dynamo  # noqa: F401 (before the forks)

    one, two = measured(1), measured(2)
    rows = []
    for key in one:
        size, loss = key.split("/")
        batch, hidden = SIZES[size]
        rows.append(
            {
                "network": f"{size}: {len(hidden)} × {hidden[0]}",
                "batch of all": f"{batch:,}",
                "loss": loss,
                "ms a step, one process": f"{1000 * one[key]['step']:.2f}",
                "two processes": f"{1000 * two[key]['step']:.2f}",
                "× one process": f"{one[key]['step'] / two[key]['step']:.2f}",
                "joining, share of a step": f"{100 * two[key]['joining'] / two[key]['step']:.1f} %",
            }
        )
    title = "Two processes (gloo, DDP) beside one at equal batch of all, two cores; wanted: ≥ 1.6 ×, joining ≤ 5 %"
    record("ranks", title, "python paper/benchmarks/bench_ranks.py", rows)


if __name__ == "__main__":
    main()
