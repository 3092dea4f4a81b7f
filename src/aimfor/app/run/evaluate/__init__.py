"""Numbers about one part of the data, all JSON-able: what the report shows, and where each number comes from."""

from .part import evaluate, or_undefined

__all__ = ["evaluate", "or_undefined"]
