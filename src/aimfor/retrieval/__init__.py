"""Retrieval: embeddings whose neighbours should be of their own class, trained and judged by the lists' metric."""

from .evaluate import evaluate
from .loss import ClassAnchor, RetrievalLoss
from .pairs import pair_scores

__all__ = ["ClassAnchor", "RetrievalLoss", "evaluate", "pair_scores"]
