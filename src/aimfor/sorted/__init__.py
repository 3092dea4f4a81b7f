"""ENGINE "sorted": exact sums over all positive-negative pairs in O(n log n)."""

from .engine import SortedEngine
from .form import SIDE_BY_SIDE, HasPairs, PairForm, PairProblem

__all__ = ["SIDE_BY_SIDE", "HasPairs", "PairForm", "PairProblem", "SortedEngine"]
