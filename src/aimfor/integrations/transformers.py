"""Hugging Face Trainer: a metric loss in place of the model's own, with the Trainer's loss scaling undone.

The Trainer assumes that a custom loss is a sum over tokens divided by their number in the whole accumulated batch. It
therefore (a) does not divide by the gradient accumulation steps and (b) multiplies by the number of processes. For a
loss of a batch both are wrong: `use_metric_loss` switches them off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import TrainerCallback

from .. import checks
from ..errors import InputError
from ..whole import in_parts
from .dual_steps import end_epoch

__all__ = ["default_scores", "use_metric_loss"]


def default_scores(outputs: Any) -> Tensor:
    """The model's ``logits``: ``(n,)`` from one column, the difference from two, all columns otherwise.

    Example:
        >>> import torch
        >>> default_scores({"logits": torch.tensor([[1.0, 3.0], [2.0, 0.5]])})
        tensor([ 2.0000, -1.5000])
    """
    logits: Tensor = outputs["logits"] if isinstance(outputs, dict) or hasattr(outputs, "keys") else outputs[0]
    if logits.ndim == 2 and logits.shape[1] == 1:
        return logits[:, 0]
    if logits.ndim == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    return logits


class _EndEpoch(TrainerCallback):
    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss

    def on_epoch_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        end_epoch(self.loss)


class _Adapter:
    """Called as ``compute_loss_func(outputs, labels, num_items_in_batch=…)``."""

    def __init__(self, loss: nn.Module, scores: Callable[[Any], Tensor], trainer: Any) -> None:
        self.loss, self.scores, self.trainer = loss, scores, trainer
        # Before the Trainer had a switch, a custom loss had to divide by the accumulation steps itself.
        self.divides = not hasattr(type(trainer), "loss_is_scaled_for_ga")

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        return self.of_scores(self.scores(outputs), labels)

    def of_scores(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None:
            raise InputError("labels", "none in the batch", "a column named labels")
        loss: Tensor = self.loss(scores, labels)
        if self.divides and self.trainer.model.training:
            loss = loss / self.trainer.args.gradient_accumulation_steps
        return loss


class _InParts:
    """``Trainer.compute_loss`` that scores a training batch in parts; evaluation is left as it was."""

    def __init__(self, trainer: Any, rows: int) -> None:
        self.trainer, self.rows, self.at_once = trainer, rows, trainer.compute_loss

    def __call__(self, model: nn.Module, inputs: Any, return_outputs: bool = False, **rest: Any) -> Any:
        if return_outputs or not model.training:
            return self.at_once(model, inputs, return_outputs, **rest)
        # Not `rest`: the number of items in the batch is for a model that makes the loss itself.
        adapter, columns = self.trainer.compute_loss_func, dict(inputs)
        labels = columns.pop("labels", None)
        found = in_parts(lambda part: model(**part), columns, rows=self.rows, scores=adapter.scores)
        return adapter.of_scores(found, labels)


def use_metric_loss(
    trainer: Any, loss: nn.Module, scores: Callable[[Any], Tensor] = default_scores, *, rows: int | None = None
) -> Any:
    """Makes the Trainer minimise ``loss(scores(outputs), labels)`` per batch; returns the Trainer.

    Gradient accumulation does not enlarge the batch that is ranked: raise the batch size for that, with ``rows=`` where
    it does not fit into memory.

    Args:
        trainer: A ``transformers.Trainer``.
        loss: A `MetricLoss` (or any module called the same way). A loss with state (duals, a bank) should be a
            submodule of the model, so that the Trainer saves it.
        scores: From the model's output to scores.
        rows: Score training batches in parts of at most so many rows (`aimfor.in_parts`); None takes them at once.

    Example:
        >>> import tempfile, torch, aimfor
        >>> from transformers import Trainer, TrainingArguments
        >>> arguments = TrainingArguments(tempfile.mkdtemp(), report_to=[], use_cpu=True)
        >>> trainer = use_metric_loss(Trainer(torch.nn.Linear(2, 1), arguments), aimfor.MetricLoss("auroc"))
        >>> outputs = {"logits": torch.tensor([[2.0], [-1.0]], requires_grad=True)}
        >>> trainer.compute_loss_func(outputs, torch.tensor([1, 0])).requires_grad
        True
    """
    if not isinstance(loss, nn.Module):
        raise InputError("loss", f"a {type(loss).__name__}", "a MetricLoss")
    if rows is not None:
        trainer.compute_loss = _InParts(trainer, checks.integer("rows", rows, at_least=1))
    trainer.compute_loss_func = _Adapter(loss, scores, trainer)
    trainer.loss_is_scaled_for_ga = False
    trainer.args.average_tokens_across_devices = False
    trainer.add_callback(_EndEpoch(loss))
    return trainer
