"""`LinearProgram`: `solve` as an nn.Module, for the parts of a program that are fixed or learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .gradients import GradientRule
from .operators.structured import PairRows
from .public import solve
from .solution import LPSolution
from .solvers.base import Method

PARTS = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")


class LinearProgram(nn.Module):
    """A linear program as a layer: what is given here is kept (and saved), the rest comes with each call.

    A tensor becomes a buffer, an ``nn.Parameter`` is learned.

    Args:
        gradient, method, tol, on_failure: As for `solve`.
        c, A, b, A_eq, b_eq, lower, upper: Those that all calls share, shaped as for `solve`.

    Example:
        >>> import torch, aimfor
        >>> layer = aimfor.lp.LinearProgram(A=torch.tensor([[1.0, 1.0]]), b=torch.tensor([1.0]), lower=0.0)
        >>> layer(c=torch.tensor([[-1.0, -2.0], [-3.0, -1.0]])).x.tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(
        self,
        *,
        gradient: GradientRule | None = None,
        method: Method | None = None,
        tol: float = 1e-9,
        on_failure: str = "fallback",
        c: Tensor | None = None,
        A: Tensor | None = None,
        b: Tensor | None = None,
        A_eq: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | float | None = None,
        upper: Tensor | float | None = None,
    ) -> None:
        super().__init__()
        self.gradient, self.method, self.tol, self.on_failure = gradient, method, tol, on_failure
        self.numbers: dict[str, float] = {}
        for name, part in zip(PARTS, (c, A, b, A_eq, b_eq, lower, upper), strict=True):
            if part is None:
                continue
            if isinstance(part, nn.Parameter):
                self.register_parameter(name, part)
            elif isinstance(part, Tensor):
                self.register_buffer(name, part)
            elif isinstance(part, (int, float)) and not isinstance(part, bool):
                self.numbers[name] = float(part)
            else:
                raise InputError(name, f"a {type(part).__name__}", "a tensor, a parameter, or a number for a bound")

    def forward(
        self,
        *,
        c: Tensor | None = None,
        A: Tensor | PairRows | None = None,
        b: Tensor | None = None,
        A_eq: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | float | None = None,
        upper: Tensor | float | None = None,
    ) -> LPSolution:
        """Solve with the kept parts and the given ones, which take precedence."""
        given: dict[str, Any] = {**self.numbers, **dict(self.named_parameters()), **dict(self.named_buffers())}
        parts = zip(PARTS, (c, A, b, A_eq, b_eq, lower, upper), strict=True)
        given |= {name: part for name, part in parts if part is not None}
        if "c" not in given:
            raise InputError("c", "nothing", "costs, here or when the layer is made")
        return solve(**given, gradient=self.gradient, method=self.method, tol=self.tol, on_failure=self.on_failure)

    def repeated(self, costs: Tensor) -> LPSolution:
        """Solve for costs ``(s·b, v)``: s copies, one after another, of the batch that the kept parts stand for."""
        kept = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        leads = {name: part.shape[: part.ndim - 1 - (name in ("A", "A_eq"))] for name, part in kept.items()}
        lead = max(leads.values(), key=len, default=torch.Size())
        if lead and costs.shape[0] % lead.numel():
            raise InputError("costs", f"{costs.shape[0]} items", f"{lead.numel()}, as the parts of the program")
        shape = (-1, *lead, costs.shape[-1]) if lead else costs.shape
        costs = costs.reshape(shape)
        copies = costs.shape[: 1 if lead else 0]
        parts = {name: part.expand(*copies, *part.shape) for name, part in kept.items() if leads[name]}
        return self.forward(c=costs, **parts)

    def extra_repr(self) -> str:
        kept = [*self.numbers, *(name for name, _ in self.named_parameters()), *(n for n, _ in self.named_buffers())]
        return "kept: " + (", ".join(kept) or "nothing")
