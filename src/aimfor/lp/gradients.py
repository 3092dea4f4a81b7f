"""Gradient rules as objects. The value's gradient is always the envelope's; the rules say what x's is."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..errors import SolverError, callers_level
from .adjoint import Sensitivity, Solved, argmin_with_adjoint
from .operators.dense import DenseOperator
from .operators.systems import Face, face
from .program import Program, largest
from .solvers.penalty import Penalised, minimise_penalty


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
        attached = [tensor for tensor in program.parts if tensor is not None and tensor.requires_grad]
        sentence = (
            "x has no gradient under the rule Envelope(): only value has. "
            "Pass gradient=ActiveSet(), Implicit() or Unrolled() to aimfor.lp.solve."
        )
        return Refused.apply(x, sentence, *attached) if attached else x


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
    """Differentiate the penalised optimum ``y(ε) = argmin ½‖(Ay − b)₊‖² + ε c·y`` in place of x.

    ``∂y/∂c = −ε (ÃᵀÃ + ρI)⁻¹`` over the rows that y(ε) violates is not zero, which is what learning costs needs; the
    other derivatives differ from the true ones by O(ε) as long as those rows are the optimum's.

    Args:
        epsilon: ε, in the units of the formula. None chooses it for each program: so small that the rows are the
            optimum's, and that y(ε) is within 1e-5 of x. A larger one smooths over more constraints; where that
            changes a gradient of rows, right-hand sides or bounds, one warning says so.
        ridge: ρ, which counts only in directions that no row holds.

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

    def __init__(self, epsilon: float | None = None, ridge: float = 1e-10) -> None:
        self.epsilon = None if epsilon is None else checks.number("epsilon", epsilon, above=0)
        self.ridge = checks.number("ridge", ridge, at_least=0)
        self.reported = False

    def argmin(self, program: Program, solved: Solved, x: Tensor) -> Tensor:
        beside_costs = any(tensor is not None and tensor.requires_grad for tensor in program.parts[1:])
        return argmin_with_adjoint(program, solved, x, self.checked if beside_costs else self.adjoint)

    def checked(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        """`adjoint`, with a word where ε is so large that other rows count than those that hold the optimum."""
        if self.epsilon is not None and not self.reported:
            violated = penalised_optimum(solved, self.epsilon).rows > 0
            other = (violated & ~solved.point.active) | (~violated & (solved.point.z > 1e-9))
            changed = int((other.any(1) & solved.good).sum())
            if changed:
                self.reported = True
                text = (
                    f"Implicit(epsilon={self.epsilon:g}): in {changed} of {len(other)} programs other rows count than "
                    "those that hold the optimum, so that gradients of rows, right-hand sides and bounds are those of "
                    "a smoothed program. Next: a smaller epsilon, or Implicit(), which chooses it."
                )
                warnings.warn(text, stacklevel=callers_level())
        return self.adjoint(solved, gradient)

    def adjoint(self, solved: Solved, gradient: Tensor) -> Sensitivity:
        raw, scale = solved.raw, solved.scaling
        gradient = gradient / (scale.column * scale.size)
        epsilon, y, held, rows, equal = self._penalised(solved)
        h, f = held.multipliers(gradient)
        step = held.step(h, f)  # (ÃᵀÃ)⁻¹g is Ã⁺Ã⁺ᵀg
        if self.ridge:  # and 1/ρ in directions that no row holds
            rest = gradient - raw.operator.combined(h, f)
            free = largest(rest) > 1e-8 * largest(gradient)
            step = step + torch.where(free[:, None], rest / self.ridge, 0.0)
        row, equality_row, column = scale.row, scale.equality_row, scale.column
        outer = ((h, f, -y), (-rows, -equal, step))
        return Sensitivity(  # in the units of the equilibrated program, from which the caller converts
            -epsilon * step * scale.cost / column,
            h * scale.size / row,
            f * scale.size / equality_row,
            tuple((left / row, other / equality_row, right / column) for left, other, right in outer),
        )

    def _penalised(self, solved: Solved) -> tuple[Tensor, Tensor, Face, Tensor, Tensor]:
        """ε ``(b, 1)``, y(ε), the face of the rows that it violates, and by how much."""
        raw, scale, dtype = solved.raw, solved.scaling, solved.raw.c.dtype
        if self.epsilon is not None:
            penalised = penalised_optimum(solved, self.epsilon)
            held = face(raw.operator, penalised.rows > 0, dtype)
            return raw.c.new_full((len(raw.c), 1), self.epsilon), penalised.y, held, penalised.rows, penalised.equal
        active, good = solved.point.active, solved.good[:, None]
        held = face(raw.operator, active, dtype)
        x = _start(solved)
        z = torch.where(good & active, scale.dual(solved.point.z), 0.0)
        w = torch.where(good, scale.dual_equality(solved.point.y), 0.0)
        # While the rows stay those of the optimum, y(ε) is a straight line: Ã(y − x) = ε times the duals.
        way = held.step(z, w)
        along, _ = raw.operator.at(way)
        slack = (raw.h - raw.operator.at(x)[0]).clamp_min(0.0)
        reach = torch.where(~active & (along > 0), slack / along, torch.inf)
        reach = 0.5 * reach.amin(1, keepdim=True) if reach.shape[1] else torch.full_like(x[:, :1], torch.inf)
        near = 1e-5 * (1e-5 + largest(x)) / largest(way).clamp_min(torch.finfo(dtype).tiny)
        epsilon = torch.minimum(reach, near[:, None]).clamp(1e-12, 1.0)
        return epsilon, x + epsilon * way, held, epsilon * z, epsilon * w


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
        y = penalised_optimum(solved, self.epsilon).y
        rows, rhs = _attached_rows(program, solved)
        hard = torch.arange(rows.shape[1], device=rows.device) >= solved.program.h.shape[1]
        identity = self.ridge * torch.eye(rows.shape[2], dtype=rows.dtype, device=rows.device)
        for _ in range(self.steps):
            over = (rows @ y[:, :, None])[:, :, 0] - rhs
            held = ((over > 0) | hard).to(rows.dtype)
            gradient = self.epsilon * program.c + (rows.mT @ (held * over)[:, :, None])[:, :, 0]
            hessian = rows.mT @ (held[:, :, None] * rows) + identity
            y = y - torch.linalg.solve_ex(hessian, gradient[:, :, None])[0][:, :, 0]
        y = torch.where(solved.good[:, None], y, 0.0)
        return x + (y - y.detach())


def penalised_optimum(solved: Solved, epsilon: float) -> Penalised:
    """The minimiser of the exterior penalty in the user's units, from the exact optimum: a few Newton steps."""
    start = _start(solved)
    return minimise_penalty(solved.raw, start.new_full((len(start), 1), epsilon), start)


def _start(solved: Solved) -> Tensor:
    return torch.where(solved.good[:, None], solved.scaling.primal(solved.point.x), 0.0)


def _attached_rows(program: Program, solved: Solved) -> tuple[Tensor, Tensor]:
    """All rows of the program, inequalities first, and right-hand sides, attached to the graph."""
    layout, b = solved.layout, program.c.shape[0]
    raw = solved.raw.operator
    tail, fixed = (rows.matrix(program.c.shape[1]).expand(b, -1, -1) for rows in (raw.bounds, raw.pinned))
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
    general, equality = (tensor.expand(b, -1, -1) for tensor in (program.rows, program.equality_rows))
    return torch.cat((general, tail, equality, fixed), 1), torch.cat((*h, *f), 1)


class Refused(torch.autograd.Function):
    """x, with a backward pass that says in one sentence why there is none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sentence: str, *parts: Tensor) -> Tensor:
        ctx.sentence = sentence
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise SolverError(ctx.sentence)
