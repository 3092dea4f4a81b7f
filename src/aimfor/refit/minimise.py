"""One fit: an objective plus a ridge, minimised by L-BFGS in coordinates that even out the curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .objectives import HeadObjective

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
    zero = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    mean = sum((share[rows] @ features[rows].double() for rows in _blocks(features)), zero)
    squares = (share[rows] @ (features[rows].double() - mean).square() for rows in _blocks(features))
    deviation = sum(squares, zero).sqrt()
    # A feature that never moves (up to rounding of its own size) carries nothing: its weight is left alone.
    still = deviation <= 8 * torch.finfo(features.dtype).eps * mean.abs().clamp_min(torch.finfo(torch.float32).tiny)
    deviation = torch.where(still, torch.ones_like(deviation), deviation)
    precise = features.numel() <= SMALL
    z = torch.empty_like(features, dtype=torch.float64 if precise else features.dtype)
    covariance = torch.zeros(z.shape[1], z.shape[1], dtype=torch.float64, device=z.device)
    for rows in _blocks(features):
        z[rows] = ((features[rows].double() - mean) / deviation).masked_fill_(still, 0.0).to(z.dtype)
        weighted = z[rows] * share[rows].sqrt().to(z.dtype)[:, None]
        covariance += (weighted.T @ weighted).double()
    eigenvalues, eigenvectors = torch.linalg.eigh(covariance)
    return Space(z, features.dtype, mean, deviation, eigenvalues.clamp_min(0.0), eigenvectors)


def _blocks(features: Tensor) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, features.shape[0], BLOCK)]


@dataclass(frozen=True)
class Solution:
    """A layer in standardised coordinates, and how well it was solved.

    ``gradient`` is the largest entry of the preconditioned gradient at the end: 0 at an exact optimum.
    """

    weight: Tensor
    bias: Tensor
    gradient: float
    evaluations: int


@torch.enable_grad()
def minimise(
    objective: HeadObjective,
    space: Space,
    shape: Callable[[Tensor], Tensor],
    start: tuple[Tensor, Tensor],
    centre: Tensor,
    ridge: float,
    iterations: int,
    tolerance: float,
) -> Solution:
    """Minimises ``objective(shape(z wᵀ + b)) + (ridge / 2) ‖w − centre‖²`` over ``(w, b)`` from ``start``.

    ``shape`` brings ``(n, k)`` scores into the layout the objective takes; ``tolerance`` is on the largest entry of the
    preconditioned gradient.
    """
    scale = (space.eigenvalues + ridge).rsqrt()
    turn = space.eigenvectors

    def weight_of(v: Tensor) -> Tensor:
        return centre + (v * scale) @ turn.T

    v = (((start[0] - centre) @ turn) / scale).requires_grad_()
    bias = start[1].clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [v, bias],
        # Kinks stop the line search from making progress long before the count runs out.
        max_iter=iterations if objective.smooth else min(iterations, 30),
        max_eval=2 * iterations,
        tolerance_grad=tolerance,
        tolerance_change=1e-9 if space.z.dtype == torch.float32 else 1e-15,
        history_size=20,
        line_search_fn="strong_wolfe",
    )
    evaluations = 0

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        weight = weight_of(v)
        scores = space.z @ weight.to(space.z.dtype).T + bias.to(space.z.dtype)
        loss = objective.loss(shape(scores)).double() + 0.5 * ridge * (weight - centre).square().sum()
        loss.backward()
        return loss.detach()

    optimizer.step(closure)
    closure()
    gradients = [variable.grad for variable in (v, bias) if variable.grad is not None and variable.numel()]
    largest = max(float(gradient.abs().max()) for gradient in gradients)
    return Solution(weight_of(v.detach()), bias.detach(), largest, evaluations)
