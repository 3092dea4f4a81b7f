"""The processes of one training run: alone, or started by torchrun. One of them writes, and one of them complains."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Ranks:
    """This process among all of them."""

    rank: int = 0
    world: int = 1
    store: Any = None

    @property
    def first(self) -> bool:
        return self.rank == 0

    def gathered(self, value: Any) -> list[Any]:
        """The value of every process, in their order."""
        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def any(self, flag: bool) -> bool:
        """Whether it is true in any process."""
        if self.world == 1:
            return flag
        total = torch.tensor([float(flag)])
        dist.all_reduce(total)
        return bool(total > 0)

    def wrap(self, model: nn.Module) -> nn.Module:
        return model if self.world == 1 else DistributedDataParallel(model)

    def joined(self, own: Tensor, rows: int) -> Tensor:
        """Entries that were dealt out row by row (``[rank::world]``), together again."""
        if self.world == 1:
            return own
        total = own.new_empty(rows, *own.shape[1:])
        for rank, part in enumerate(self.gathered(own)):
            total[rank :: self.world] = part
        return total

    def may_complain(self) -> bool:
        """True for the first process that asks: of one error, which all meet or which ends all, one tells."""
        return self.store is None or int(self.store.add("aimfor/complaint", 1)) == 1


@contextmanager
def started() -> Iterator[Ranks]:
    """The ranks that torchrun names in the environment; else this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "MASTER_ADDR" not in os.environ:
        yield Ranks()
        return
    store, rank, world = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    try:
        yield Ranks(rank, world, store)
    finally:
        dist.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
