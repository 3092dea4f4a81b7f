"""The whole data set in one gradient: a batch scored in parts, each run again when its gradient is needed."""

from __future__ import annotations

from .parts import in_parts

__all__ = ["in_parts"]
