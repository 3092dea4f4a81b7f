"""Labels as text: one spelling for one label."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..spelling import canonical, is_number

if TYPE_CHECKING:
    from .columns.cells import Column

_CODE = re.compile(r"[+-]?0\d")


def labels_of(column: Column) -> NDArray[Any]:
    """Labels as text, ``(n,)`` objects; None where missing. ``1.0`` and ``1`` are one label, ``01`` is another."""
    codes, found = column.distinct()
    return np.array([*tidy_labels(found), None], dtype=object)[codes]


def tidy_labels(found: list[str]) -> list[str]:
    """One spelling for one label, of the different values of a column."""
    return [canonical(text) if is_number(text) and not _CODE.match(text) else text for text in found]
