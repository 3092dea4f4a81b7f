"""Ranking needs all scores: gather them from every process, with exact gradients.

Under DistributedDataParallel each process computes the loss of the joined batch. The gradient that flows back to a
process's own scores is the sum over processes, and DDP's average over processes makes it the gradient of one
process holding the whole batch. (Gathering and putting one's own slice back, as is common, is 1/world_size of it.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .engine import Batch
from .errors import AimforError, InputError


def world_size() -> int:
    """Number of processes; 1 when torch.distributed is not in use."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@contextmanager
def agree_on_input(given: tuple[bool, ...] = ()) -> Iterator[None]:
    """An error in one process becomes an error in all: the others would wait for it forever.

    Args:
        given: Which optional arguments this process was called with; all processes must agree on them.
    """
    error: AimforError | None = None
    try:
        yield
    except AimforError as caught:
        error = caught
    signature = sum(1 << position for position, one in enumerate(given) if one)
    every = _all_gather_counts(-1 if error else signature)
    if error is not None:
        raise error
    if -1 in every:
        raise InputError(
            "scores",
            f"an input that process {every.index(-1)} refused",
            "valid input in every process",
            "Its own message says what was wrong.",
        )
    if len(set(every)) > 1:
        raise InputError(
            "weights, where, index",
            "different sets of optional arguments in different processes",
            "the same set in every process",
            "Pass weights of one, or a mask of True, where a process has nothing to say.",
        )


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")


def _all_gather_counts(count: int) -> list[int]:
    own = torch.tensor([count], dtype=torch.int64, device=_device())
    every = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(every, own)
    return [int(one) for one in every]


class _Gather(torch.autograd.Function):
    """Concatenate rows of all processes; backward sums the gradient over processes and returns the own slice."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, counts: list[int]) -> Tensor:
        rank, longest = dist.get_rank(), max(counts)
        ctx.rank, ctx.counts = rank, counts
        padded = own.new_zeros((longest, *own.shape[1:]))
        padded[: counts[rank]] = own
        every = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(every, padded)
        return torch.cat([part[:count] for part, count in zip(every, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        start = sum(ctx.counts[: ctx.rank])
        return total[start : start + ctx.counts[ctx.rank]], None


def gather(own: Tensor) -> Tensor:
    """Rows of all processes, in rank order; processes may hold different numbers of rows, even none."""
    if world_size() == 1:
        return own
    counts = _all_gather_counts(own.shape[0])
    if own.dtype == torch.bool:  # not every backend carries bool
        return _gather_rows(own.to(torch.uint8), counts).bool()
    return _gather_rows(own, counts)


def _gather_rows(own: Tensor, counts: list[int]) -> Tensor:
    return _Gather.apply(own, counts)  # type: ignore[no-any-return]


def gather_batch(batch: Batch) -> Batch:
    """The joined batch of all processes. All processes pass the same optional arguments (`agree_on_input`)."""
    return Batch(
        gather(batch.scores),
        gather(batch.targets),
        None if batch.weights is None else gather(batch.weights),
        None if batch.where is None else gather(batch.where),
        None if batch.index is None else gather(batch.index),
        {name: gather(labels) for name, labels in batch.groups.items()},
    )
