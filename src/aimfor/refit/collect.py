"""The inputs of a network's last linear layer, over a whole loader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError


def last_linear(model: nn.Module, inputs: Tensor) -> str:
    """The name of the linear layer that runs last on ``inputs`` and whose output is the model's output.

    Raises:
        InputError: There is none, or something follows it.
    """
    calls: list[tuple[str, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda _m, _i, output, name=name: calls.append((name, output)))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        output = model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if not calls:
        raise InputError(
            "model", f"a {type(model).__name__} that runs no nn.Linear", "a network with a linear last layer"
        )
    name, scores = calls[-1]
    if (
        not isinstance(output, Tensor)
        or output.numel() != scores.numel()
        or not torch.equal(output.flatten(), scores.flatten())
    ):
        raise InputError(
            "model",
            f"a network with further layers after its last linear layer {name!r}",
            "one whose output is that layer's output",
            "Pass layer= with the name of the layer to refit, if what follows keeps the metric unchanged.",
        )
    return name


def collect(model: nn.Module, loader: Iterable[Any], layer: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features, targets and (where batches have a third part) weights or mask, of every batch in turn."""
    module = dict(model.named_modules()).get(layer)
    if not isinstance(module, nn.Linear):
        raise InputError("layer", repr(layer), "the name of an nn.Linear in the model", "See model.named_modules().")
    device = module.weight.device
    seen: list[Tensor] = []
    features, targets, rest = [], [], []
    hook = module.register_forward_pre_hook(lambda _m, args: seen.append(args[0].detach()))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for batch in loader:
                seen.clear()
                model(batch_part(batch, 0).to(device))
                if len(seen) != 1:
                    raise InputError("layer", f"{layer!r}, called {len(seen)} times", "a layer called once per batch")
                features.append(seen[0])
                targets.append(batch_part(batch, 1).to(device))
                if len(batch) > 2:
                    rest.append(batch_part(batch, 2).to(device))
    finally:
        hook.remove()
        model.train(training)
    if not features:
        raise InputError("loader", "no batch", "at least one batch of (inputs, targets)")
    return torch.cat(features), torch.cat(targets), torch.cat(rest) if rest else None


def batch_part(batch: Any, position: int) -> Tensor:
    """One part of a batch ``(inputs, targets)`` or ``(inputs, targets, weights)``."""
    if not isinstance(batch, list | tuple) or not 2 <= len(batch) <= 3 or not isinstance(batch[position], Tensor):
        raise InputError(
            "loader",
            f"batches of type {type(batch).__name__}",
            "tuples of tensors (inputs, targets[, weights or where])",
        )
    part: Tensor = batch[position]
    return part
