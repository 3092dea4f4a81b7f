"""Batches of so many classes with so many examples each: what losses of retrieval need to have positives at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ... import checks
from ...errors import InputError
from ...targets.folds import rows_of_each
from .sampler import ResumableBatches

__all__ = ["PerClassBatchSampler"]


class PerClassBatchSampler(ResumableBatches):
    """Batches of ``classes`` different classes with ``per_class`` examples of each, no example twice in a batch.

    Classes and, within each, examples come in shuffled passes, so that all are seen equally often. Classes with a
    single example have no positive to offer and are left out; those with fewer than ``per_class`` give all they have.
    Everything depends on (seed, epoch); ranks share the classes of a step between them; a run can be resumed.

    Args:
        labels: Class of every example in the data set, any integers.
        classes: Classes in a batch, >= 2: a list needs negatives.
        per_class: Examples of each, >= 2: it needs positives too.
        seed: With the epoch it decides everything.
        rank: This process's number; its classes are disjoint from those of the other ranks.
        world_size: Number of processes.

    Raises:
        InputError: Fewer classes with two examples than one step of all processes needs.

    Example:
        >>> sampler = PerClassBatchSampler([0, 0, 0, 1, 1, 1, 2, 2, 2], classes=2, per_class=2)
        >>> all(len(set(batch)) == 4 for batch in sampler)
        True
    """

    def __init__(
        self,
        labels: Sequence[int] | Tensor,
        classes: int,
        per_class: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        ids = torch.as_tensor(labels).reshape(-1).long()
        self.classes = checks.integer("classes", classes, at_least=2)
        self.per_class = checks.integer("per_class", per_class, at_least=2)
        self._begin(seed, rank, world_size)
        self.members = [rows for rows in rows_of_each(ids) if len(rows) >= 2]
        needed = self.classes * self.world_size
        if len(self.members) < needed:
            raise InputError(
                "labels", f"{len(self.members)} classes with two examples or more", f"at least {needed}, for one step"
            )
        self.batches = max(1, sum(map(len, self.members)) // (needed * self.per_class))

    def epoch_batches(self) -> list[list[int]]:
        """All batches of the current epoch for this rank."""
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % (2**63))
        streams = [_passes(rows, generator) for rows in self.members]
        order = _passes(torch.arange(len(self.members)), generator)
        found = []
        for _ in range(self.batches):
            chosen = _different(order, self.classes * self.world_size)
            # Every rank draws for all of them, so that the streams stay in step.
            drawn = [_different(streams[one], min(self.per_class, len(self.members[one]))) for one in chosen]
            found.append([row for rows in drawn[self.rank :: self.world_size] for row in rows])
        return found


def _passes(values: Tensor, generator: torch.Generator) -> Iterator[int]:
    """Shuffled passes over the values, one after the other, for ever."""
    while True:
        yield from values[torch.randperm(len(values), generator=generator)].tolist()


def _different(stream: Iterator[int], count: int) -> list[int]:
    """The next ``count`` different values; one that comes again across the border of two passes is dropped."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[next(stream)] = None
    return list(found)
