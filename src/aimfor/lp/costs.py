"""Rules for learned costs: a gradient of x with respect to c where the true one is zero, from further solves alone.

Both need nothing of the solver but its answers, so that they serve any `Oracle` as they serve `solve`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..twice import once, unrecorded
from .adjoint import Solved
from .gradients import ActiveSet, GradientRule
from .problem import Program

REASON = "a rule for learned costs is an estimate of the first derivative."

#: From costs ``(s·b, v)``, s copies of the batch one after another, to optima of the same shape; no graph.
Again = Callable[[Tensor], Tensor]


class CostRule(GradientRule):
    """A rule for c made of further solves. Right-hand sides, rows and bounds keep `ActiveSet`'s gradient."""

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        mine = self.attach(program.c, solved.again, x)
        if any(part is not None and part.requires_grad for part in program.parts[1:]):
            rest = ActiveSet().argmin(replace(program, c=program.c.detach()), solved, x)
            mine = mine + (rest - rest.detach())
        return mine

    @abstractmethod
    def attach(self, c: Tensor, again: Again, x: Tensor | None = None) -> Tensor:
        """What stands for the optimum of costs ``c`` ``(b, v)``, attached to them; NaN has gradient zero.

        ``x`` is that optimum where it is known.
        """


class BlackBox(CostRule):
    """``∂L/∂c = (x(c + λ ∂L/∂x) − x(c)) / λ``: the gradient of a piecewise linear interpolation of L (Vlastelica 2020).

    One further solve in the backward pass. x is the optimum itself.

    Args:
        strength: λ, in units of costs per gradient of the loss: larger interpolates over more of the costs' space.

    Example:
        >>> import torch, aimfor
        >>> c = torch.tensor([1.0, 1.1], requires_grad=True)
        >>> one = {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1), "lower": 0.0}
        >>> x = aimfor.lp.solve(c, **one, gradient=BlackBox(0.5)).x
        >>> x.tolist()
        [1.0, 0.0]
        >>> x[0].backward()  # a higher cost of the first would lower it
        >>> c.grad.tolist()
        [-2.0, 2.0]

    References:
        Vlastelica, Paulus, Musil, Martius, Rolínek, Differentiation of blackbox combinatorial solvers, 2020.
    """

    def __init__(self, strength: float) -> None:
        self.strength = checks.number("strength", strength, above=0)

    def attach(self, c: Tensor, again: Again, x: Tensor | None = None) -> Tensor:
        x = again(c.detach()) if x is None else x
        return once(_Interpolated.apply(c, x, again, self.strength), REASON, c) if c.requires_grad else x


class _Interpolated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, x: Tensor, again: Again, strength: float) -> Tensor:
        ctx.save_for_backward(c, x)
        ctx.again, ctx.strength = again, strength
        return x.clone()

    @staticmethod
    @unrecorded(REASON)
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        c, x = ctx.saved_tensors
        solved = x.isfinite().all(-1, keepdim=True)
        moved = ctx.again(c + ctx.strength * torch.where(solved, gradients[0], 0.0))
        return torch.where(solved, (moved - x) / ctx.strength, 0.0), None, None, None


class Perturbed(CostRule):
    """``x = E x*(c + σZ)`` with Z standard normal, whose Jacobian is ``E x*(c + σZ) Zᵀ / σ`` (Berthet 2020).

    Both means are over the same samples: so many solves forward, in one batch, and none backward. In the second each
    solution is taken less the mean of the others, which changes nothing but the noise. x is then a mean of vertices,
    feasible and smooth in c; the solution's value is still that of the optimum.

    Args:
        samples: N.
        sigma: σ, in units of the costs.
        seed: Of the noise, which is drawn anew in each call.

    Example:
        >>> import torch, aimfor
        >>> c = torch.tensor([1.0, 1.1], requires_grad=True)
        >>> one = {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1), "lower": 0.0}
        >>> x = aimfor.lp.solve(c, **one, gradient=Perturbed(500, 0.5)).x
        >>> x[0].backward()
        >>> bool(0.5 < x[0] < 0.6), bool(c.grad[0] < 0 < c.grad[1])
        (True, True)

    References:
        Berthet, Blondel, Teboul, Cuturi, Vert, Bach, Learning with differentiable perturbed optimizers, 2020.
    """

    def __init__(self, samples: int = 10, sigma: float = 1.0, seed: int = 0) -> None:
        self.samples = checks.integer("samples", samples, at_least=1)
        self.sigma = checks.number("sigma", sigma, above=0)
        self.generator = torch.Generator().manual_seed(checks.integer("seed", seed, at_least=0))

    def noise(self, c: Tensor) -> Tensor:
        """Z, ``(samples, *c.shape)``."""
        shape = (self.samples, *c.shape)
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(c)

    def attach(self, c: Tensor, again: Again, x: Tensor | None = None) -> Tensor:
        z = self.noise(c)
        drawn = again((c.detach() + self.sigma * z).reshape(-1, c.shape[-1])).reshape(z.shape)
        return once(_Mean.apply(c, drawn, z, self.sigma), REASON, c) if c.requires_grad else drawn.mean(0)


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, drawn: Tensor, z: Tensor, sigma: float) -> Tensor:
        ctx.save_for_backward(drawn, z)
        ctx.sigma = sigma
        return drawn.mean(0)

    @staticmethod
    @unrecorded(REASON)
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        drawn, z = ctx.saved_tensors
        along = (drawn * gradients[0]).sum(-1, keepdim=True)
        if len(z) > 1:  # less the mean over the other samples, which are independent of this Z: same mean, less noise
            along = (along - along.mean(0)) * (len(z) / (len(z) - 1))
        return torch.where(along.isfinite(), along * z, 0.0).mean(0) / ctx.sigma, None, None, None
