"""What the trainers' callbacks share: losses that want to know when an epoch ends."""

from __future__ import annotations

from torch import nn


def end_epoch(module: nn.Module) -> None:
    """Calls ``end_epoch`` of the outermost submodules that have it: metric losses, regularizers, rate problems.

    A metric loss passes the call on to its engine, so what lies inside one is not visited again.
    """
    step = getattr(module, "end_epoch", None)
    if callable(step):
        step()
        return
    for child in module.children():
        end_epoch(child)
