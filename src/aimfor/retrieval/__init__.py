"""Retrieval: embeddings whose neighbours should be of their own class, trained and judged by the lists' metric."""

from .evaluate import evaluate
from .loss import RetrievalLoss

__all__ = ["RetrievalLoss", "evaluate"]
