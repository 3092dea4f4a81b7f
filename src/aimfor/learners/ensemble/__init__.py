"""The default on tables: members that predict out of fold, weighed by the metric itself."""

from .cells import FolderStore, MemoryStore, Progress, Store
from .ensemble import Ensemble, OutOfFold, WeightedMember
from .fit import fit_ensemble
from .members import FOR_FEATURES, FOR_TABLES, KINDS

__all__ = [
    "FOR_FEATURES",
    "FOR_TABLES",
    "KINDS",
    "Ensemble",
    "FolderStore",
    "MemoryStore",
    "OutOfFold",
    "Progress",
    "Store",
    "WeightedMember",
    "fit_ensemble",
]
