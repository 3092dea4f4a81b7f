"""Figures as inline SVG text, one file a kind. Legends are HTML beside them, so that none ever covers a line."""

from .base import COLOURS, Legend
from .curves import curve_panels
from .differences import differences
from .importance import importance
from .learning import fold_curves
from .queries import queries
from .reliability import reliability
from .scores import score_histogram

__all__ = [
    "COLOURS",
    "Legend",
    "curve_panels",
    "differences",
    "fold_curves",
    "importance",
    "queries",
    "reliability",
    "score_histogram",
]
