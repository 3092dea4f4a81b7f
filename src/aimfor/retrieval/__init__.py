"""Retrieval: embeddings whose neighbours should be of their own class, trained and judged by the lists' metric."""

from .classes import ClassAnchor
from .evaluate import evaluate
from .loss import RetrievalLoss

__all__ = ["ClassAnchor", "RetrievalLoss", "evaluate"]
