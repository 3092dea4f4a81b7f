"""Masks: a decoder on feature maps learned fold by fold, and offsets per class chosen on pixels it has not seen."""

from .fit import MaskFit, Masks, fit_masks

__all__ = ["MaskFit", "Masks", "fit_masks"]
