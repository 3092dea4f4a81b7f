"""Who may sit in the ensemble."""

from __future__ import annotations

from ....errors import InputError, nearest
from .base import Fitted, Job, Member, Rows
from .features import FeatureLinear, FeatureNetwork, FeatureTrees, Head
from .linear import Linear
from .network import Network
from .pictures import PictureMetric, PictureNetwork
from .ranked import RankedLinear, RankedNetwork
from .trees import ExtraTrees, GradeTrees, LambdaTrees, Trees

#: By the name a user gives. Trees come with searched and with random splits.
KINDS: dict[str, tuple[Member, ...]] = {
    "linear": (Linear(),),
    "trees": (Trees(), ExtraTrees()),
    "network": (Network(),),
    "features_linear": (FeatureLinear(),),
    "features_head": (Head(),),
    "features_trees": (FeatureTrees(),),
    "features_network": (FeatureNetwork(),),
}
#: Who sits in it by default: on tables, and on features of a pretrained network.
FOR_TABLES = ("linear", "trees", "network")
FOR_FEATURES = ("features_linear", "features_head", "features_trees", "features_network")
#: On pixels.
FOR_PICTURES: tuple[Member, ...] = (PictureNetwork(), PictureMetric())


#: The same kinds for ranked lists.
RANKED_KINDS: dict[str, tuple[Member, ...]] = {
    "linear": (RankedLinear(),),
    "trees": (LambdaTrees(), GradeTrees()),
    "network": (RankedNetwork(),),
}


def members(names: tuple[str, ...] = tuple(KINDS), ranked: bool = False) -> tuple[Member, ...]:
    """The members of these kinds, in the order they learn. Raises `InputError` for an unknown kind or none.

    ``ranked``: those that put the rows of a list in order, instead of those that tell classes apart.
    """
    for name in names:
        if name not in KINDS:
            raise InputError("--members", repr(name), f"some of {', '.join(FOR_TABLES)}", nearest(name, FOR_TABLES))
    if not names:
        raise InputError("--members", "none", f"some of {', '.join(FOR_TABLES)}")
    by_kind = RANKED_KINDS if ranked else KINDS
    return tuple(member for kind, of_kind in by_kind.items() if kind in names for member in of_kind)


def every_member() -> tuple[Member, ...]:
    """Whoever may be named in a stored ensemble."""
    return (*members(), *members(ranked=True), *FOR_PICTURES)


__all__ = [
    "FOR_FEATURES",
    "FOR_PICTURES",
    "FOR_TABLES",
    "KINDS",
    "ExtraTrees",
    "Fitted",
    "GradeTrees",
    "Job",
    "LambdaTrees",
    "Linear",
    "Member",
    "Network",
    "PictureMetric",
    "PictureNetwork",
    "RankedLinear",
    "RankedNetwork",
    "Rows",
    "Trees",
    "every_member",
    "members",
]
