"""Hugging Face Trainer: a metric loss in place of the model's own, with the Trainer's loss scaling undone.

The Trainer assumes that a custom loss is a sum over tokens divided by their number in the whole accumulated batch. It
therefore (a) does not divide by the gradient accumulation steps and (b) multiplies by the number of processes. For a
loss of a batch both are wrong: `use_metric_loss` switches them off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .. import checks
from ..errors import InputError
from ..whole import in_parts
from .epochs import end_epoch

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


#: Beside the Trainer's own files, the state of a loss that is not part of the model.
FILE = "metric_loss.safetensors"


class _Epochs(TrainerCallback):
    """Tells the loss that an epoch is over, and saves what the Trainer does not."""

    def __init__(self, loss: nn.Module, trainer: Any) -> None:
        self.loss, self.trainer = loss, trainer

    @property
    def outside(self) -> bool:
        """Whether the loss has a state that the model's checkpoint lacks."""
        return bool(self.loss.state_dict()) and all(module is not self.loss for module in self.trainer.model.modules())

    def on_epoch_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        end_epoch(self.loss)

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self.outside and state.is_world_process_zero:
            folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            save_model(self.loss, str(folder / FILE))

    def load(self, folder: str) -> None:
        """Goes on from what `on_save` wrote."""
        path = Path(folder) / FILE
        if not self.outside:
            return
        if not path.exists():
            raise InputError(
                "resume_from_checkpoint",
                f"{folder} without {FILE}",
                "a checkpoint with the state of the loss, which is kept outside the model",
                "Start anew, or make the loss a submodule of the model.",
            )
        load_model(self.loss, str(path))


class _Adapter:
    """Called as ``compute_loss_func(outputs, labels, num_items_in_batch=…)``."""

    def __init__(self, loss: nn.Module, scores: Callable[[Any], Tensor], trainer: Any) -> None:
        self.loss, self.scores, self.trainer = loss, scores, trainer
        self.beside: dict[str, Any] = {}
        # Before the Trainer had a switch, a custom loss had to divide by the accumulation steps itself.
        self.divides = not hasattr(type(trainer), "loss_is_scaled_for_ga")

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        return self.of_scores(self.scores(outputs), labels)

    def of_scores(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None:
            raise InputError("labels", "none in the batch", "a column named labels")
        loss: Tensor = self.loss(scores, labels, **self.beside)
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
        scores = in_parts(lambda some: model(**some), columns, rows=self.rows, scores=adapter.scores)
        return adapter.of_scores(scores, labels)


def use_metric_loss(
    trainer: Any,
    loss: nn.Module,
    scores: Callable[[Any], Tensor] = default_scores,
    *,
    rows: int | None = None,
    index: str | None = None,
    weights: str | None = None,
    where: str | None = None,
    groups: str | Mapping[str, str] | None = None,
) -> Any:
    """Makes the Trainer minimise ``loss(scores(outputs), labels, …)`` per batch; returns the Trainer.

    Gradient accumulation does not enlarge the batch that is ranked: raise the batch size for that, with ``rows=`` where
    it does not fit into memory.

    Args:
        trainer: A ``transformers.Trainer``.
        loss: A `MetricLoss` (or any module called the same way). Its state (duals, a bank) is in the Trainer's
            checkpoints, whether it is a submodule of the model or not.
        scores: From the model's output to scores.
        rows: Score training batches in parts of at most so many rows (`aimfor.in_parts`); None takes them at once.
        index: Column of the batch with the example's position in the data set; the model does not see it.
        weights: Column with the examples' weights.
        where: Column that says which examples or places count.
        groups: Column with the groups, or several by the names that the loss has for them.

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
    adapter, epochs = _Adapter(loss, scores, trainer), _Epochs(loss, trainer)
    trainer.compute_loss_func = adapter
    trainer.loss_is_scaled_for_ga = False
    trainer.args.average_tokens_across_devices = False
    trainer.add_callback(epochs)
    trainer._load_from_checkpoint = _after(trainer._load_from_checkpoint, epochs.load)
    columns = {"index": index, "weights": weights, "where": where, "groups": groups}
    _pass_columns(trainer, adapter, {name: column for name, column in columns.items() if column is not None})
    return trainer


def _after(first: Callable[..., Any], then: Callable[[str], None]) -> Callable[..., None]:
    def both(folder: str, *rest: Any, **named: Any) -> None:
        first(folder, *rest, **named)
        then(folder)

    return both


def _pass_columns(trainer: Any, adapter: _Adapter, columns: Mapping[str, str | Mapping[str, str]]) -> None:
    """Takes the columns out of each batch before the model sees it; the Trainer would leave them out of it."""
    if not columns:
        return
    compute, names = trainer.compute_loss, list[str]()
    for column in columns.values():
        names += [column] if isinstance(column, str) else column.values()
    if trainer.args.remove_unused_columns:
        trainer._set_signature_columns_if_needed()
        trainer._signature_columns += names

    def compute_loss(model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
        rows = dict(inputs)
        missing = [name for name in names if name not in rows]
        if missing:
            raise InputError("columns", f"a batch of {sorted(rows)}", f"one that has {', '.join(missing)} too")
        adapter.beside = {
            name: rows[column] if isinstance(column, str) else {key: rows[named] for key, named in column.items()}
            for name, column in columns.items()
        }
        kept = {name: column for name, column in rows.items() if name not in names}
        return compute(model, kept, *rest, **more)

    trainer.compute_loss = compute_loss
