"""Run by two processes (see test_distributed): scores in parts of unequal shards against one process on the whole.

Prints one line of JSON: how many gradients were compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import aimfor

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
RANK = dist.get_rank()
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(40, 5, generator=GENERATOR, dtype=torch.float64)
Y = (torch.arange(40) % 7 == 0).long()
OWN = slice(0, 27) if RANK == 0 else slice(27, 40)  # parts of 4: seven and four


def network(*middle: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 6), *middle, nn.Tanh(), nn.Linear(6, 1)).double()


def gradient(model: nn.Module, loss: Tensor) -> Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def close(got: Tensor, expected: Tensor) -> None:
    assert expected.any()
    assert (got - expected).abs().max() < 1e-12 * expected.abs().max(), (got, expected)


def unequal_shards(**options: Any) -> int:
    names = ("ap", "auroc", "f1", "recall@precision=0.9")
    for name in names:
        single, parallel = network(), DistributedDataParallel(network(), **options)
        whole = aimfor.MetricLoss(name, gather=False)(single(X).squeeze(1), Y)
        loss_fn = aimfor.MetricLoss(name)
        for _ in range(2):  # DDP rebuilds its buckets after the first
            loss_fn = aimfor.MetricLoss(name)
            loss = loss_fn(aimfor.in_parts(parallel, X[OWN], rows=4).squeeze(1), Y[OWN])
            got = gradient(parallel, loss)
        torch.testing.assert_close(loss, whole, rtol=1e-12, atol=1e-14)
        close(got, gradient(single, whole))
    return len(names)


def batch_norm(broadcast: bool) -> int:
    """Statistics are those of the parts, as one process with the same parts would have them."""
    own = OWN if not broadcast else slice(20 * RANK, 20 * RANK + 20)
    cuts = (27, 13) if not broadcast else (20, 20)
    single, parallel = (
        network(nn.BatchNorm1d(6)),
        DistributedDataParallel(network(nn.BatchNorm1d(6)), broadcast_buffers=broadcast),
    )
    sizes = [n * (i + 1) // k - n * i // k for n in cuts for k in [-(-n // 4)] for i in range(k)]
    scores = torch.cat([single(part) for part in X.split(sizes)]).squeeze(1)
    expected = gradient(single, aimfor.MetricLoss("ap", gather=False)(scores, Y))
    loss = aimfor.MetricLoss("ap")(aimfor.in_parts(parallel, X[own], rows=4).squeeze(1), Y[own])
    close(gradient(parallel, loss), expected)
    return 1


def sharded() -> int:
    """FSDP2: every process with as many rows; the gradient is that of the whole batch, a shard in each process."""
    own = slice(20 * RANK, 20 * RANK + 20)
    single, cut = network(nn.Dropout(0.0)), network(nn.Dropout(0.0))
    for layer in cut:
        fully_shard(layer)
    fully_shard(cut)
    whole = aimfor.MetricLoss("ap", gather=False)(single(X).squeeze(1), Y)
    expected = gradient(single, whole)
    for _ in range(2):
        loss = aimfor.MetricLoss("ap")(aimfor.in_parts(cut, X[own], rows=4).squeeze(1), Y[own])
        cut.zero_grad()
        loss.backward()
    close(torch.cat([weight.grad.full_tensor().flatten() for weight in cut.parameters()]), expected)
    refused(lambda: aimfor.in_parts(cut, X[OWN], rows=4), "7, 4 parts", "same number of rows")
    optimizer = torch.optim.SGD(cut.parameters(), lr=1e-9)
    loss = aimfor.in_parts(cut, X[own], rows=4).sum()
    optimizer.step()
    refused(loss.backward, "weights that changed")
    return 1


def refused(call: Callable[[], Any], *words: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def what_would_hang() -> None:
    parallel = DistributedDataParallel(network(nn.BatchNorm1d(6)))
    for model in (parallel, lambda part: parallel(part)):
        refused(lambda model=model: aimfor.in_parts(model, X[OWN], rows=4), "7, 4 parts", "broadcast_buffers=False")
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(network(nn.BatchNorm1d(6)))
    refused(lambda: aimfor.in_parts(synced, X[OWN], rows=4), "7, 4 parts", "SyncBatchNorm")


compared = unequal_shards() + unequal_shards(find_unused_parameters=True) + batch_norm(False) + batch_norm(True)
compared += unequal_shards(gradient_as_bucket_view=True) + unequal_shards(static_graph=True) + sharded()
what_would_hang()
dist.barrier()
dist.destroy_process_group()
print(json.dumps({"compared": compared}))
