"""Engine "lp": the metric's programs, or the closed form of their value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine, EngineOutput, Status, attached_zero, undefined
from .gradients import Envelope
from .public import solve
from .solvers.base import Method


@dataclass(frozen=True)
class LPTask:
    """One program: the arguments of `solve`, and what its optimal value means.

    Attributes:
        arguments: ``c, A, b, A_eq, b_eq, lower, upper``, attached to the scores.
        loss: From the optimal value to a term of the loss.

    Example:
        >>> import torch
        >>> task = LPTask({"c": torch.ones(1), "lower": 2.0}, lambda value: 3.0 * value)
        >>> task.loss(torch.tensor(2.0)).item()
        6.0
    """

    arguments: Mapping[str, Any]
    loss: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LPForm:
    """A loss as a sum of programs.

    Attributes:
        scores: The tensor the user passed, for degenerate batches.
        tasks: Makes the programs; not called when the closed form is used, which needs none of their memory.
        closed: The same loss without a solver, or None where none is known.
        defined: False for a batch that leaves the metric undefined.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([2.0])
        >>> task = LPTask({"c": torch.ones(1), "lower": scores}, lambda value: 3.0 * value)
        >>> aimfor.LPEngine("program").solve(LPForm(scores, lambda: (task,), closed=None)).loss.item()
        6.0
    """

    scores: Tensor
    tasks: Callable[[], tuple[LPTask, ...]]
    closed: Callable[[], Tensor] | None
    defined: bool = True


class HasProgram(ABC):
    """Capability: the metric, or a bound on it, is the value of a linear program.

    Example:
        >>> import aimfor
        >>> issubclass(aimfor.FBeta, HasProgram), issubclass(aimfor.NDCG, HasProgram)
        (True, False)
    """

    @abstractmethod
    def program_form(self, batch: Batch, margin: float, threshold: str) -> LPForm:
        """The batch as programs.

        Args:
            batch: Checked input.
            margin: The gap a surrogate asks for.
            threshold: ``"zero"`` or ``"free"``, for metrics of decisions (see `aimfor.lp.ratio`); rankings have none.
        """

    def no_program(self) -> str | None:
        """Why these settings of the metric have no program, or None if they have one."""
        return None


class LPEngine(Engine):
    """Loss from the optimal value of a linear program, with the envelope gradient.

    Rankings (AUROC, one-vs-rest, AUC_mu): the mean of ``max(0, margin − (f_i − f_j))`` over pairs, Meng's (1) and (2).
    Decisions (F_β, IoU, accuracy, any `CountRatio`): one minus a lower bound on the metric (see `aimfor.lp.ratio`).

    Args:
        form: ``"closed"`` takes the closed form of the value where there is one (same loss, same gradient, no solver);
            ``"program"`` always solves.
        margin: The gap the hinge asks for.
        threshold: For metrics of decisions. ``"zero"``: the bound for decisions at the metric's own threshold.
            ``"free"``: the best bound over all thresholds and scales, which has no closed form.
        tol: Largest residual that counts as solved.
        method: How programs are solved; None is `InteriorPoint`.

    Stats:
        ``programs``: how many were solved; ``iterations``: Newton steps of all; ``residual``: the largest.

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([2.0, 0.5, -0.5, -1.0]), torch.tensor([1, 1, 0, 0])
        >>> closed, program = (aimfor.MetricLoss("f1", aimfor.LPEngine(form)) for form in ("closed", "program"))
        >>> round(closed(scores, targets).item(), 6), round(program(scores, targets).item(), 6)
        (0.25, 0.25)
    """

    name: ClassVar[str] = "lp"
    capability: ClassVar[type] = HasProgram
    cost: ClassVar[str] = "O(n log n)"

    def __init__(
        self,
        form: str = "closed",
        *,
        margin: float = 1.0,
        threshold: str = "zero",
        tol: float = 1e-9,
        method: Method | None = None,
    ) -> None:
        super().__init__()
        self.form = checks.one_of("form", form, ("closed", "program"))
        self.margin = checks.number("margin", margin, above=0)
        self.threshold = checks.one_of("threshold", threshold, ("zero", "free"))
        self.tol = checks.number("tol", tol, above=0, below=1e-2)
        self.method = method

    def refuses(self, metric: Any) -> str | None:
        return super().refuses(metric) or metric.no_program()

    def formulate(self, metric: HasProgram, batch: Batch) -> LPForm:
        return metric.program_form(batch, self.margin, self.threshold)

    def solve(self, form: LPForm) -> EngineOutput:
        if not form.defined:
            return undefined(form.scores)
        if self.form == "closed" and form.closed is not None:
            return EngineOutput(form.closed(), stats={"programs": 0})
        tasks = form.tasks()
        terms, statuses, steps, residual = [], [], 0, 0.0
        for task in tasks:
            solution = solve(**task.arguments, gradient=Envelope(), method=self.method, tol=self.tol)
            statuses.append(solution.status)
            steps += int(solution.iterations.sum())
            residual = max(residual, float(solution.residuals.worst().max()))
            terms.append(task.loss(solution.value))
        stats = {"programs": len(tasks), "iterations": steps, "residual": residual}
        bad = [status for status in statuses if status not in (Status.ok, Status.fallback)]
        if bad:
            # No optimum, no gradient: the status says so, and nothing that is not finite leaves the loss.
            return EngineOutput(attached_zero(form.scores), bad[0], stats)
        status = Status.fallback if Status.fallback in statuses else Status.ok
        loss = torch.stack(terms).sum().clamp_min(0.0)
        return EngineOutput(loss.to(form.scores.dtype), status, stats)

    def extra_repr(self) -> str:
        return f"form={self.form!r}, margin={self.margin:g}, threshold={self.threshold!r}"
