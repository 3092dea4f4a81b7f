"""The mean of a model's weights along its training."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.optim.swa_utils import AveragedModel


def mean_of_weights(model: nn.Module, steps: Iterable[object]) -> nn.Module:
    """A copy of the model with the mean of its weights and buffers after each of the steps.

    Args:
        model: What the steps train, in place.
        steps: Each item is asked for, and then the model is looked at; what the item is does not matter.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> mean = mean_of_weights(model, (model.weight.data.fill_(value) for value in (1.0, 2.0, 6.0)))
        >>> mean.weight.item(), model.weight.item()
        (3.0, 6.0)

    References:
        Izmailov et al., Averaging weights leads to wider optima and better generalization, 2018.
    """
    mean = AveragedModel(model, use_buffers=True)
    for _ in steps:
        mean.update_parameters(model)
    return mean.module
