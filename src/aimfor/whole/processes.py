"""Several processes: where forward passes communicate, all must make the same number of them.

The loss itself joins unequal shards, and gradients are summed once, after the last part. But a forward pass that
waits for the other processes waits forever when they have fewer parts.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..distributed import Processes, all_gather_numbers
from ..errors import InputError


def same_number_of_parts(modules: list[nn.Module], parts: int) -> None:
    """Refuses, in every process, numbers of parts that differ where the model's forward pass communicates."""
    for module in modules:
        cure = _waits(module)
        if cure is None:
            continue
        processes = Processes(getattr(module, "process_group", None))
        if processes.size() < 2:
            continue
        every = [count for (count,) in all_gather_numbers([parts], processes)]
        if len(set(every)) > 1:
            raise InputError(
                "model",
                f"{', '.join(map(str, every))} parts in the processes of a {type(module).__name__} that "
                "communicates in its forward pass",
                "the same number of parts in every process",
                cure,
            )
        return  # the same for all modules: they are parts of the same forward pass


def _waits(module: nn.Module) -> str | None:
    """The cure where this module's forward pass waits for other processes; None where it does not."""
    equal = "Give every process the same number of rows"
    if isinstance(module, DistributedDataParallel):
        return f"{equal}, or pass broadcast_buffers=False to it." if _broadcasts(module) else None
    if isinstance(module, nn.SyncBatchNorm):
        return f"{equal}, or use BatchNorm." if module.training else None
    sharded = {"FSDPModule", "FullyShardedDataParallel"} & {kind.__name__ for kind in type(module).__mro__}
    return f"{equal}." if sharded else None


def _broadcasts(module: Any) -> bool:
    return bool(module.broadcast_buffers and module.modules_buffers)
