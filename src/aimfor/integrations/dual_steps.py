"""What the trainers' callbacks share: finding the losses that want to know when an epoch ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import nn


def losses_with_epochs(module: nn.Module) -> Iterator[nn.Module]:
    """Outermost submodules with an ``end_epoch`` method: metric losses, regularizers, rate problems.

    A metric loss passes the call on to its engine, so what lies inside one is not visited again.
    """
    if callable(getattr(module, "end_epoch", None)):
        yield module
        return
    for child in module.children():
        yield from losses_with_epochs(child)


def end_epoch(module: nn.Module) -> None:
    """Tells every such loss inside ``module`` that an epoch is over."""
    for loss in losses_with_epochs(module):
        step: Callable[[], None] = loss.end_epoch  # type: ignore[assignment]
        step()
