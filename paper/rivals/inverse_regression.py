"""Sliced inverse regression (Li 1991), the sufficient dimension reduction of Meng's §4.1, for programs over features.

The means of standardised features within slices of the response span a part of the directions that matter for it; a
program over w = B v has as many variables as there are directions. How many, a test says: if k are enough, n times the
sum of the other eigenvalues is about χ² with (d − k)(slices − k − 1) degrees of freedom.
"""

from __future__ import annotations

import torch
from scipy import stats
from torch import Tensor

#: Share of the largest eigenvalue of the covariance below which a direction is held to be constant.
FLAT = 1e-9


def inverse_regression(x: Tensor, slices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, falling, and directions ``(d, d)`` as columns: features times the first few are what is kept.

    Args:
        x: ``(n, d)``.
        slices: ``(n,)`` ids: classes, or a response cut at its quantiles.
    """
    centred = x - x.mean(0)
    sizes, axes = torch.linalg.eigh(centred.T @ centred / len(x))
    root = axes * torch.where(sizes > FLAT * sizes[-1], sizes, torch.inf).rsqrt()
    z = centred @ root
    means = torch.stack([(slices == one).double().mean().sqrt() * z[slices == one].mean(0) for one in slices.unique()])
    values, vectors = torch.linalg.eigh(means.T @ means)
    return values.flip(0).clamp_min(0.0), root @ vectors.flip(1)


def dimension(values: Tensor, rows: int, slices: int, level: float = 0.05) -> int:
    """The least number of directions that the test does not refute, at least one."""
    d = len(values)
    for kept in range(min(d, slices - 1)):
        left = rows * float(values[kept:].sum())
        if left <= stats.chi2.ppf(1 - level, (d - kept) * (slices - kept - 1)):
            return max(kept, 1)
    return min(d, slices - 1)
