"""Runs without the time that figures, intervals and the disk take, two thirds of a small run.

Figures are made, but not laid out and written; intervals and importances are found as ever, from fewer draws of rows;
nobody waits until a file has reached the disk, which only a power cut could tell.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

_DRAWING: list[Any] = []


def undraw(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone, a figure is saved as an empty one."""
    from matplotlib.figure import Figure

    _DRAWING.append(Figure.savefig)
    patch.setattr(Figure, "savefig", _save)


def redraw(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone, figures are drawn again."""
    from matplotlib.figure import Figure

    patch.setattr(Figure, "savefig", _DRAWING[0] if _DRAWING else Figure.savefig)


def draw_less(patch: pytest.MonkeyPatch, draws: int = 20) -> None:
    """Until the patch is undone, intervals and importances come from this many draws instead of hundreds, and a
    ensemble's weights from two instead of twelve."""
    from aimfor.learners.ensemble import weights
    from aimfor.targets import importance, intervals

    for module, name in [
        (intervals, "LEAST_DRAWS"),
        (intervals, "MOST_DRAWS"),
        (importance, "_DRAWS"),
    ]:
        patch.setattr(module, name, draws)
    for name in ("DRAWS", "DRAWS_OF_MANY"):
        patch.setattr(weights, name, 2)


def wait_less(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone, a written file is the system's business."""
    patch.setattr(os, "fsync", lambda _: None)


#: For a program in a process of its own.
ALL = (undraw, draw_less, wait_less)


def _save(figure: Any, file: Any, **_: Any) -> None:
    file.write('<svg width="1pt" height="1pt"></svg>')
