"""A run on a table as one ONNX file: raw columns in, probability and decision out."""

from .export import Reading, run_model

__all__ = ["Reading", "run_model"]
