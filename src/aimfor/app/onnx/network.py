"""One network of a run in ONNX: a chain of plain layers, float32 as in training."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from torch import nn

from ...errors import InputError
from ...fitting.models import Clip
from .graph import Graph

_SILENT = (nn.Flatten, nn.Dropout, nn.Identity)


def is_plain(model: nn.Module) -> bool:
    """Whether `network_scores` knows every layer."""
    known = (*_SILENT, Clip, nn.Linear, nn.ReLU)
    return isinstance(model, nn.Sequential) and all(isinstance(layer, known) for layer in model)


def network_scores(g: Graph, x: str, model: nn.Module) -> str:
    """Scores ``(n, outputs)`` float64 of the encoded rows ``x`` ``(n, d)`` float32."""
    if not isinstance(model, nn.Sequential) or not is_plain(model):
        raise InputError("--onnx", f"a network of type {type(model).__name__}", "a chain of plain layers")
    for layer in model:
        if isinstance(layer, Clip):
            x = g("Clip", x, np.float32(-10.0), np.float32(10.0))
        elif isinstance(layer, nn.Linear):
            x = g("MatMul", x, layer.weight.detach().t().numpy())
            x = x if layer.bias is None else g("Add", x, layer.bias.detach().numpy())
        elif isinstance(layer, nn.ReLU):
            x = g("Relu", x)
    return g.cast(x, TensorProto.DOUBLE)
