"""The coordinates a layer is fitted in: standardised features, and a rotation that evens out the curvature."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

#: Rows per block of the covariance: keeps the float64 copy small.
BLOCK = 8192
#: Up to this many entries the fit runs in float64: it costs little and the line search never stalls on rounding.
SMALL = 1 << 23


@dataclass(frozen=True)
class Space:
    """Standardised features ``z = (x − mean) / deviation`` with the eigenvectors of their covariance.

    A weight row in these coordinates is ``w``; the user's layer on raw features is ``w / deviation`` with the mean
    folded into the bias (`to_layer`). With ``C = Q Λ Qᵀ`` the covariance, ``w = Q (v / √(Λ + ridge))`` makes the
    Hessian of every objective here near the identity in ``v``, and L-BFGS needs tens of steps, not thousands.
    """

    z: Tensor
    dtype: torch.dtype
    mean: Tensor
    deviation: Tensor
    eigenvalues: Tensor
    eigenvectors: Tensor

    def to_layer(self, weight: Tensor, bias: Tensor) -> nn.Linear:
        """The layer on raw features that equals ``(weight, bias)`` on standardised ones."""
        raw = weight.double() / self.deviation
        layer = nn.Linear(raw.shape[1], raw.shape[0], device=self.z.device, dtype=self.dtype)
        with torch.no_grad():
            layer.weight.copy_(raw)
            layer.bias.copy_(bias.double() - raw @ self.mean)
        return layer

    def from_layer(self, layer: nn.Linear) -> tuple[Tensor, Tensor]:
        """``(weight, bias)`` on standardised features, float64."""
        raw = layer.weight.detach().double()
        bias = raw.new_zeros(raw.shape[0]) if layer.bias is None else layer.bias.detach().double()
        return raw * self.deviation, bias + raw @ self.mean


def make_space(features: Tensor, counts: Tensor) -> Space:
    """Standardises ``(n, d)`` features; rows count by ``counts`` ``(n,)``, which should balance the classes."""
    share = counts.double() / counts.double().sum()
    mean = _blockwise(features, share, lambda x, s: s @ x)
    variance = _blockwise(features, share, lambda x, s: s @ (x - mean).square())
    deviation = variance.sqrt()
    # A feature that never moves (up to rounding of its own size) carries nothing: its weight is left alone.
    still = deviation <= 8 * torch.finfo(features.dtype).eps * mean.abs().clamp_min(torch.finfo(torch.float32).tiny)
    deviation = torch.where(still, torch.ones_like(deviation), deviation)
    precise = features.numel() <= SMALL
    z = torch.empty_like(features, dtype=torch.float64 if precise else features.dtype)
    for start in range(0, features.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        z[rows] = ((features[rows].double() - mean) / deviation).to(z.dtype)
    z[:, still] = 0.0
    covariance = torch.zeros(z.shape[1], z.shape[1], dtype=torch.float64, device=z.device)
    for start in range(0, z.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        root = share[rows].sqrt().to(z.dtype)[:, None]
        part = z[rows] * root
        covariance += (part.T @ part).double()
    eigenvalues, eigenvectors = torch.linalg.eigh(covariance)
    return Space(z, features.dtype, mean, deviation, eigenvalues.clamp_min(0.0), eigenvectors)


def _blockwise(features: Tensor, share: Tensor, reduce: object) -> Tensor:
    total = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    for start in range(0, features.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        total += reduce(features[rows].double(), share[rows])  # type: ignore[operator]
    return total
