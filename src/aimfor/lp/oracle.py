"""`Oracle`: any solver, from costs to a solution, as a layer; its answers are checked item by item."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Status
from ..errors import InputError, SolverError
from .costs import CostRule
from .gradients import VertexOrRefuse
from .layer import LinearProgram
from .public import instance

ON_FAILURE = ("raise", "skip")


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
        self.on_failure = checks.one_of("on_failure", on_failure, ON_FAILURE)

    def forward(self, costs: Tensor) -> Tensor:
        """Solutions for ``(…, v)`` costs, in their shape and dtype."""
        flat = read_costs("costs", costs).reshape(-1, costs.shape[-1])
        x = self.optima(flat) if self.gradient is None else self.gradient.attach(flat, self.optima)
        if self.gradient is None and flat.requires_grad:
            x = _Refused.apply(x, flat)
        return x.reshape(costs.shape).to(costs.dtype)

    def optima(self, costs: Tensor) -> Tensor:
        """``(b, v)`` to ``(b, v)``, detached, in float64; what failed is NaN, or raises."""
        costs = costs.detach()
        with torch.no_grad():
            solver = self.solver
            x, failed = _by_program(solver, costs) if isinstance(solver, LinearProgram) else self._function(costs)
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
            for i, one in enumerate(costs):
                answer = _answer(self.solver, one)
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


def _by_program(program: LinearProgram, costs: Tensor) -> tuple[Tensor, dict[int, str]]:
    x, statuses = program.optima(costs)
    bad = {i: s for i, s in enumerate(statuses) if s not in (Status.ok, Status.fallback)}
    return x, {i: f"{status.message}. Next: {status.remedy}." for i, status in bad.items()}


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
    given: Tensor = checks.tensor(name, costs)
    if not given.is_floating_point():
        raise InputError(name, f"dtype {given.dtype}", "floating point", f"Use {name}.double().")
    if not given.ndim:
        raise InputError(name, "a scalar", "numbers of shape (…, v)")
    checks.finite(name, given)
    return given.double()


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, costs: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise SolverError(VertexOrRefuse.costs_alone)
