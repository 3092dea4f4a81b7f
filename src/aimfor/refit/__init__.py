"""The last layer, refitted on the whole data set for the metric."""

from typing import Any

from .fitted import HeadFit, HeadRecord
from .fitter import HeadFitter

__all__ = ["HeadFit", "HeadFitter", "HeadRecord"]


def __getattr__(name: str) -> Any:
    if name == "MetricHead":  # its name before 0.2.0
        return HeadFitter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
