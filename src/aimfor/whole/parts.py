"""Scores of a batch larger than memory, as one tensor in one graph.

A metric's loss is a function of n scores, and all that the network needs of it is one gradient per row of scores. So
the rows are scored part by part without keeping what the network needs for its gradient, the loss is taken once over
all n scores, and in ``backward`` each part's forward pass is run again (gradient checkpointing, one part at a time).
The result is the gradient of the whole batch, in the memory of one part, for one forward pass more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from .. import checks
from ..errors import InputError
from .replay import Forward, ReplayedPart


def in_parts(
    model: Callable[..., Any], *inputs: Any, rows: int, scores: Callable[[Any], Tensor] | None = None
) -> Tensor:
    """``scores(model(*inputs))`` of a batch of any size, computed and differentiated ``rows`` rows at a time.

    Any loss of the result has the gradient of the whole batch. Random numbers of torch's default generators (dropout)
    and autocast are those of the first pass when a part is run again; what comes out is compared with the first time.
    BatchNorm in training mode normalises each part by itself, and updates its running statistics once.

    Args:
        model: A module, or any function of the inputs. It may load data: give it the rows' indices.
        inputs: Tensors, or mappings of tensors, each with one row per example; they are cut along the first dimension
            and handed to the model as they came.
        rows: The most rows of a part, >= 1: as many as fit into memory with all that the network keeps for its
            gradient. Parts are as equal as they can be.
        scores: From the model's output to scores, such as ``lambda output: output.logits``; None takes the output.

    Returns:
        One row of scores for each row of the inputs. Differentiable once. Without gradients (``torch.no_grad()``) the
        parts are scored and nothing is run twice.

    Raises:
        InputError: ``rows`` < 1, no rows, inputs of unequal lengths, an output without one row per input row, a
            forward pass that changes a buffer other than BatchNorm's, or a number of parts that differs between
            processes where forward passes communicate. In ``backward``: weights that changed since, scores that came
            out differently, or ``create_graph=True``.

    Warns:
        UserWarning: BatchNorm in training mode meets parts that differ more than shuffled rows would.

    Example:
        >>> import torch, aimfor
        >>> model, x, y = torch.nn.Linear(3, 1), torch.randn(1000, 3), torch.arange(1000) % 2
        >>> scores = aimfor.in_parts(model, x, rows=64).squeeze(1)
        >>> aimfor.MetricLoss("auroc")(scores, y).backward()

    References:
        Chen, Xu, Zhang, Guestrin, Training deep nets with sublinear memory cost, 2016. Gao, Zhang, Han, Callan, Scaling
        deep contrastive learning batch size under memory limited setup, 2021.
    """
    rows = checks.integer("rows", rows, at_least=1)
    n = _common_length(inputs)
    parts = -(-n // rows)
    forward = Forward(model, scores, parts)
    scored = []
    with forward.first_pass():
        for number in range(parts):
            # As equal as they can be: BatchNorm has no statistics of a last part of one row.
            start, stop = n * number // parts, n * (number + 1) // parts
            pieces = _sliced(inputs, start, stop)
            if torch.is_grad_enabled() and parts > 1:
                with set_checkpoint_early_stop(False):  # the second pass must reach the scores, to be compared
                    again = ReplayedPart(forward, stop - start, len(inputs))
                    scored.append(checkpoint(again, *pieces, *forward.devices(), use_reentrant=False))
            else:
                scored.append(forward(stop - start, *pieces))
    joined = torch.cat(scored)
    if joined.requires_grad and parts > 1:
        joined.register_hook(_once)
    return joined


def _once(gradient: Tensor) -> None:
    if torch.is_grad_enabled():
        raise InputError(
            "create_graph",
            "True, for a second derivative",
            "False: scores of in_parts are differentiable once",
            "Score the batch at once: model(inputs).",
        )


def _common_length(inputs: tuple[Any, ...]) -> int:
    lengths: dict[str, int] = {}
    for position, given in enumerate(inputs):
        named = given.items() if isinstance(given, Mapping) else [(None, given)]
        for key, value in named:
            name = f"inputs[{position}]" + ("" if key is None else f"[{key!r}]")
            if not isinstance(value, Tensor) or value.ndim == 0:
                raise InputError(
                    name,
                    checks.describe(value),
                    "a tensor with one row per example, or a mapping of such tensors",
                    "Bind everything else to the model: functools.partial(model, option=…).",
                )
            lengths[name] = value.shape[0]
    if not lengths:
        raise InputError("inputs", "nothing", "at least one tensor to cut into parts")
    (first, n), (last, other) = min(lengths.items(), key=_size), max(lengths.items(), key=_size)
    if n != other:
        raise InputError("inputs", f"{n} rows in {first} and {other} in {last}", "one row per example in each")
    if n == 0:
        raise InputError("inputs", "0 rows", "at least one", "Leave out empty batches.")
    return n


def _size(named: tuple[str, int]) -> int:
    return named[1]


def _sliced(inputs: tuple[Any, ...], start: int, stop: int) -> list[Any]:
    return [
        {key: value[start:stop] for key, value in given.items()} if isinstance(given, Mapping) else given[start:stop]
        for given in inputs
    ]
