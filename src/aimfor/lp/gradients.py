"""Gradient rules as objects. The value's gradient is always the envelope's; the rules say what x's is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..errors import SolverError
from .adjoint import Sensitivity, Solved, argmin_with_adjoint
from .face import face
from .operators.dense import DenseOperator
from .problem import Program
from .solvers.newton import Penalised, mangasarian_epsilon, minimise_penalty
from .standard import largest


class GradientRule(ABC):
    """What ∂x is.

    Example:
        >>> import aimfor
        >>> isinstance(aimfor.lp.ActiveSet(), GradientRule)
        True
    """

    @abstractmethod
    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        """``x`` ``(b, v)``, attached to the program's parts."""


class Envelope(GradientRule):
    """Only the value is differentiable: ``∂V/∂c = x, ∂V/∂b = −u, ∂V/∂A = u xᵀ``. Exact, and nearly free.

    A backward pass through ``x`` raises, rather than give a silent zero.

    Example:
        >>> import torch, aimfor
        >>> b = torch.tensor([2.0], requires_grad=True)
        >>> solution = aimfor.lp.solve(torch.tensor([-3.0]), torch.ones(1, 1), b, gradient=Envelope())
        >>> solution.value.backward()
        >>> b.grad.tolist(), (-solution.dual_ineq).tolist()
        ([-3.0], [-3.0])
    """

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        attached = [part for part in program.parts if part is not None and part.requires_grad]
        return _Refuse.apply(x, *attached) if attached else x


class _AdjointRule(GradientRule):
    """A rule given by the product of a vector with the Jacobian of x."""

    #: Why a backward pass that reaches c alone is refused, or None.
    costs_alone: ClassVar[str | None] = None

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        return argmin_with_adjoint(program, solved, x, self.adjoint, self.costs_alone)

    @abstractmethod
    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        """From the gradient w.r.t. x̂, ``(b, v)``, to the gradient w.r.t. the equilibrated program."""


class ActiveSet(_AdjointRule):
    """Differentiate ``x = Ã⁻¹ b̃`` over the active rows: exact wherever the optimum is nondegenerate.

    ∂x/∂c is zero, as it truly is at a vertex. With more active rows than variables, or fewer, the pseudo-inverse
    takes the least-norm choice and `LPSolution.unique` is False.

    Example:
        >>> import torch, aimfor
        >>> b = torch.tensor([2.0], requires_grad=True)
        >>> aimfor.lp.solve(torch.tensor([-3.0]), torch.ones(1, 1), b, gradient=ActiveSet()).x.backward()
        >>> b.grad.tolist()
        [1.0]
    """

    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        h, f = face(solved.program.operator, solved.point.active, gradient.dtype).multipliers(gradient)
        return Sensitivity(torch.zeros_like(gradient), h, f, ((h, f, -solved.point.x),))


class VertexOrRefuse(ActiveSet):
    """The default of `solve`: `ActiveSet`, but a backward pass that reaches c alone raises: it would give zero."""

    costs_alone = (
        "x does not change with c at a vertex, so that this backward pass would give c a gradient of zero. To learn "
        "costs use the loss SPOPlus or PerturbedFenchelYoung, or gradient=BlackBox(strength), "
        "Perturbed(samples, sigma) or Implicit(epsilon); ActiveSet() keeps the zero."
    )


class Implicit(_AdjointRule):
    """Differentiate the penalised optimum ``y(ε)`` in place of x, by the implicit function theorem.

    ``∂y/∂c = −ε (ÃᵀÃ + ρI)⁻¹`` is not zero, which is what learning costs needs; the other derivatives differ from
    the true ones by O(ε).

    Args:
        epsilon: ε of the equilibrated program: small for exactness, larger to smooth over more constraints. None
            chooses it for each program by Mangasarian's rule.
        ridge: ρ, relative to the unit diagonal.

    Example:
        >>> import torch, aimfor
        >>> c = torch.tensor([-1.0, -1.2], requires_grad=True)
        >>> x = aimfor.lp.solve(c, torch.ones(1, 2), torch.ones(1), lower=0.0, gradient=Implicit(0.5)).x
        >>> x.tolist()
        [0.0, 1.0]
        >>> x[0].backward()  # a lower cost of the first variable would raise it
        >>> bool(c.grad[0] < 0)
        True
    """

    def __init__(self, epsilon: float | None = 1e-4, ridge: float = 1e-10) -> None:
        self.epsilon = None if epsilon is None else checks.number("epsilon", epsilon, above=0)
        self.ridge = checks.number("ridge", ridge, at_least=0)

    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        program, epsilon = solved.program, _epsilon(solved, self.epsilon)
        found = penalised_optimum(solved, epsilon)
        held = face(program.operator, found.rows > 0, gradient.dtype, self.ridge)
        h, f = held.multipliers(gradient)
        step = held.step(h, f)  # (ÃᵀÃ)⁻¹g is Ã⁺Ã⁺ᵀg
        if self.ridge:  # and 1/ρ in directions that no row holds
            rest = gradient - program.transposed(h, f)
            free = largest(rest) > 1e-8 * largest(gradient)
            step = step + torch.where(free[:, None], rest / self.ridge, 0.0)
        return Sensitivity(-epsilon * step, h, f, ((h, f, -found.y), (-found.rows, -found.equal, step)))


class Unrolled(GradientRule):
    """Differentiate through the last Newton steps on the penalty, started at its optimum (dense programs).

    One step with ρ = 0 is `Implicit` by another route. With ρ > 0, k steps sum the first k terms of its Neumann
    series, which damps directions that the active rows hold only weakly.

    Args:
        steps: How many Newton steps are in the graph.
        epsilon, ridge: As for `Implicit`; the ridge is absolute here, as in the paper.

    Example:
        >>> import torch, aimfor
        >>> b = torch.tensor([2.0], requires_grad=True)
        >>> rule = Unrolled(steps=2, ridge=0.0)
        >>> aimfor.lp.solve(torch.tensor([-3.0]), torch.ones(1, 1), b, gradient=rule).x.backward()
        >>> round(b.grad.item(), 6)
        1.0
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
        if program.upper is not None:  # a pinned variable moves with the bound that it leans on, as in the adjoint
            leans_up = solved.point.y[:, layout.equalities :] >= 0
            pinned = torch.where(leans_up, program.upper[:, layout.fixed], pinned)
        f.append(torch.where(pinned.isfinite(), pinned, 0.0))
    if program.upper is not None:
        upper = program.upper[:, layout.upper]
        h.append(torch.where(upper.isfinite(), upper, 1.0))
    stretch = scale.column[:, None, :]
    general = program.rows * scale.row[:, : layout.general, None] * stretch
    equality = program.equality_rows.expand(b, -1, -1) * scale.equality_row[:, : layout.equalities, None] * stretch
    fixed = solved.program.operator.pinned.rows(eye.expand(b, -1, -1))
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
