"""Numbers about one part of the data, all JSON-able: what the report shows, and where each number comes from."""

from .part import evaluate

__all__ = ["evaluate"]
