"""The last layer, refitted on the whole data set for the metric."""

from .fitter import HeadFit, HeadFitter, HeadRecord

__all__ = ["HeadFit", "HeadFitter", "HeadRecord"]
