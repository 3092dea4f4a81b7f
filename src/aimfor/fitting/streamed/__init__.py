"""Exact metrics of scores that do not fit in memory: `evaluate` over NumPy files, Parquet columns or any chunks."""

from .evaluate import Found, evaluate
from .sources import ScoreSource, from_arrays, from_chunks, from_parquet

__all__ = ["Found", "ScoreSource", "evaluate", "from_arrays", "from_chunks", "from_parquet"]
