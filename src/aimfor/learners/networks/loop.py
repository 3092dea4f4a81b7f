"""The one training loop: steps against the gradient of losses that come one after the other, until it is stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from ...errors import InputError, Interrupted


def never_stop() -> bool:
    """The answer of nobody who could stop the work."""
    return False


def end_if(stopping: bool) -> None:
    """Raises `Interrupted` when it is time; what is worth keeping has been saved by then."""
    if stopping:
        raise Interrupted("stopped; what was finished is kept")


def descend(
    optimizer: torch.optim.Optimizer,
    losses: Iterable[Tensor],
    stop: Callable[[], bool] = never_stop,
    *,
    clip: float | None = None,
) -> Iterator[int]:
    """Takes one step for each loss, and yields the number of steps taken after each.

    Args:
        optimizer: Holds the parameters.
        losses: Computed when they are asked for, one batch each, with the parameters as they are then.
        stop: Asked before every step; true ends with `Interrupted`.
        clip: Largest norm of the gradient of all parameters together; None for any.

    Raises:
        InputError: A loss that is not finite.

    Example:
        >>> x = torch.nn.Parameter(torch.tensor(4.0))
        >>> steps = descend(torch.optim.SGD([x], lr=0.25), (x.square() for _ in range(3)))
        >>> [(step, x.item()) for step in steps]
        [(1, 2.0), (2, 1.0), (3, 0.5)]
    """
    optimizer.zero_grad(set_to_none=True)
    batches, step = iter(losses), 0
    while True:
        end_if(stop())
        loss = next(batches, None)
        if loss is None:
            return
        if not math.isfinite(float(loss.detach())):
            raise InputError("x", "rows on which the network's loss is not finite", "columns of ordinary size")
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        yield step
