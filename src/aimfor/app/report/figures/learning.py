"""What folds say of a committee's members while they learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import colour, shortened, svg, tidy


def fold_curves(members: Sequence[dict[str, Any]]) -> str:
    """A panel for each member: one line a fold on its held-out rows, and where the member was told to stop."""
    across = min(3, len(members))
    down = -(-len(members) // across)

    def draw(figure: Any) -> None:
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for place, (axes, member) in enumerate(zip(panels, members, strict=False)):
            curves = member["curves"]
            for fold in curves["folds"]:
                y = [np.nan if one is None else one for one in fold]
                axes.plot(curves["ticks"][: len(y)], y, color=colour(place), linewidth=0.9, alpha=0.7, marker=".")
            axes.axvline(curves["chosen"], color="#222222", linewidth=0.9, linestyle=":")
            axes.set_title(shortened(member["title"], 26))
            tidy(axes, curves["unit"], curves["value"])
        for axes in panels[len(members) :]:
            axes.set_visible(False)

    spoken = "The metric on each fold's held-out rows while the members learn: " + ", ".join(
        f"{member['title']} stops at {member['curves']['chosen']} {member['curves']['unit']}" for member in members
    )
    return svg("folds", spoken, (2.9 * across, 2.3 * down), draw)
