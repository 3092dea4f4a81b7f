"""Class-balanced batches: deterministic in (seed, epoch), sharded by rank, resumable."""

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
    """Batches that (seed, epoch) decide, and a place among them that can be saved."""

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
    rows, place = [], 0
    order = members[torch.randperm(len(members), generator=generator)]
    for _ in range(batches):
        row = order[place : place + share]
        place += len(row)
        if len(row) < share:
            order = members[torch.randperm(len(members), generator=generator)]
            used = torch.isin(order, row)
            order = torch.cat((order[~used], order[used]))  # what this row holds already comes last
            place = share - len(row)
            row = torch.cat((row, order[:place]))
        rows.append(row)
    return torch.stack(rows)
