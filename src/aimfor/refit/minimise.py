"""One fit: an objective plus a ridge, minimised over the layer by L-BFGS on the full batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .objectives import HeadObjective
from .space import Space


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
    """Minimises ``objective(shape(z wᵀ + b)) + (ridge / 2) ‖w − centre‖²`` over ``(w, b)``.

    Args:
        objective: The loss of the scores.
        space: Features in standardised coordinates.
        shape: Brings ``(n, k)`` scores into the layout the objective takes.
        start: Where to begin, ``(k, d)`` and ``(k,)``.
        centre: Where the ridge pulls to, ``(k, d)``.
        ridge: Above 0.
        iterations: At most this many L-BFGS steps.
        tolerance: On the largest entry of the preconditioned gradient.
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
    largest = max(float(part.grad.abs().max()) for part in (v, bias) if part.grad is not None and part.numel())
    return Solution(weight_of(v.detach()), bias.detach(), largest, evaluations)
