"""A task loss plus a metric: ``ERM + α · metric``, with both terms logged apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import checks
from .errors import InputError
from .loss import MetricLoss

__all__ = ["Regularized"]

#: How many calls' terms are kept before they are added up.
RECENT = 64


class Regularized(nn.Module):
    """``erm(outputs, targets) + alpha · metric_loss(scores, labels)``: the data-dependent regularizer of Ravi's (1).

    Args:
        erm: Any loss of (outputs, targets) that returns a scalar: cross-entropy, a segmentation loss, …
        metric_loss: A `MetricLoss`, e.g. F_β of "big" against "small" on an extra output of the model.
        alpha: Weight of the metric, ≥ 0. At 0 the engine still follows the scores, with no gradient to the model.

    Attributes:
        terms: ``"erm"``, ``"metric"`` and ``"total"`` of the last call, detached.
        log: One dict per ended epoch with the means of both terms.

    Raises:
        InputError: α < 0, or a task loss that is not a scalar tensor.

    Example:
        >>> import torch, aimfor
        >>> labels = torch.tensor([1, 0, 1, 0])
        >>> metric_loss = aimfor.MetricLoss(aimfor.FBeta(1.0), aimfor.LagrangianEngine(labels))
        >>> objective = aimfor.Regularized(torch.nn.CrossEntropyLoss(), metric_loss, alpha=1e-3)
        >>> outputs, index = torch.zeros(4, 11, requires_grad=True), torch.arange(4)
        >>> loss = objective(outputs[:, :10], torch.tensor([3, 1, 4, 1]), outputs[:, 10], labels, index=index)
        >>> loss.backward()
        >>> objective.end_epoch()
        >>> round(objective.log[0]["erm"], 4)
        2.3026

    References:
        Ravi et al., 2020, problem (1); Venkatesh and Zeng, 2019, equation (3), whose plus sign before F₁ should be a
        minus: here the second term is a loss, so it is a plus.
    """

    def __init__(self, erm: Callable[[Any, Any], Tensor], metric_loss: MetricLoss, alpha: float) -> None:
        super().__init__()
        if not callable(erm):
            raise InputError("erm", f"a {type(erm).__name__}", "a loss of (outputs, targets)")
        if not isinstance(metric_loss, MetricLoss):
            raise InputError("metric_loss", f"a {type(metric_loss).__name__}", "an aimfor.MetricLoss")
        self.erm = erm
        self.metric_loss = metric_loss
        self.alpha = checks.number("alpha", alpha, at_least=0)
        self.terms: dict[str, Tensor] = {}
        self.log: list[dict[str, float]] = []
        self._recent: list[dict[str, Tensor]] = []
        self._sums: dict[str, Tensor] = {}
        self._calls = 0

    def forward(
        self,
        outputs: Any,
        targets: Any,
        scores: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        where: Tensor | None = None,
        index: Tensor | None = None,
        groups: dict[str, Tensor] | Tensor | None = None,
    ) -> Tensor:
        """The objective, a scalar attached to the graph.

        Args:
            outputs: What the task loss reads, with
            targets: its targets.
            scores: The metric's scores, with
            labels: its targets.
            weights, where, index, groups: As for `MetricLoss`.
        """
        task = self.erm(outputs, targets)
        if not isinstance(task, Tensor) or task.numel() != 1:
            came = f"shape {tuple(task.shape)}" if isinstance(task, Tensor) else f"a {type(task).__name__}"
            raise InputError("erm", came, "a scalar loss", "Use reduction='mean'.")
        metric = self.metric_loss(scores, labels, weights=weights, where=where, index=index, groups=groups)
        if task.ndim:
            task = task.reshape(())
        total = torch.add(task, metric, alpha=self.alpha)
        terms = {"erm": task.detach(), "metric": metric.detach(), "total": total.detach()}
        self.__dict__["terms"] = terms  # past nn.Module's slow assignment
        if self.training and torch.is_grad_enabled():
            self._recent.append(terms)
            if len(self._recent) == RECENT:
                self._add_up()
        return total

    def _add_up(self) -> None:
        """The recent terms into the sums: in one go, because an addition for each would cost more than the terms."""
        for name in self._recent[0] if self._recent else ():
            recent = torch.stack([terms[name] for terms in self._recent]).double().sum()
            self._sums[name] = self._sums[name] + recent if name in self._sums else recent
        self._calls += len(self._recent)
        self._recent = []

    def end_epoch(self) -> None:
        """Closes the epoch: means of both terms into ``log``, and the metric's engine takes its dual step."""
        self._add_up()
        if self._calls:
            self.log.append({name: float(value) / self._calls for name, value in self._sums.items()})
        self._sums, self._calls = {}, 0
        self.metric_loss.end_epoch()

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}"
