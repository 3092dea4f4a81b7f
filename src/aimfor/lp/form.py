"""LPForm: a metric as linear programs, with the closed form of their value where there is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..engine import Batch


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
