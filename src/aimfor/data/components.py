"""A thousand features as a few hundred: the directions in which training rows differ most, with their own sizes.

Features of a pretrained network overlap. Their principal components carry nearly all they say in a fifth of the
columns, which makes every member of an ensemble faster. Components are *not* scaled to one size: how much rows differ
along a direction says how much to trust it, and a penalty on coefficients uses that.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

#: Components at most.
WIDTH = 256
#: Deviation of the first component. Members hold inputs within ±10.
FIRST = 2.0
_BLOCK = 4096


class Components:
    """``((x − mean) / deviation) @ axes``, float32. Learned from rows without their labels.

    Example:
        >>> x = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
        >>> small = Components.fit(x, width=3)
        >>> torch.equal(Components.restore(small.state)(x), small(x)), small.width
        (True, 3)
    """

    def __init__(self, mean: Tensor, deviation: Tensor, axes: Tensor) -> None:
        self.mean, self.deviation, self.axes = mean, deviation, axes

    @classmethod
    def fit(cls, x: Tensor, width: int = WIDTH) -> Components:
        """From ``(n, d)`` rows: at most ``width`` components, and no more than the rows can tell apart.

        Example:
            >>> x = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
            >>> small = Components.fit(x, 3)
            >>> small(x).shape, round(float(small(x).std(0, correction=0).max()), 3)
            (torch.Size([50, 3]), 2.0)
        """
        if x.ndim != 2 or len(x) < 2 or not bool(x.isfinite().all()):
            raise InputError("x", f"shape {tuple(x.shape)}", "(n, d) finite features of at least two rows")
        mean, deviation = x.double().mean(0), x.double().std(0, correction=0)
        deviation = torch.where(deviation > 1e-9, deviation, torch.inf)
        covariance = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64)
        for block in x.split(_BLOCK):
            z = ((block.double() - mean) / deviation).float()
            covariance += (z.T @ z).double()
        values, vectors = torch.linalg.eigh(covariance / len(x))
        values, vectors = values.flip(0), vectors.flip(1)
        kept = max(1, min(width, len(x) - 1, int((values > 1e-6 * values[0]).sum())))
        sign = torch.where(vectors.sum(0) < 0, -1.0, 1.0)  # eigenvectors have no sign of their own
        axes = (vectors * sign)[:, :kept] * (FIRST / values[0].clamp_min(1e-12).sqrt())
        return cls(mean.float(), deviation.float(), axes.float().contiguous())

    @property
    def width(self) -> int:
        return self.axes.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        return in_blocks(lambda block: ((block - self.mean) / self.deviation) @ self.axes, x.float())

    @property
    def state(self) -> dict[str, Any]:
        """As JSON: float32 numbers in base64."""
        return {name: _packed(getattr(self, name)) for name in ("mean", "deviation", "axes")}

    @classmethod
    def restore(cls, state: Any) -> Components:
        """Raises `InputError` for a damaged state."""
        try:
            mean, deviation, axes = (_unpacked(state[name]) for name in ("mean", "deviation", "axes"))
            fine = mean.shape == deviation.shape == axes.shape[:1] and axes.ndim == 2 and bool((deviation > 0).all())
            fine = fine and bool(mean.isfinite().all() & axes.isfinite().all())
        except (KeyError, TypeError, ValueError, RuntimeError):
            fine = False
        if not fine:
            raise InputError("run", "a damaged description of features", "the one training wrote")
        return cls(mean, deviation, axes)


def _packed(values: Tensor) -> dict[str, Any]:
    content = values.numpy().astype("<f4").tobytes()
    return {"shape": list(values.shape), "float32": base64.b64encode(content).decode("ascii")}


def _unpacked(state: Any) -> Tensor:
    content = base64.b64decode(state["float32"], validate=True)
    return torch.from_numpy(np.frombuffer(content, dtype="<f4").astype(np.float32).reshape(state["shape"]))


def in_blocks(score: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The scores of all rows by a function that always sees blocks of one size, filled up with zeros.

    Matrix products choose their order of summation by the number of rows, and a row's score must not depend on the
    other rows of the file, not even in its last bit.
    """
    step = 32 if x.ndim == 2 else 64  # a row alone costs a whole block; many rows cost no more by smaller ones
    return torch.cat([score(_filled(x[i : i + step], step)) for i in range(0, len(x), step)])[: len(x)]


def _filled(x: Tensor, rows: int) -> Tensor:
    return x if len(x) == rows else torch.cat((x, x.new_zeros(rows - len(x), *x.shape[1:])))
