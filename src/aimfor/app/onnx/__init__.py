"""A committee as one ONNX file: raw columns in, probability and decision out."""

from .committee import committee_model

__all__ = ["committee_model"]
