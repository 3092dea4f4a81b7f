"""Batches by class, balanced or so many of each: deterministic in (seed, epoch), sharded by rank, resumable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler

from ... import checks
from ...errors import InputError
from ...targets.folds import rows_of_each


class ResumableBatches(Sampler[list[int]]):
    """Batches that (seed, epoch) decide, and a position among them that can be saved."""

    batches: int

    def _begin(self, seed: int, rank: int, world_size: int) -> None:
        """At the first batch of the first epoch, as one of ``world_size`` processes."""
        self.seed = checks.integer("seed", seed, at_least=0)
        self.world_size = checks.integer("world_size", world_size, at_least=1)
        self.rank = checks.integer("rank", rank, at_least=0)
        if self.rank >= self.world_size:
            raise InputError("rank", repr(rank), f"a rank below world_size = {world_size}")
        self.epoch = self.position = 0

    def __len__(self) -> int:
        return self.batches

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch's order and starts at its first batch."""
        self.epoch, self.position = checks.integer("epoch", epoch, at_least=0), 0

    def epoch_batches(self) -> Sequence[list[int]] | Tensor:
        """All batches of the present epoch, ``(batches, size)``."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.epoch_batches()[self.position :]:
            self.position += 1
            yield batch.tolist() if isinstance(batch, Tensor) else batch
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Where it stands. A loader with workers asks ahead: pass ``consumed``, the batches really used this epoch."""
        return {"epoch": self.epoch, "position": self.position if consumed is None else consumed, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict`; the next batch is the one that would have come."""
        if state["seed"] != self.seed:
            raise InputError("state", f"a sampler with seed {state['seed']}", f"seed {self.seed}, as this sampler's")
        self.epoch, self.position = int(state["epoch"]), int(state["position"])


class BalancedBatchSampler(ResumableBatches):
    """Batches in which every class has the same share, as far as its size allows.

    Each class is a stream: a shuffled pass over its members, then another. Within a batch no example comes twice, so
    a class with fewer members than its share gives all it has and the largest class fills the batch. An epoch is
    as many batches as fit into the data set.

    Args:
        labels: Class of every example in the data set, any integers.
        batch_size: Examples per batch *per process*.
        seed: With the epoch it decides everything.
        rank: This process's number; its batches are disjoint from those of the other ranks.
        world_size: Number of processes.

    Raises:
        InputError: Empty labels, a batch smaller than the number of classes, a rank outside the world.

    Example:
        >>> sampler = BalancedBatchSampler([0] * 90 + [1] * 10, batch_size=8)
        >>> [sum(i >= 90 for i in batch) for batch in sampler][:3]
        [4, 4, 4]
    """

    def __init__(
        self, labels: Sequence[int] | Tensor, batch_size: int, *, seed: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        ids = torch.as_tensor(labels).reshape(-1).long()
        if ids.numel() == 0:
            raise InputError("labels", "no labels", "one label per example")
        self._begin(seed, rank, world_size)
        self.batch_size = checks.integer("batch_size", batch_size, at_least=1)
        self.members = rows_of_each(ids)
        if self.batch_size < len(self.members):
            raise InputError("batch_size", repr(batch_size), f"at least one per class, {len(self.members)}")
        self.shares = self._shares()
        self.batches = max(1, ids.numel() // (sum(self.shares) * self.world_size))

    def _shares(self) -> list[int]:
        """Examples of each class in a batch: equal, but never more than the class has for this rank."""
        most = [max(1, len(members) // self.world_size) for members in self.members]
        shares, left = [0] * len(most), self.batch_size
        for filled, i in enumerate(sorted(range(len(most)), key=most.__getitem__)):
            shares[i] = min(most[i], left // (len(most) - filled))
            left -= shares[i]
        return shares

    def epoch_batches(self) -> Tensor:
        """All batches of the current epoch, ``(batches, examples per batch)``."""
        columns = []
        for number, (members, share) in enumerate(zip(self.members, self.shares, strict=True)):
            mixed = (self.seed * 1_000_003 + self.epoch) * 1_009 + number
            generator = torch.Generator().manual_seed(mixed % (2**63))
            stream = _stream(members, min(share * self.world_size, len(members)), self.batches, generator)
            columns.append(stream[:, self.rank % stream.shape[1] :: self.world_size][:, :share])
        return torch.cat(columns, dim=1)


def _stream(members: Tensor, share: int, batches: int, generator: torch.Generator) -> Tensor:
    """``(batches, share)``: shuffled passes over the members end to end, no member twice in one row."""
    rows, start = [], 0
    order = members[torch.randperm(len(members), generator=generator)]
    for _ in range(batches):
        row = order[start : start + share]
        start += len(row)
        if len(row) < share:
            order = members[torch.randperm(len(members), generator=generator)]
            used = torch.isin(order, row)
            order = torch.cat((order[~used], order[used]))  # what this row holds already comes last
            start = share - len(row)
            row = torch.cat((row, order[:start]))
        rows.append(row)
    return torch.stack(rows)


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
        batches = []
        for _ in range(self.batches):
            chosen = _different(order, self.classes * self.world_size)
            # Every rank draws for all of them, so that the streams stay in step.
            drawn = [_different(streams[row], min(self.per_class, len(self.members[row]))) for row in chosen]
            batches.append([row for rows in drawn[self.rank :: self.world_size] for row in rows])
        return batches


def _passes(values: Tensor, generator: torch.Generator) -> Iterator[int]:
    """Shuffled passes over the values, one after the other, for ever."""
    while True:
        yield from values[torch.randperm(len(values), generator=generator)].tolist()


def _different(stream: Iterator[int], count: int) -> list[int]:
    """The next ``count`` different values; one that comes again across the border of two passes is dropped."""
    values: dict[int, None] = {}
    while len(values) < count:
        values[next(stream)] = None
    return list(values)
