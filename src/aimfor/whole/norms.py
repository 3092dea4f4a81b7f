"""BatchNorm in parts: its running statistics are updated once, and parts that differ too much are warned of.

In training mode it normalises each part by the part's own mean, as it would each batch. That changes the gradient by a
few per cent where parts are random samples, and beyond recognition where rows are sorted by class: what distinguishes
the classes is then the mean that is taken away.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import callers_level

BatchNorm = nn.modules.batchnorm._BatchNorm
#: Modules whose buffers are running statistics.
NORMS = (BatchNorm, nn.modules.instancenorm._InstanceNorm)
#: So many standard deviations beyond what shuffled rows give are worth a word, from so many rows on.
SURE, LEAST_ROWS = 4.0, 32


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
        limit = (1 - 2 / (9 * freedom) + SURE * (2 / (9 * freedom)) ** 0.5) ** 3
        found = self.ratio()
        if found > limit:
            warnings.warn(
                f"parts of in_parts differ {found:.0f} times as much as parts of shuffled rows would, as if sorted by "
                "class, and BatchNorm takes each part's mean away: the gradient is far from that of the whole batch. "
                "Shuffle the rows, or put the BatchNorm layers in eval mode, which is exact.",
                stacklevel=callers_level(),
            )
