"""What is made when nobody says what to make: the one place that decides it, for every kind of input."""

from __future__ import annotations

from typing import Literal, overload

from .config import Recipe, find_recipe

Kind = Literal["table", "pictures", "stream"]


@overload
def default_recipe(kind: Literal["stream"], *, one_network: bool = False) -> Recipe: ...
@overload
def default_recipe(kind: Kind, *, one_network: bool = False) -> Recipe | None: ...
def default_recipe(kind: Kind, *, one_network: bool = False) -> Recipe | None:
    """The recipe for one network, or None: the committee (`fit_committee`), which is the default wherever it can be.

    On a table and on features of a backbone it has members of its own; on pixels it is made of folds of a small
    network, or of the one the user brings. It cannot be used where the user shapes a network. There the default is the
    recipe ``auto``: cross-entropy, also on balanced batches, then metric and head where they are clearly better on
    validation rows. A stream is read once an epoch and is not kept, so its network is trained by cross-entropy alone.

    Args:
        kind: What the data are: a table in memory, pictures, or a table that is read as a stream.
        one_network: The user names a model for a table, its size, or how it is trained.

    Example:
        >>> from aimfor.fitting.default import default_recipe
        >>> default_recipe("table") is None, default_recipe("pictures"), default_recipe("stream").name
        (True, None, 'cross_entropy')
    """
    if kind == "stream":
        return find_recipe("cross_entropy")
    return find_recipe("auto") if one_network else None
