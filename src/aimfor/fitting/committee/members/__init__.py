"""Who may sit in the committee."""

from __future__ import annotations

from ....errors import InputError, nearest
from .base import Fitted, Job, Member, Rows
from .linear import Linear
from .network import MetricNetwork, Network
from .trees import ExtraTrees, Trees

#: By the name a user gives. Trees come with searched and with random splits, the network by cross-entropy and then
#: by the metric.
KINDS: dict[str, tuple[Member, ...]] = {
    "linear": (Linear(),),
    "trees": (Trees(), ExtraTrees()),
    "network": (Network(), MetricNetwork()),
}


def members(names: tuple[str, ...] = tuple(KINDS)) -> tuple[Member, ...]:
    """The members of these kinds, in the order they learn. Raises `InputError` for an unknown kind or none."""
    for name in names:
        if name not in KINDS:
            raise InputError("--members", repr(name), f"some of {', '.join(KINDS)}", nearest(name, KINDS))
    if not names:
        raise InputError("--members", "none", f"some of {', '.join(KINDS)}")
    return tuple(member for kind, those in KINDS.items() if kind in names for member in those)


__all__ = [
    "KINDS",
    "ExtraTrees",
    "Fitted",
    "Job",
    "Linear",
    "Member",
    "MetricNetwork",
    "Network",
    "Rows",
    "Trees",
    "members",
]
