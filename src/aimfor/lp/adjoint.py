"""From a gradient in the equilibrated program to gradients of the user's arguments: the autograd side of `solve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import SolverError
from ..twice import once, unrecorded
from .operators.structured import PairRows, pair_gradient
from .program import Layout, Program, Scaling, Standard, is_csr
from .solvers.base import Point

REASON = "the optimum of a linear program is differentiated once."


@dataclass(frozen=True)
class Solved:
    """Everything a gradient rule may need, detached: the equilibrated program, its optimum, and the way back.

    Attributes:
        raw: The program before it was equilibrated, in the user's units.
        good: ``(b,)`` bool, items that have an optimum; the others get gradient zero.
        again: From other costs, s copies of the batch ``(s·b, v)``, to their optima.
    """

    program: Standard
    scaling: Scaling
    layout: Layout
    point: Point
    raw: Standard
    good: Tensor
    again: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Sensitivity:
    """A gradient in the equilibrated program: w.r.t. ĉ, ĥ, f̂, and for the rows a sum of outer products.

    Attributes:
        outer: Triples (left factor over inequalities, over equalities, right factor over variables).
    """

    c: Tensor
    h: Tensor
    f: Tensor
    outer: tuple[tuple[Tensor, Tensor, Tensor], ...]


#: From the gradient w.r.t. x̂, ``(b, v)``, to the gradient w.r.t. the equilibrated program.
Adjoint = Callable[[Solved, Tensor], Sensitivity]


def argmin_with_adjoint(
    program: Program, solved: Solved, x: Tensor, adjoint: Adjoint, costs_alone: str | None = None
) -> Tensor:
    """``x`` ``(b, v)``, attached to the program's parts by the product of a vector with its Jacobian.

    ``costs_alone`` is the sentence that refuses a backward pass which reaches c and nothing else. Then c has a node of
    its own: torch tells a node which of its inputs could receive a gradient, not which of them do.
    """
    c, *rest = program.parts
    if costs_alone is None or not program.c.requires_grad or not torch.is_grad_enabled():
        attached = _Argmin.apply(x, adjoint, solved, None, program.pairs, c, *rest)
    else:
        reached: set[str] = set()
        costs = _Costs.apply(program.c, reached, costs_alone)  # made before the other, so that it runs after it
        attached = _Argmin.apply(x, adjoint, solved, reached, program.pairs, program.c.detach(), *rest)
        attached = _Join.apply(costs, attached, reached)
    return once(attached, REASON, *program.parts)


def value_with_envelope(program: Program, solved: Solved, value: Tensor) -> Tensor:
    """``value`` ``(b,)``, attached to the program's parts by the envelope theorem."""
    return once(_Value.apply(value, solved, program.pairs, *program.parts), REASON, *program.parts)


class _Argmin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        adjoint: Adjoint,
        solved: Solved,
        reached: set[str] | None,
        pairs: PairRows | None,
        *parts: Tensor | None,
    ) -> Tensor:
        ctx.adjoint, ctx.solved, ctx.reached, ctx.parts = adjoint, solved, reached, _shapes(parts, pairs)
        return x.clone()

    @staticmethod
    @unrecorded(REASON)
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        solved: Solved = ctx.solved
        if ctx.reached is not None:
            ctx.reached.add("constraints")
        scale, layout = solved.scaling, solved.layout
        gradient = torch.where(solved.good[:, None], gradients[0] * scale.column * scale.size, 0.0)
        sensitivity = ctx.adjoint(solved, gradient)
        mask = solved.good[:, None]
        zero = sensitivity.c.new_zeros(())
        c = torch.where(mask, sensitivity.c * scale.column / scale.cost, zero)
        h = torch.where(mask, sensitivity.h * scale.row / scale.size, zero)
        f = torch.where(mask, sensitivity.f * scale.equality_row / scale.size, zero)
        outer = [
            (
                torch.where(mask, left * scale.row, zero)[:, : layout.general],
                torch.where(mask, left_equality * scale.equality_row, zero)[:, : layout.equalities],
                torch.where(mask, right * scale.column, zero),
            )
            for left, left_equality, right in sensitivity.outer
        ]
        return (None,) * 5 + _distribute(ctx, layout, solved.point.y, c, h, f, outer)


