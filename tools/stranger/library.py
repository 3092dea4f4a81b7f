"""Run beside the installed wheel and torch alone: every registered metric gives a loss with a gradient."""

import importlib.util

import torch

import aimfor
from aimfor.metrics.registry import METRICS

assert importlib.util.find_spec("sklearn") is None, "this environment is to hold torch alone"
assert "site-packages" in aimfor.__file__, aimfor.__file__
shapes = {"binary": (24,), "multiclass": (24, 3), "multilabel": (24, 3), "lists": (5, 7)}
for entry in METRICS:
    metric = aimfor.metric_from_name(entry.example)
    shape = shapes.get(metric.layout, (24, 3))
    scores = torch.randn(shape, requires_grad=True)
    targets = torch.arange(24) % 3 if metric.layout == "multiclass" else (torch.rand(shape) < 0.4).long()
    try:
        loss_fn = aimfor.MetricLoss(metric)
    except aimfor.UnsupportedPairError as refusal:
        if "LagrangianEngine" in str(refusal):  # it needs the size of the data set
            continue
        raise
    loss = loss_fn(scores, targets)
    loss.backward()
    assert torch.isfinite(loss), entry.example
    assert scores.grad is not None, entry.example
    assert torch.isfinite(scores.grad).all(), entry.example
print(f"         {len(METRICS)} metrics beside torch {torch.__version__}")
