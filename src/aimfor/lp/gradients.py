"""Gradient rules as objects. The value's gradient is always the envelope's; the rules say what x's is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import checks
from ..errors import SolverError
from .certificates import Point, solve_gram
from .operators.dense import DenseOperator
from .operators.structured import PairRows, pair_gradient
from .problem import Program, is_csr
from .solvers.newton import Penalised, mangasarian_epsilon, minimise_penalty
from .standard import Layout, Scaling, Standard


@dataclass(frozen=True)
class Solved:
    """Everything a gradient rule may need, detached: the equilibrated program, its optimum, and the way back.

    Attributes:
        good: ``(b,)`` bool, items that have an optimum; the others get gradient zero.
    """

    program: Standard
    scaling: Scaling
    layout: Layout
    point: Point
    good: Tensor


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


class GradientRule(ABC):
    """What ∂x is."""

    @abstractmethod
    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        """``x`` ``(b, v)``, attached to the program's parts."""


class Envelope(GradientRule):
    """Only the value is differentiable: ``∂V/∂c = x, ∂V/∂b = −u, ∂V/∂A = u xᵀ``. Exact, and nearly free.

    A backward pass through ``x`` raises, rather than give a silent zero.
    """

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        attached = [part for part in program.parts if part is not None and part.requires_grad]
        return _Refuse.apply(x, *attached) if attached else x


class _AdjointRule(GradientRule):
    """A rule given by the product of a vector with the Jacobian of x."""

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        return _Argmin.apply(x, self, solved, program.pairs, *program.parts)  # type: ignore[no-any-return]

    @abstractmethod
    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        """From the gradient w.r.t. x̂, ``(b, v)``, to the gradient w.r.t. the equilibrated program."""


class ActiveSet(_AdjointRule):
    """Differentiate ``x = Ã⁻¹ b̃`` over the active rows: exact wherever the optimum is nondegenerate.

    ∂x/∂c is zero, as it truly is at a vertex. With more active rows than variables, or fewer, the pseudo-inverse
    takes the least-norm choice and `LPSolution.unique` is False.
    """

    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        program, mask = solved.program, solved.point.active.to(gradient.dtype)
        y = solve_gram(program, program.operator.factor(mask), mask, gradient)
        h = mask * program.operator.inequality(y[:, :, None])[:, :, 0]
        f = program.operator.equality(y[:, :, None])[:, :, 0]
        return Sensitivity(torch.zeros_like(gradient), h, f, ((h, f, -solved.point.x),))


class Implicit(_AdjointRule):
    """Differentiate the penalised optimum ``y(ε)`` in place of x, by the implicit function theorem.

    ``∂y/∂c = −ε (ÃᵀÃ + ρI)⁻¹`` is not zero, which is what learning costs needs; the other derivatives differ from
    the true ones by O(ε).

    Args:
        epsilon: ε of the equilibrated program: small for exactness, larger to smooth over more constraints. None
            chooses it for each program by Mangasarian's rule.
        ridge: ρ, relative to the unit diagonal.
    """

    def __init__(self, epsilon: float | None = 1e-4, ridge: float = 1e-10) -> None:
        self.epsilon = None if epsilon is None else checks.number("epsilon", epsilon, above=0)
        self.ridge = checks.number("ridge", ridge, at_least=0)

    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        program, epsilon = solved.program, _epsilon(solved, self.epsilon)
        found = penalised_optimum(solved, epsilon)
        mask = (found.rows > 0).to(gradient.dtype)
        step = solve_gram(program, program.operator.factor(mask, self.ridge), mask, gradient)
        h = mask * program.operator.inequality(step[:, :, None])[:, :, 0]
        f = program.operator.equality(step[:, :, None])[:, :, 0]
        return Sensitivity(-epsilon * step, h, f, ((h, f, -found.y), (-found.rows, -found.equal, step)))


class Unrolled(GradientRule):
    """Differentiate through the last Newton steps on the penalty, started at its optimum (dense programs).

    One step with ρ = 0 is `Implicit` by another route. With ρ > 0, k steps sum the first k terms of its Neumann
    series, which damps directions that the active rows hold only weakly.

    Args:
        steps: How many Newton steps are in the graph.
        epsilon, ridge: As for `Implicit`; the ridge is absolute here, as in the paper.
    """

    def __init__(self, steps: int = 5, epsilon: float = 1e-4, ridge: float = 1e-4) -> None:
        self.steps = checks.integer("steps", steps, at_least=1)
        self.epsilon = checks.number("epsilon", epsilon, above=0)
        self.ridge = checks.number("ridge", ridge, at_least=0)

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        if not isinstance(solved.program.operator, DenseOperator):
            raise SolverError("Unrolled needs a dense A. Use ActiveSet() or Implicit() with sparse or structured rows.")
        if not torch.is_grad_enabled() or not any(p is not None and p.requires_grad for p in program.parts):
            return x
        y = penalised_optimum(solved, _epsilon(solved, self.epsilon)).y
        rows, rhs = _attached_rows(program, solved)
        cost = program.c * solved.scaling.column / solved.scaling.cost
        hard = torch.arange(rows.shape[1], device=rows.device) >= solved.program.h.shape[1]
        identity = self.ridge * torch.eye(rows.shape[2], dtype=rows.dtype, device=rows.device)
        for _ in range(self.steps):
            over = (rows @ y[:, :, None])[:, :, 0] - rhs
            held = ((over > 0) | hard).to(rows.dtype)
            gradient = self.epsilon * cost + (rows.mT @ (held * over)[:, :, None])[:, :, 0]
            hessian = rows.mT @ (held[:, :, None] * rows) + identity
            y = y - torch.linalg.solve_ex(hessian, gradient[:, :, None])[0][:, :, 0]
        y = solved.scaling.primal(torch.where(solved.good[:, None], y, 0.0))
        return x + (y - y.detach())


