"""Embeddings for classes that were not there in training: what makes them, how one is chosen, who is near whom."""

from ...targets.neighbours import Nearest, nearest, query_values
from .fit import EmbeddingFit, Part, fit_embedding

__all__ = ["EmbeddingFit", "Nearest", "Part", "fit_embedding", "nearest", "query_values"]
