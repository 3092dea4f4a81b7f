"""ENGINE "sorted": exact sums over all positive-negative pairs in O(n log n)."""

from .engine import SortedEngine
from .form import HasPairs, PairForm, PairProblem

__all__ = ["HasPairs", "PairForm", "PairProblem", "SortedEngine"]
