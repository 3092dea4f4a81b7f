"""The last layer, refitted on the whole data set for the metric."""

from .fitted import HeadFit, HeadRecord
from .fitter import HeadFitter

__all__ = ["HeadFit", "HeadFitter", "HeadRecord"]
