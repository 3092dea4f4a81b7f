"""What is made when nobody says what to make: the one place that decides it, for every kind of input."""

from __future__ import annotations

from .config import Recipe, find_recipe


def default_recipe(*, one_network: bool = False) -> Recipe | None:
    """The recipe for one network, or None: the committee (`fit_committee`), which is the default wherever it can be.

    On a table and on features of a backbone it has members of its own; on pixels it is made of folds of a small
    network, or of the one the user brings. It cannot be used where the user shapes a network. There the default is the
    recipe ``auto``: cross-entropy, also on balanced batches, then metric and head where they are clearly better on
    validation rows.

    Args:
        one_network: The user names a model for a table, its size, or how it is trained.

    Example:
        >>> from aimfor.fitting.default import default_recipe
        >>> default_recipe() is None, default_recipe(one_network=True).name
        (True, 'auto')
    """
    return find_recipe("auto") if one_network else None
