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

from ..errors import InputError
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
        if labels is None:
            raise InputError("labels", "none in the batch", "a column named labels")
        loss: Tensor = self.loss(self.scores(outputs), labels)
        if self.divides and self.trainer.model.training:
            loss = loss / self.trainer.args.gradient_accumulation_steps
        return loss


def use_metric_loss(trainer: Any, loss: nn.Module, scores: Callable[[Any], Tensor] = default_scores) -> Any:
    """Makes the Trainer minimise ``loss(scores(outputs), labels)`` per batch; returns the Trainer.

    Gradient accumulation does not enlarge the batch that is ranked: raise the batch size for that.

    Args:
        trainer: A ``transformers.Trainer``.
        loss: A `MetricLoss` (or any module called the same way). A loss with state (duals, a bank) should be a
            submodule of the model, so that the Trainer saves it.
        scores: From the model's output to scores.

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
    trainer.compute_loss_func = _Adapter(loss, scores, trainer)
    trainer.loss_is_scaled_for_ga = False
    trainer.args.average_tokens_across_devices = False
    trainer.add_callback(_EndEpoch(loss))
    return trainer
