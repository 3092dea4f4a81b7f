"""The last layer, refitted on the whole data set for the metric."""

from .fitted import HeadFit, HeadRecord
from .head import MetricHead

__all__ = ["HeadFit", "HeadRecord", "MetricHead"]
