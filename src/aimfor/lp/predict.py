"""Predict, then optimise: gradient rules, layers and losses for a network that predicts the costs of a program.

The rules need nothing of a solver but its answers, so that they serve any `Oracle` as they serve `solve`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..errors import InputError, SolverError
from ..twice import once, unrecorded
from .adjoint import Solved
from .gradients import ActiveSet, GradientRule, Refused, VertexOrRefuse
from .program import Program, floating
from .public import LinearProgram, instance, without_optimum

REASON = "a rule for learned costs is an estimate of the first derivative."

#: From costs ``(s·b, v)``, s copies of the batch one after another, to optima of the same shape; no graph.
Again = Callable[[Tensor], Tensor]


class CostRule(GradientRule):
    """A rule for c made of further solves. Right-hand sides, rows and bounds keep `ActiveSet`'s gradient."""

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        mine = self.attach(program.c, solved.again, x)
        if any(tensor is not None and tensor.requires_grad for tensor in program.parts[1:]):
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


class Oracle(nn.Module):
    """``x*(c) = argmin c·x`` over a fixed set, by whatever solves it: a `LinearProgram`, or a function of yours.

    Args:
        solver: A `LinearProgram` without c, or a function from costs to a solution (a tensor, an array or a list): a
            shortest path, a knapsack, a call to another package. To maximise, negate the costs.
        gradient: `BlackBox` or `Perturbed`; None refuses a backward pass.
        batched: Whether the function takes ``(b, v)`` and returns as much, in place of ``(v,)`` at a time.
        feasible: From solutions ``(b, v)`` to ``(b,)`` bool, to check a function's answers; a program knows its own.
        on_failure: ``"raise"`` stops with the first item that has no answer, ``"skip"`` warns and makes that item NaN
            (a loss leaves it out). The other items are as they would be.

    Example:
        >>> import torch, aimfor
        >>> def cheapest(costs):  # (v,) to (v,)
        ...     return torch.nn.functional.one_hot(costs.argmin(), len(costs))
        >>> layer = Oracle(cheapest, aimfor.lp.BlackBox(10.0))
        >>> costs = torch.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
        >>> layer(costs).tolist()
        [[0.0, 1.0, 0.0]]
        >>> layer(costs)[0, 1].backward()  # a higher cost of the second would choose the third
        >>> [round(one, 3) for one in costs.grad[0].tolist()]
        [0.0, -0.1, 0.1]
    """

    def __init__(
        self,
        solver: LinearProgram | Callable[[Tensor], Any],
        gradient: CostRule | None = None,
        *,
        batched: bool = False,
        feasible: Callable[[Tensor], Tensor] | None = None,
        on_failure: str = "raise",
    ) -> None:
        super().__init__()
        if not callable(solver):
            raise InputError("solver", repr(solver), "a LinearProgram, or a function from costs to a solution")
        self.solver, self.batched, self.feasible = solver, batched, feasible
        self.gradient = None if gradient is None else instance("gradient", gradient, CostRule, "BlackBox(10.0)")
        self.on_failure = checks.one_of("on_failure", on_failure, ("raise", "skip"))

    def forward(self, costs: Tensor) -> Tensor:
        """Solutions for ``(…, v)`` costs, in their shape and dtype."""
        flat = read_costs("costs", costs).reshape(-1, costs.shape[-1])
        x = self.optima(flat) if self.gradient is None else self.gradient.attach(flat, self.optima)
        if self.gradient is None and flat.requires_grad:
            x = Refused.apply(x, VertexOrRefuse.costs_alone, flat)
        return x.reshape(costs.shape).to(costs.dtype)

    def optima(self, costs: Tensor) -> Tensor:
        """``(b, v)`` to ``(b, v)``, detached, in float64; what failed is NaN, or raises."""
        costs = costs.detach()
        with torch.no_grad():
            if isinstance(self.solver, LinearProgram):
                x, statuses = self.solver.optima(costs)
                failed = without_optimum(statuses)
            else:
                x, failed = self._function(costs)
        if failed:
            item, why = next(iter(failed.items()))
            text = f"solver: {len(failed)} of {len(costs)} items have no solution; item {item}: {why}"
            if self.on_failure == "raise":
                raise SolverError(text)
            warnings.warn(f"{text} They are left out.", stacklevel=2)
            x[list(failed)] = torch.nan
        return x

    def _function(self, costs: Tensor) -> tuple[Tensor, dict[int, str]]:
        x, failed = torch.full_like(costs, torch.nan), {}
        if self.batched:
            whole = _answer(self.solver, costs)
            if isinstance(whole, str):
                return x, dict.fromkeys(range(len(costs)), whole)
            x = whole
        else:
            for i, cost in enumerate(costs):
                answer = _answer(self.solver, cost)
                if isinstance(answer, str):
                    failed[i] = answer
                else:
                    x[i] = answer
        for i in (~x.isfinite().all(1)).nonzero().squeeze(1).tolist():
            failed.setdefault(i, "the solver returned a number that is not finite.")
        if self.feasible is not None:
            allowed = torch.as_tensor(self.feasible(x)).reshape(-1)
            if allowed.shape != (len(x),):
                raise InputError("feasible", f"shape {tuple(allowed.shape)}", f"one answer for each of {len(x)} items")
            for i in (~allowed.bool()).nonzero().squeeze(1).tolist():
                failed.setdefault(i, "the solver returned a point that feasible() refuses.")
        return x, failed


