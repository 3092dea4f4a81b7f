"""Who may sit in the ensemble."""

from __future__ import annotations

from typing import Any

from ....errors import InputError, nearest
from .base import Fitted, Job, Member, Rows
from .features import FeatureLinear, FeatureNetwork, FeatureTrees, Head
from .linear import Linear
from .network import Network
from .own import Own
from .pictures import PictureMetric, PictureNetwork
from .ranked import RankedLinear, RankedNetwork, RankedRidge
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
    "linear": (RankedLinear(), RankedRidge()),
    "trees": (LambdaTrees(), GradeTrees()),
    "network": (RankedNetwork(),),
}


def members(kinds: tuple[Any, ...] = tuple(KINDS), ranked: bool = False) -> tuple[Member, ...]:
    """The members of these kinds, in the order they learn. Raises `InputError` for an unknown kind or none.

    Args:
        kinds: Names, and scikit-learn classifiers of the caller's own, which learn last.
        ranked: Those that put the rows of a list in order, instead of those that tell classes apart.
    """
    names = [kind for kind in kinds if isinstance(kind, str)]
    for name in names:
        if name not in KINDS:
            raise InputError("--members", repr(name), f"some of {', '.join(FOR_TABLES)}", nearest(name, FOR_TABLES))
    if not kinds:
        raise InputError("--members", "none", f"some of {', '.join(FOR_TABLES)}")
    by_kind = RANKED_KINDS if ranked else KINDS
    chosen = [member for kind, of_kind in by_kind.items() if kind in names for member in of_kind]
    for estimator in (kind for kind in kinds if not isinstance(kind, str)):
        taken, name = [member.name for member in chosen], type(estimator).__name__
        same = sum(title.partition(" ")[0] == name for title in taken)
        chosen.append(Own(estimator, f"{name} {same + 1}" if same else name))
    return tuple(chosen)


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
