"""Runs without the time that figures take: they are made, but not laid out and written, half of a small run."""

from __future__ import annotations

from typing import Any

import pytest


def undraw(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone, a figure is saved as an empty one."""
    from matplotlib.figure import Figure

    patch.setattr(Figure, "savefig", _save)


def _save(figure: Any, file: Any, **_: Any) -> None:
    file.write('<svg width="1pt" height="1pt"></svg>')
