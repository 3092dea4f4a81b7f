"""Steps of a network with the running mean of its weights, judged now and then on the held-out rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ....targets.folds import rows_of_each
from ...networks.loop import descend
from ...networks.sampler import BalancedBatchSampler
from .base import Job, Rows
from .tabular_network import scores_with, together

Weights = dict[str, Tensor]
#: From scores of a batch (b, k, outputs), the batch and its row numbers to a scalar.
LossOfBatch = Callable[[Tensor, Rows, Tensor], Tensor]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Attributes:
        rate: Of AdamW.
        batch: Rows per step.
        checkpoints: At most.
        steps: Between two checkpoints.
        patience: Looks without a better value before the end.
        decay: Of the running mean of the weights, which is what speaks.
        weight_decay: Of AdamW.
        cosine: The rate falls by half a cosine to a twentieth.
        balanced: Every class has the same share of a batch, as far as its rows allow.
    """

    rate: float
    batch: int
    checkpoints: int
    steps: int
    patience: int
    decay: float = 0.98
    weight_decay: float = 0.03
    cosine: bool = False
    balanced: bool = False


def train(
    network: nn.Module,
    job: Job,
    schedule: Schedule,
    loss: LossOfBatch,
    value: Callable[[Tensor], float],
) -> list[Weights]:
    """The mean weights at every checkpoint.

    Args:
        network: Trained in place.
        job: Seed and stop; its rows are those of the design, not of the table.
        schedule: How long and how fast.
        loss: Of a batch.
        value: Of what the heads together say about the held-out rows; higher is better. Only decides when to stop.
    """
    weights = list(network.parameters())
    mean = [one.detach().clone() for one in weights]
    optimizer = torch.optim.AdamW(weights, lr=schedule.rate, weight_decay=schedule.weight_decay, fused=True)

    def losses() -> Iterator[Tensor]:
        for rows in _batches(job.train, schedule.batch, job.seed, schedule.balanced):
            batch = job.train.take(rows)
            yield loss(network(batch.x), batch, rows)

    found: list[Weights] = []
    best, best_at = -math.inf, 0
    taken, last = descend(optimizer, losses(), job.stop), schedule.checkpoints * schedule.steps
    network.train()
    while len(found) < schedule.checkpoints and len(found) - best_at < schedule.patience:
        for step in itertools.islice(taken, schedule.steps):
            share = 1 - min(schedule.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(mean, [one.detach() for one in weights], share)
            if schedule.cosine:
                optimizer.param_groups[0]["lr"] = schedule.rate * _cosine(step / last)
        found.append({name: one.clone() for (name, _), one in zip(network.named_parameters(), mean, strict=True)})
        found[-1] |= {name: one.clone() for name, one in network.named_buffers()}
        seen = value(together(scores_with(network, found[-1], job.held.x)))
        if seen > best:
            best, best_at = seen, len(found)
    return found


def _cosine(progress: float) -> float:
    return 0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * progress))


def _batches(rows: Rows, size: int, seed: int, balanced: bool = False) -> Iterator[Tensor]:
    """Shuffled passes over the rows, one after the other, without an incomplete batch; lists are kept whole."""
    n = len(rows.y)
    generator, size = torch.Generator().manual_seed(seed), min(size, n)
    if rows.lists is not None:
        yield from _batches_of_lists(rows.lists, rows.y, size, generator)
    if balanced:
        sampler = BalancedBatchSampler(rows.y, max(size, int(rows.y.max()) + 1), seed=seed)
        while True:
            yield from sampler.epoch_batches()
            sampler.set_epoch(sampler.epoch + 1)
    while True:
        order = torch.arange(n) if size == n else torch.randperm(n, generator=generator)
        yield from order[: n // size * size].split(size)


def _batches_of_lists(lists: Tensor, y: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Whole lists until a batch has ``size`` rows. Lists of one grade teach nothing and are left out.

    One long list may be a batch of its own. The last lists of a pass begin the next one's first batch.
    """
    found = [rows for rows in rows_of_each(lists) if int(y[rows].min()) < int(y[rows].max())]
    held: list[Tensor] = []
    while True:
        for one in torch.randperm(len(found), generator=generator).tolist():
            held.append(found[one])
            if sum(len(rows) for rows in held) >= size:
                yield torch.cat(held)
                held = []
