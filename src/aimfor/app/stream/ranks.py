"""The processes of one training run: alone, or started by torchrun. One of them writes, and one of them complains."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.nn.parallel import DistributedDataParallel

from ...errors import AimforError, InputError
from ...fitting.fit import Interrupted

#: One process may write a large CSV as Parquet, or grow trees, while the others wait. torchrun sees one that dies.
_PATIENCE = timedelta(days=7)
#: Seconds in which a process that met an error says so before others complain that it is gone.
_COURTESY = 2.0
#: Seconds for gloo's threads to forget the last exchange, for which they need Python: the network may hold the group
#: beyond its end, and would wait for those threads without letting them.
_LAST_WORK = 0.02


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

    def wrap(self, model: nn.Module, cut: bool = False) -> nn.Module:
        """The network of all processes: a copy in each, or cut among them, of whom there must be two."""
        if not cut:
            # Gradients lie in the buffers that are sent: no copy there and back.
            return model if self.world == 1 else DistributedDataParallel(model, gradient_as_bucket_view=True)
        if self.world == 1:
            came, remedy = "the option in one process", "Start it with torchrun --nproc-per-node 2 -m aimfor train …"
            raise InputError("--shard", came, "two processes or more", remedy)
        from .sharding import shard

        return shard(model)

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
        try:
            return self.store is None or int(self.store.add("complaint", 1)) == 1
        except RuntimeError:  # the process that kept the count is gone, and has said why
            return False


class Silent(AimforError):
    """Another process has told the user."""


@contextmanager
def started() -> Iterator[Ranks]:
    """The ranks that torchrun names in the environment; else this process alone.

    An error that every process meets, or that one meets and the others only feel by its absence, is said by one.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "MASTER_ADDR" not in os.environ:
        yield Ranks()
        return
    store, rank, world = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    # torchrun keeps the store over a restart, and with it the addresses of processes that are gone.
    store = PrefixStore(f"aimfor/{restarts()}", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=_PATIENCE)
    ranks = Ranks(rank, world, store)
    try:
        yield ranks
    except Interrupted:
        raise
    except (AimforError, OSError) as error:
        raise (error if ranks.may_complain() else Silent("")) from None
    except RuntimeError as error:
        if "gloo" not in str(error).lower():
            raise
        gone = AimforError(f"another process of this run has ended ({str(error).splitlines()[0][:100]})")
        time.sleep(_COURTESY)  # the one that ended knows why
        raise (gone if ranks.may_complain() else Silent("")) from None
    finally:
        time.sleep(_LAST_WORK)
        dist.destroy_process_group()


def restarts() -> int:
    """How often torchrun has started the processes again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
