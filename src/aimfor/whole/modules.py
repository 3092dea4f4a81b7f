"""Modules that see more than their own rows: BatchNorm, and those whose forward pass communicates.

In training mode BatchNorm normalises each part by the part's own mean, as it would each batch. That changes the
gradient by a few per cent where parts are random samples, and beyond recognition where rows are sorted by class: what
distinguishes the classes is then the mean that is taken away. Its running statistics are updated once.

The loss itself joins unequal shards, and gradients are summed once, after the last part. But a forward pass that waits
for the other processes waits forever when they have fewer parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..distributed import Processes, all_gather_numbers
from ..errors import InputError, callers_level

BatchNorm = nn.modules.batchnorm._BatchNorm
#: Modules whose buffers are running statistics.
NORMS = (BatchNorm, nn.modules.instancenorm._InstanceNorm)
#: So many standard deviations beyond what shuffled rows give are worth a word, from so many rows on.
LIMIT, LEAST_ROWS = 4.0, 32


@contextmanager
def kept(buffers: list[Tensor]) -> Iterator[None]:
    """A forward pass that leaves these buffers as they were."""
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        for buffer, value in zip(buffers, before, strict=True):
            buffer.data.copy_(value)  # past autograd: nobody's gradient is of a running statistic


class PartMeans:
    """Means and variances over rows of what a BatchNorm layer is given, part by part.

    Args:
        norm: The first layer, as those after it see what it has evened out.
    """

    def __init__(self, norm: nn.Module) -> None:
        self.parts: list[tuple[int, Tensor, Tensor]] = []
        self.handle = norm.register_forward_pre_hook(self._note)

    @torch.no_grad()
    def _note(self, module: nn.Module, inputs: Any) -> None:
        x = inputs[0].flatten(2).mean(2) if inputs[0].ndim > 2 else inputs[0]
        x = x.float()
        self.parts.append((len(x), x.mean(0), x.var(0, correction=0)))

    def stop(self) -> None:
        self.handle.remove()

    def ratio(self) -> float:
        """Variance of the parts' means over what it is for shuffled rows, about 1; the mean over channels (F ratio)."""
        sizes, means, variances = zip(*self.parts, strict=True)
        n = torch.tensor(sizes, dtype=torch.float32, device=means[0].device)[:, None]
        mean = torch.stack(means)
        between = (n * (mean - (n * mean).sum(0) / n.sum()).square()).sum(0) / (len(sizes) - 1)
        within = (n * torch.stack(variances)).sum(0) / (n.sum() - len(sizes)).clamp_min(1.0)
        alive = within > 0
        return float((between[alive] / within[alive]).mean()) if alive.any() else 1.0

    def warn(self) -> None:
        """Once for each place in the user's code, by Python's own rule."""
        freedom = len(self.parts) - 1
        if freedom < 1 or sum(size for size, *_ in self.parts) - freedom <= LEAST_ROWS:
            return
        # Quantile of χ²/freedom (Wilson and Hilferty).
        limit = (1 - 2 / (9 * freedom) + LIMIT * (2 / (9 * freedom)) ** 0.5) ** 3
        ratio = self.ratio()
        if ratio > limit:
            warnings.warn(
                f"parts of in_parts differ {ratio:.0f} times as much as parts of shuffled rows would, as if sorted by "
                "class, and BatchNorm takes each part's mean away: the gradient is far from that of the whole batch. "
                "Shuffle the rows, or put the BatchNorm layers in eval mode, which is exact.",
                stacklevel=callers_level(),
            )


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
