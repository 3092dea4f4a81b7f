"""What a loss remembers of recent batches, and how it is saved.

State whose shape is known after the first batch is saved in a shape that is known before it:
`torch.distributed.checkpoint` loads into tensors of the shape that was saved, and a new loss has not met its classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .engine import Batch
from .errors import InputError

#: What is remembered of each example.
BUFFERS = ("scores", "targets", "weights", "index")


class ScoreBank(nn.Module):
    """The last ``size`` examples' scores, targets and weights, as persistent buffers.

    With example indices given, an example's stale copy leaves the bank before the example is ranked against it,
    so nothing is compared with its own past.
    """

    scores: Tensor
    targets: Tensor
    weights: Tensor
    index: Tensor
    head: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("scores", torch.zeros(0))
        self.register_buffer("targets", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("weights", torch.zeros(0))  # 0 marks an empty slot
        self.register_buffer("index", torch.zeros(0, dtype=torch.int64))  # -1: not given
        self.register_buffer("head", torch.zeros((), dtype=torch.int64))

    def join(self, batch: Batch) -> tuple[Batch, Tensor]:
        """The batch followed by the bank, and a mask of the rows that are fresh."""
        n = batch.targets.numel()
        weights = batch.effective_weights()
        own = batch.scores.new_ones(n) if weights is None else weights
        if self.scores.shape[0] and self.scores.shape[1:] != batch.scores.shape[1:]:
            raise InputError(
                "scores",
                f"{tuple(batch.scores.shape[1:])} scores per example",
                f"{tuple(self.scores.shape[1:])}, as in the bank",
                "Make a new engine for a model with another number of outputs.",
            )
        if not self.scores.shape[0]:
            return batch, torch.ones(n, dtype=torch.bool, device=batch.scores.device)
        kept = self._without(batch.index).to(batch.scores.dtype)
        return (
            Batch(
                torch.cat((batch.scores, self.scores.to(batch.scores.dtype))),
                torch.cat((batch.targets, self.targets.to(batch.targets.dtype))),
                torch.cat((own, kept)),
            ),
            torch.arange(n + self.size, device=batch.scores.device) < n,
        )

    @torch.no_grad()
    def push(self, batch: Batch) -> None:
        """Remember the batch; the oldest examples make room."""
        n = min(batch.targets.numel(), self.size)
        if not self.scores.shape[0]:
            self._allocate(batch)
        weights = batch.effective_weights()
        own = batch.scores.new_ones(batch.targets.numel()) if weights is None else weights
        self.weights = self._without(batch.index)
        slots = (self.head + torch.arange(n, device=self.head.device)) % self.size
        self.scores[slots] = batch.scores[-n:].detach().to(self.scores.dtype)
        self.targets[slots] = batch.targets[-n:].to(torch.int64)
        self.weights[slots] = own[-n:].to(self.weights.dtype)
        self.index[slots] = -1 if batch.index is None else batch.index[-n:]
        self.head = (self.head + n) % self.size

    def _without(self, index: Tensor | None) -> Tensor:
        """The bank's weights with the stale copies of these examples at zero."""
        if index is None:
            return self.weights
        return torch.where(torch.isin(self.index, index), self.weights.new_zeros(()), self.weights)

    def _allocate(self, batch: Batch) -> None:
        shape = (self.size, *batch.scores.shape[1:])
        self.scores = batch.scores.new_zeros(shape)
        self.targets = batch.targets.new_zeros(self.size, dtype=torch.int64)
        self.weights = batch.scores.new_zeros(self.size)
        self.index = self.targets - 1
        self.head = self.head.to(batch.scores.device)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # An empty bank is saved in its shape for one score an example: `torch.distributed.checkpoint` loads into that.
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.scores.shape[0]:
            for name in BUFFERS:
                empty = getattr(self, name).new_full((self.size,), -1 if name == "index" else 0)
                destination[prefix + name] = empty.double() if empty.is_floating_point() else empty

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        # The buffers take their shape from the first batch; a saved bank brings its own, an empty one none.
        weights = state_dict.get(prefix + "weights")
        if weights is not None and not weights.any() and not state_dict[prefix + "head"]:
            nothing = {prefix + name: state_dict[prefix + name][:0] for name in BUFFERS}
            state_dict = {**state_dict, **nothing}
        for name in BUFFERS:
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.shape[:1] not in (torch.Size([0]), torch.Size([self.size])):
                raise InputError(
                    "state_dict",
                    f"a score bank of size {saved.shape[0]}",
                    f"size {self.size}, as this engine was made with",
                )
            if saved is not None:
                setattr(self, name, torch.empty_like(saved, device=self.head.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"size={self.size}"


#: Numbers in a saved state, or a multiple where there are more.
SAVED_SIZE = 1024


def filled(tensor: Tensor) -> Tensor:
    """How many dimensions, the shape and the numbers in one row of float64, filled up with zeros.

    Example:
        >>> filled(torch.tensor([[0.5, 0.25]]))[:6].tolist()
        [2.0, 1.0, 2.0, 0.5, 0.25, 0.0]
    """
    row = [tensor.new_tensor([tensor.ndim, *tensor.shape]), tensor.detach().reshape(-1)]
    numbers = torch.cat(row).double()
    whole = numbers.new_zeros(-(-len(numbers) // SAVED_SIZE) * SAVED_SIZE)
    whole[: len(numbers)] = numbers
    return whole


def unfilled(row: Tensor) -> Tensor:
    """What `filled` was given; a state of 0.1, which was not filled, as it is.

    Example:
        >>> unfilled(filled(torch.tensor([[0.5, 0.25]])))
        tensor([[0.5000, 0.2500]], dtype=torch.float64)
    """
    if row.ndim != 1 or len(row) % SAVED_SIZE:
        return row.clone()
    ndim = int(row[0])
    shape = [int(size) for size in row[1 : 1 + ndim]]
    return row[1 + ndim : 1 + ndim + torch.Size(shape).numel()].reshape(shape).clone()
