"""The default on tables: members that predict out of fold, weighed by the metric itself."""

from .cells import Progress
from .committee import Committee, OutOfFold, Seat
from .convene import fit_committee
from .members import FOR_FEATURES, FOR_TABLES, KINDS
from .store import FolderStore, MemoryStore, Store

__all__ = [
    "FOR_FEATURES",
    "FOR_TABLES",
    "KINDS",
    "Committee",
    "FolderStore",
    "MemoryStore",
    "OutOfFold",
    "Progress",
    "Seat",
    "Store",
    "fit_committee",
]
