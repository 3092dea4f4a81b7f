"""How a problem is written down: ``aimfor.maximize(recall, subject_to=[precision >= 0.9])``."""

from __future__ import annotations

from collections.abc import Sequence

from ..constraints.expressions import Constraint, Expression
from .duals import DualOptimizer
from .problem import RateProblem


def maximize(
    objective: Expression,
    subject_to: Sequence[Constraint] | Constraint = (),
    *,
    proxy: str = "auto",
    temperature: float | None = None,
    dual: str | DualOptimizer = "nupi",
    dual_rate: float = 1.0,
    dual_every: int = 0,
    dual_rates: str = "exact",
    initial: float | None = None,
    held_out: int = 0,
) -> RateProblem:
    """The problem of making a rate as large as possible while others keep their bounds.

    Args:
        objective: A rate, a linear combination of rates, or ``rate.worst("group")``.
        subject_to: Constraints such as ``precision >= 0.9``, ``fpr.gap("sex") <= 0.02``.
        proxy: What stands in for a decision in the primal step: ``logistic``, ``sigmoid`` or ``hinge``. ``auto``
            (default) is logistic, but sigmoid at temperature 0.5 where a constraint bounds a difference of rates: a
            convex proxy bounds both sides of it from above, and all scores are pulled to 0.
        temperature: Scores are divided by it before the proxy; 1 unless ``auto`` says otherwise.
        dual: ``nupi`` (default), ``plain``, ``momentum``, or a `DualOptimizer`.
        dual_rate: Step size of the multipliers, in units of (multiplier per unit of violation).
        dual_every: Take a dual step every so many calls as well; 0 (default) only in `end_epoch`.
        dual_rates: ``exact`` 0-1 rates in the dual step (default), or the ``proxy``: the plain Lagrangian.
        initial: Multiplier that constraints start with; by default 1 for a bound on one rate, 0 for a difference.
        held_out: Number of examples that the certificate will have. Training then aims inside each bound by the margin
            that a certificate of that size asks for; 0 (default) aims at the bounds themselves.

    Returns:
        An ``nn.Module``: call it as a loss, call `end_epoch` once per epoch, and call `decide` and `certificate` on
        held-out data.

    Raises:
        InputError: Contradictory constraints, a gap as objective, options out of range.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import recall, precision, fpr
        >>> problem = aimfor.maximize(recall, subject_to=[precision >= 0.9, fpr.gap("sex") <= 0.02])
        >>> problem
        maximize    recall
        subject to  precision >= 0.9
                    gap(fpr, sex) <= 0.02
        >>> scores = torch.tensor([1.5, -0.5, 0.3, -2.0], requires_grad=True)
        >>> loss = problem(scores, torch.tensor([1, 0, 1, 0]), groups={"sex": torch.tensor([0, 0, 1, 1])})
        >>> loss.backward()
        >>> problem.end_epoch()
    """
    return RateProblem("maximize", **locals())  # the arguments, which are those of RateProblem by the same names


def minimize(
    objective: Expression,
    subject_to: Sequence[Constraint] | Constraint = (),
    *,
    proxy: str = "auto",
    temperature: float | None = None,
    dual: str | DualOptimizer = "nupi",
    dual_rate: float = 1.0,
    dual_every: int = 0,
    dual_rates: str = "exact",
    initial: float | None = None,
    held_out: int = 0,
) -> RateProblem:
    """As `maximize`, for a rate that should be small.

    Example:
        >>> import aimfor
        >>> from aimfor.rates import error_rate, positive_rate
        >>> aimfor.minimize(error_rate, positive_rate.gap("sex") <= 0.05)
        minimize    error_rate
        subject to  gap(positive_rate, sex) <= 0.05
    """
    return RateProblem("minimize", **locals())  # the arguments, which are those of RateProblem by the same names
