"""The paper's plain scheme under its own name: fixed ε, ρ, step and number of iterations, no line search.

For comparison and reproduction. It is right on programs that fall apart into single variables, such as AUC with fixed
scores; on coupled programs full steps cycle (see docs/lp.md). `aimfor.lp.solve` is what to use.

References:
    Meng et al., Differentiable optimization of generalized nondecomposable functions using linear programs, 2021,
    with the sign of (4) and the dual of section 4.2 corrected.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ... import checks
from ..problem import read_program


@dataclass(frozen=True)
class PlainResult:
    """What the scheme ends with; nothing is certified.

    Attributes:
        x: The active rows' solution with its ridge, ``(…, v)``, attached to the graph.
        y: The last Newton iterate, attached if ``unroll``.
        dual: ``(Ay − b)₊ / ε``, ``(…, m)``.
        gradient_norm: ``‖Aᵀ(Ay − b)₊ + εc‖∞ / ε``, ``(…)``: small only where the iteration has converged.

    Example:
        >>> import torch, aimfor
        >>> result = aimfor.lp.plain_scheme(torch.ones(1), -torch.eye(1), torch.tensor([-3.0]), final_ridge=0.0)
        >>> result.x.tolist(), round(result.dual.item(), 6), bool(result.gradient_norm < 1e-6)
        ([3.0], 1.0, True)
    """

    x: Tensor
    y: Tensor
    dual: Tensor
    gradient_norm: Tensor


def plain_scheme(
    c: Tensor,
    A: Tensor,
    b: Tensor,
    *,
    epsilon: float = 1e-3,
    ridge: float = 1e-4,
    step: float = 1.0,
    iterations: int = 20,
    final_ridge: float = 0.01,
    unroll: bool = False,
) -> PlainResult:
    """Meng's Newton on ``½‖(Ay − b)₊‖² + ε c·y``, exactly as often as told, then x from the active rows.

    Args:
        c, A, b: Dense, with the same batch dimensions or none.
        epsilon: Penalty ε; 1e-3 in the authors' code.
        ridge: ρ of the Hessian; 1e-4 there.
        step: λ of (4); 1 there.
        iterations: 20 there.
        final_ridge: Added to ``ÃᵀÃ`` when x is read off the active rows; 0.01 there, which biases x by about 2 %.
        unroll: Keep the iterations in the graph.

    Example:
        >>> import torch, aimfor
        >>> r = aimfor.lp.plain_scheme(torch.ones(2), -torch.eye(2), torch.tensor([-3.0, -5.0]), final_ridge=0.0)
        >>> r.x.tolist()
        [3.0, 5.0]
    """
    epsilon = checks.number("epsilon", epsilon, above=0)
    ridge, step = checks.number("ridge", ridge, at_least=0), checks.number("step", step, above=0)
    iterations = checks.integer("iterations", iterations, at_least=1)
    final_ridge = checks.number("final_ridge", final_ridge, at_least=0)
    program = read_program(c, A, b)
    cost, rows, rhs = program.c, program.rows, program.rhs
    eye = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    with torch.set_grad_enabled(unroll and torch.is_grad_enabled()):
        y = torch.linalg.solve(rows.mT @ rows + 1e-3 * eye, rows.mT @ rhs[:, :, None])
        for _ in range(iterations):
            over = (rows @ y - rhs[:, :, None]).clamp_min(0.0)
            gradient = rows.mT @ over + epsilon * cost[:, :, None]
            hessian = rows.mT @ ((over > 0) * rows) + ridge * eye
            y = y - step * torch.linalg.solve_ex(hessian, gradient)[0]
    over = (rows @ y - rhs[:, :, None]).clamp_min(0.0)
    active = (over > 0).to(rows.dtype)
    held = active * rows
    x = torch.linalg.solve_ex(held.mT @ held + final_ridge * eye, held.mT @ rhs[:, :, None])[0]
    slope = (rows.mT @ over + epsilon * cost[:, :, None]) / epsilon

    def out(part: Tensor) -> Tensor:
        return part.reshape(program.shape + part.shape[1:]).to(program.dtype)

    return PlainResult(
        out(x[:, :, 0]), out(y[:, :, 0]), out(over[:, :, 0] / epsilon).detach(), out(slope.abs().amax((1, 2))).detach()
    )