def penalised_optimum(solved: Solved, epsilon: Tensor) -> Penalised:
    """The minimiser of the exterior penalty for ε ``(b, 1)``, from the exact optimum: a few Newton steps."""
    return minimise_penalty(solved.program, epsilon, _start(solved))


def _start(solved: Solved) -> Tensor:
    return torch.where(solved.good[:, None], solved.point.x, 0.0)


def _epsilon(solved: Solved, epsilon: float | None) -> Tensor:
    """ε for each item, ``(b, 1)``; by the rule where none is given (1e-6 where the rule finds none)."""
    if epsilon is not None:
        return solved.program.c.new_full((len(solved.good), 1), epsilon)
    return mangasarian_epsilon(solved.program, _start(solved))[0].nan_to_num(1e-6)[:, None]


def _attached_rows(program: Program, solved: Solved) -> tuple[Tensor, Tensor]:
    """All rows of the equilibrated program, inequalities first, and right-hand sides, attached to the graph."""
    scale, layout, b = solved.scaling, solved.layout, program.c.shape[0]
    eye = torch.eye(program.c.shape[1], dtype=program.c.dtype, device=program.c.device)
    coefficients = solved.program.operator.bounds.coefficients
    tail = coefficients[:, :, None] * eye[torch.cat((layout.lower, layout.upper))]
    h, f = [program.rhs], [program.equality_rhs]
    if program.lower is not None:
        lower = program.lower[:, layout.lower]
        h.append(torch.where(lower.isfinite(), -lower, 1.0))
        pinned = program.lower[:, layout.fixed]
        f.append(torch.where(pinned.isfinite(), pinned, 0.0))
    if program.upper is not None:
        upper = program.upper[:, layout.upper]
        h.append(torch.where(upper.isfinite(), upper, 1.0))
    stretch = scale.column[:, None, :]
    general = program.rows * scale.row[:, : layout.general, None] * stretch
    equality = program.equality_rows.expand(b, -1, -1) * scale.equality_row[:, : layout.equalities, None] * stretch
    operator = solved.program.operator
    assert isinstance(operator, DenseOperator)
    fixed = operator.equality_rows[:, layout.equalities :].expand(b, -1, -1)
    rows = torch.cat((general, tail.expand(b, -1, -1), equality, fixed), 1)
    rhs = torch.cat((torch.cat(h, 1) * scale.row, torch.cat(f, 1) * scale.equality_row), 1) / scale.size
    return rows, rhs


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *parts: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise SolverError(
            "x has no gradient under the rule Envelope(): only value has. "
            "Pass gradient=ActiveSet(), Implicit() or Unrolled() to aimfor.lp.solve."
        )


class _Argmin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, rule: _AdjointRule, solved: Solved, pairs: PairRows | None, *parts: Tensor | None
    ) -> Tensor:
        ctx.rule, ctx.solved, ctx.parts = rule, solved, _shapes(parts, pairs)
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        solved: Solved = ctx.solved
        scale, layout = solved.scaling, solved.layout
        gradient = torch.where(solved.good[:, None], gradients[0] * scale.column * scale.size, 0.0)
        found = ctx.rule.adjoint(solved, gradient)
        mask = solved.good[:, None]
        zero = found.c.new_zeros(())
        c = torch.where(mask, found.c * scale.column / scale.cost, zero)
        h = torch.where(mask, found.h * scale.row / scale.size, zero)
        f = torch.where(mask, found.f * scale.equality_row / scale.size, zero)
        outer = [
            (
                torch.where(mask, left * scale.row, zero)[:, : layout.general],
                torch.where(mask, left_equality * scale.equality_row, zero)[:, : layout.equalities],
                torch.where(mask, right * scale.column, zero),
            )
            for left, left_equality, right in found.outer
        ]
        return (None, None, None, None, *_distribute(ctx, layout, solved.point.y, c, h, f, outer))


class _Value(torch.autograd.Function):
    """The optimal value with the envelope gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, solved: Solved, pairs: PairRows | None, *parts: Tensor | None) -> Tensor:
        ctx.solved, ctx.parts = solved, _shapes(parts, pairs)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        solved: Solved = ctx.solved
        mask, zero = solved.good[:, None], gradients[0].new_zeros(())
        weight = torch.where(mask, gradients[0][:, None], zero)
        x = torch.where(mask, solved.scaling.primal(solved.point.x), zero)
        z = torch.where(mask, weight * solved.scaling.dual(solved.point.z), zero)
        y = torch.where(mask, weight * solved.scaling.dual_equality(solved.point.y), zero)
        outer = [(z[:, : solved.layout.general], y[:, : solved.layout.equalities], x)]
        return (None, None, None, *_distribute(ctx, solved.layout, solved.point.y, weight * x, -z, -y, outer))


def value_with_envelope(program: Program, solved: Solved, value: Tensor) -> Tensor:
    return _Value.apply(value, solved, program.pairs, *program.parts)  # type: ignore[no-any-return]


def _shapes(parts: tuple[Tensor | None, ...], pairs: PairRows | None) -> tuple[Any, ...]:
    """What backward must know of its inputs: the structure or pattern of the rows, the leading size of dense parts."""
    known: list[Any] = [None if part is None else (part.detach() if is_csr(part) else part.shape[0]) for part in parts]
    if pairs is not None and parts[1] is not None:
        known[1] = PairRows(parts[1].detach(), pairs.positives)
    return tuple(known)


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