class _Costs(torch.autograd.Function):
    """The zero gradient of c, for a pass that has reached the constraints; a pass that has not is refused."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, reached: set[str], sentence: str) -> Tensor:
        ctx.reached, ctx.sentence = reached, sentence
        return torch.zeros_like(c)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        if not ctx.reached:
            raise SolverError(ctx.sentence)
        return torch.zeros_like(gradients[0]), None, None


class _Join(torch.autograd.Function):
    """x, with a node for c beside that of the constraints; every pass goes through here first."""

    @staticmethod
    def forward(ctx: Any, costs: Tensor, x: Tensor, reached: set[str]) -> Tensor:
        ctx.reached = reached
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.reached.clear()
        return gradients[0], gradients[0], None


class _Value(torch.autograd.Function):
    """The optimal value with the envelope gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, solved: Solved, pairs: PairRows | None, *parts: Tensor | None) -> Tensor:
        ctx.solved, ctx.parts = solved, _shapes(parts, pairs)
        return value.clone()

    @staticmethod
    @unrecorded(REASON)
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        solved: Solved = ctx.solved
        mask, zero = solved.good[:, None], gradients[0].new_zeros(())
        weight = torch.where(mask, gradients[0][:, None], zero)
        x = torch.where(mask, solved.scaling.primal(solved.point.x), zero)
        z = torch.where(mask, weight * solved.scaling.dual(solved.point.z), zero)
        y = torch.where(mask, weight * solved.scaling.dual_equality(solved.point.y), zero)
        outer = [(z[:, : solved.layout.general], y[:, : solved.layout.equalities], x)]
        return (None, None, None, *_distribute(ctx, solved.layout, solved.point.y, weight * x, -z, -y, outer))


def _shapes(parts: tuple[Tensor | None, ...], pairs: PairRows | None) -> tuple[Any, ...]:
    """What backward must know of its inputs: the structure or pattern of the rows, the leading size of dense parts."""
    shapes: list[Any] = [None if t is None else (t.detach() if is_csr(t) else t.shape[0]) for t in parts]
    if pairs is not None and parts[1] is not None:
        shapes[1] = PairRows(parts[1].detach(), pairs.positives)
    return tuple(shapes)


def _distribute(
    ctx: Any, layout: Layout, y: Tensor, c: Tensor, h: Tensor, f: Tensor, outer: list[tuple[Tensor, Tensor, Tensor]]
) -> tuple[Tensor | None, ...]:
    """Gradients w.r.t. (c, A, b, A_eq, b_eq, lower, upper) from those w.r.t. c, h, f and the rows."""
    needs, parts, m, k = ctx.needs_input_grad[-7:], ctx.parts, layout.general, layout.equalities
    lower = upper = None
    pin = f[:, k:]
    # A pinned variable follows the bound that its multiplier leans on.
    leans_up = y[:, k:] >= 0
    if needs[5]:
        lower = torch.zeros_like(c).index_add_(1, layout.lower, -h[:, m : m + layout.lower.numel()])
        lower.index_add_(1, layout.fixed, torch.where(leans_up & (parts[6] is not None), 0.0, pin))
    if needs[6]:
        upper = torch.zeros_like(c).index_add_(1, layout.upper, h[:, m + layout.lower.numel() :])
        upper.index_add_(1, layout.fixed, torch.where(leans_up, pin, 0.0))
    return (
        c if needs[0] else None,
        _outer_sum([(left, right) for left, _, right in outer], parts[1]) if needs[1] else None,
        h[:, :m] if needs[2] else None,
        _outer_sum([(left, right) for _, left, right in outer], parts[3]) if needs[3] else None,
        f[:, :k] if needs[4] else None,
        lower,
        upper,
    )


def _outer_sum(pairs: list[tuple[Tensor, Tensor]], like: Any) -> Tensor:
    """``Σ left rightᵀ`` in the layout of the matrix: batched, summed over the batch, or on a sparse pattern."""
    if isinstance(like, PairRows):
        return pair_gradient(pairs, like)
    if isinstance(like, Tensor):
        crow, column = like.crow_indices(), like.col_indices()
        row = torch.repeat_interleave(torch.arange(like.shape[0], device=like.device), crow.diff())
        values = torch.stack([(left[:, row] * right[:, column]).sum(0) for left, right in pairs]).sum(0)
        return torch.sparse_csr_tensor(crow, column, values, like.shape, check_invariants=False)
    if like == 1:
        return sum(left.mT @ right for left, right in pairs)[None]  # type: ignore[index]
    return sum(left[:, :, None] * right[:, None, :] for left, right in pairs)  # type: ignore[return-value]
