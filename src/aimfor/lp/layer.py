"""`LinearProgram`: `solve` as an nn.Module, for the parts of a program that are fixed or learned."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..engine import Status
from ..errors import InputError
from .gradients import GradientRule
from .operators.structured import PairRows
from .problem import read_program
from .public import raise_unless_solved, read_method, solve
from .solution import LPSolution, at_costs
from .solvers.base import Method
from .solvers.chain import solve_standard
from .standard import Scaling, Standard, equilibrate, standard_form

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
        method: Method | str | None = None,
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
        self.gradient, self.tol, self.on_failure = gradient, tol, on_failure
        self.method = read_method(method)  # made once: what a method keeps between calls is kept here
        self.numbers: dict[str, float] = {}
        self._scaled: tuple[dict[str, Tensor], Standard, Scaling] | None = None
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

    @torch.no_grad()
    def optima(self, costs: Tensor) -> tuple[Tensor, list[Status]]:
        """x in float64, detached, and how each item ended, for finite costs ``(s·b, v)``: s copies of the batch.

        b is what the kept parts stand for. They are checked and scaled once, and again when any of them has changed.
        """
        kept = {name: part.detach() for name, part in (*self.named_parameters(), *self.named_buffers()) if name != "c"}
        if self._scaled is None or not _alike(self._scaled[0], kept):
            c = costs.new_zeros(costs.shape[-1])
            program = read_program(c, *(kept.get(name, self.numbers.get(name)) for name in PARTS[1:]))
            copies = {name: part.clone() for name, part in kept.items()}
            self._scaled = (copies, *equilibrate(standard_form(program)[0]))
        _, scaled, scaling = self._scaled
        b = scaled.c.shape[0]
        if costs.shape[0] % b or costs.shape[-1] != scaled.c.shape[1]:
            expected = f"({b}, {scaled.c.shape[1]}) or whole copies of it, as the parts of the program"
            raise InputError("costs", f"shape {tuple(costs.shape)}", expected)
        rerun = partial(solve_standard, method=self.method, tol=self.tol, fallback=self.on_failure != "status")
        x, statuses, _ = at_costs(scaled, scaling, rerun, costs)
        if self.on_failure == "raise":
            raise_unless_solved(statuses)
        return x, statuses

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scaled": None}

    def extra_repr(self) -> str:
        kept = [*self.numbers, *(name for name, _ in self.named_parameters()), *(n for n, _ in self.named_buffers())]
        return "kept: " + (", ".join(kept) or "nothing")


def _alike(kept: dict[str, Tensor], parts: dict[str, Tensor]) -> bool:
    """Whether nothing has changed, by the numbers themselves: a version does not count what `.data` does."""
    return kept.keys() == parts.keys() and all(
        mine.device == part.device and all(map(torch.equal, _values(mine), _values(part)))
        for mine, part in zip(kept.values(), parts.values(), strict=True)
    )


def _values(part: Tensor) -> tuple[Tensor, ...]:
    if part.layout == torch.sparse_csr:
        return part.crow_indices(), part.col_indices(), part.values()
    return (part,)
