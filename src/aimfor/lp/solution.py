"""What `solve` returns: the answer, its certificate, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..engine import Status
from .certificates import Residuals

#: Worst first: the status of a batch is the first of these that any item has.
_SEVERITY = (Status.not_converged, Status.infeasible, Status.unbounded, Status.fallback, Status.ok)


@dataclass(frozen=True)
class LPSolution:
    """Optimum of ``min c·x, A x <= b, A_eq x = b_eq, lower <= x <= upper``, over the batch shape of the arguments.

    The duals satisfy ``c + Aᵀ dual_ineq + A_eqᵀ dual_eq − dual_lower + dual_upper = 0``, all but ``dual_eq``
    nonnegative.

    Attributes:
        x: ``(…, v)``, with the gradient rule's gradient. NaN where there is no optimum.
        value: ``(…)``, with the envelope gradient. inf where infeasible, −inf where unbounded.
        dual_ineq, dual_eq: ``(…, m)`` and ``(…, k)``, detached.
        dual_lower, dual_upper: ``(…, v)``, detached.
        residuals: Primal, dual and gap errors, ``(…)`` each, measured in the equilibrated program.
        statuses: How each item ended, in row-major order.
        iterations: ``(…)``, Newton steps.
        ray: ``(…, v)``; for an unbounded item a direction in which the objective falls for ever, zero elsewhere.
        active: ``(…, m)``, the inequalities that hold the optimum.
        unique: ``(…)``, False where the active constraints leave x or the duals some freedom (degenerate programs);
            gradients are then one choice among several.

    For an infeasible item the duals are a Farkas certificate: they weigh the constraints into the contradiction
    ``0·x <= −1``, and its nonzero entries name the culprits.
    """

    x: Tensor
    value: Tensor
    dual_ineq: Tensor
    dual_eq: Tensor
    dual_lower: Tensor
    dual_upper: Tensor
    residuals: Residuals
    statuses: tuple[Status, ...]
    iterations: Tensor
    ray: Tensor
    active: Tensor
    unique: Tensor

    @property
    def status(self) -> Status:
        """The worst status of the batch."""
        return next((status for status in _SEVERITY if status in self.statuses), Status.ok)