def _answer(solver: Any, costs: Tensor) -> Tensor | str:
    """The solver's answer in float64, or what is wrong with it."""
    try:
        answer = torch.as_tensor(solver(costs.clone()))
    except Exception as error:  # the solver is not ours: whatever it raises is reported with its item
        return f"the solver raised {type(error).__name__}: {' '.join(str(error).split())}."
    if answer.shape != costs.shape:
        return f"the solver returned shape {tuple(answer.shape)}, expected {tuple(costs.shape)}."
    return answer.detach().to(costs)


def read_costs(name: str, costs: Any) -> Tensor:
    """Finite costs ``(…, v)``, in float64 and attached."""
    given = floating(name, costs)
    if not given.ndim:
        raise InputError(name, "a scalar", "numbers of shape (…, v)")
    return given.double()


class DecisionLoss(nn.Module, ABC):
    """A convex stand-in for the regret ``c·x*(ĉ) − c·x*(c)`` of deciding by predicted costs ĉ where c are true.

    Args:
        program: A `LinearProgram` without c, an `Oracle`, or a function from costs ``(v,)`` to a solution.
    """

    def __init__(self, program: LinearProgram | Oracle | Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.oracle = program if isinstance(program, Oracle) else Oracle(program)

    def forward(self, predicted: Tensor, true: Tensor, solution: Tensor | None = None) -> Tensor:
        """The mean over the batch.

        Args:
            predicted: ``(…, v)``.
            true: ``(…, v)``.
            solution: ``(…, v)``, the optimum for ``true`` where it is known: half of the solves are then saved.
        """
        guess, truth = read_costs("predicted", predicted), read_costs("true", true).detach()
        if truth.shape != guess.shape:
            raise InputError("true", f"shape {tuple(truth.shape)}", f"the shape of predicted, {tuple(guess.shape)}")
        guess, truth = guess.reshape(-1, guess.shape[-1]), truth.reshape(-1, guess.shape[-1])
        best = self.oracle.optima(truth) if solution is None else _optimum(solution, predicted).reshape(guess.shape)
        costs = self.costs(guess, truth)
        rivals = self.oracle.optima(costs.reshape(-1, costs.shape[-1])).reshape(costs.shape)
        # What an oracle skipped is taken out before it meets a cost, or its NaN would reach the gradient.
        solved = best.isfinite().all(-1) & rivals.isfinite().all(-1).all(0)
        rivals, best = (torch.where(solved[:, None], x, 0.0) for x in (rivals, best))
        each = (self.scored(guess, truth) * best).sum(-1) - (costs * rivals).sum(-1).mean(0)
        return (each.sum() / solved.sum().clamp_min(1)).to(predicted.dtype)

    @abstractmethod
    def costs(self, guess: Tensor, truth: Tensor) -> Tensor:
        """The costs whose optima compete with the true one, ``(samples, b, v)``."""

    @abstractmethod
    def scored(self, guess: Tensor, truth: Tensor) -> Tensor:
        """The costs at which the true optimum is counted, ``(b, v)``."""


class SPOPlus(DecisionLoss):
    """``(2ĉ − c)·(x*(c) − x*(2ĉ − c))``, a convex upper bound on the regret; subgradient ``2(x*(c) − x*(2ĉ − c))``.

    Example:
        >>> import torch, aimfor
        >>> one = {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1), "lower": 0.0}
        >>> loss_fn = SPOPlus(aimfor.lp.LinearProgram(**one))
        >>> predicted = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> loss = loss_fn(predicted, true=torch.tensor([[2.0, 1.0]]))
        >>> loss.item()  # the regret is 1
        3.0
        >>> loss.backward()
        >>> predicted.grad.tolist()
        [[-2.0, 2.0]]

    References:
        Elmachtoub, Grigas, Smart "predict, then optimize", 2022.
    """

    def costs(self, guess: Tensor, truth: Tensor) -> Tensor:
        return self.scored(guess, truth)[None]

    def scored(self, guess: Tensor, truth: Tensor) -> Tensor:
        return 2.0 * guess - truth


class PerturbedFenchelYoung(DecisionLoss):
    """``ĉ·x*(c) − E min_x (ĉ + σZ)·x``, Z standard normal; gradient ``x*(c) − E x*(ĉ + σZ)``, zero at the best ĉ.

    Args:
        program: As for `SPOPlus`.
        samples: How many Z the mean is over.
        sigma: σ, in units of the costs.
        seed: Of the noise, which is drawn anew in each call.

    Example:
        >>> import torch, aimfor
        >>> one = {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1), "lower": 0.0}
        >>> loss_fn = PerturbedFenchelYoung(aimfor.lp.LinearProgram(**one), samples=20)
        >>> predicted = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> loss_fn(predicted, true=torch.tensor([[2.0, 1.0]])).backward()
        >>> bool(predicted.grad[0, 0] < 0 < predicted.grad[0, 1])
        True

    References:
        Berthet, Blondel, Teboul, Cuturi, Vert, Bach, Learning with differentiable perturbed optimizers, 2020.
    """

    def __init__(
        self,
        program: LinearProgram | Oracle | Callable[[Tensor], Any],
        samples: int = 10,
        sigma: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(program)
        self.rule = Perturbed(samples, sigma, seed)

    def costs(self, guess: Tensor, truth: Tensor) -> Tensor:
        return guess + self.rule.sigma * self.rule.noise(guess.detach())

    def scored(self, guess: Tensor, truth: Tensor) -> Tensor:
        return guess


def _optimum(solution: Any, predicted: Tensor) -> Tensor:
    x = read_costs("solution", solution).detach()
    if x.shape != predicted.shape:
        raise InputError("solution", f"shape {tuple(x.shape)}", f"the shape of predicted, {tuple(predicted.shape)}")
    return x
