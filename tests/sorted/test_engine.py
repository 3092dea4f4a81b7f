"""The engine around the kernels: what it counts, and what it refuses when nobody has looked before."""

from __future__ import annotations

import pytest
import torch

import aimfor


def test_problems_with_both_classes_are_counted() -> None:
    scores = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    loss_fn = aimfor.MetricLoss("auroc_ovr")
    stats = loss_fn.detailed(scores, torch.tensor([0, 0, 1, 1, 2, 2])).stats
    assert (stats["pairs"], stats["problems"]) == (3, 3)
    stats = loss_fn.detailed(scores, torch.tensor([0, 0, 1, 1, 1, 1])).stats
    assert (stats["pairs"], stats["problems"]) == (2, 3)


@pytest.mark.parametrize("huge", [1e101, -1e101])
def test_squares_that_leave_float64_are_refused_without_validation_too(huge: float) -> None:
    scores = torch.tensor([huge, 0.0, 1.0], dtype=torch.float64)
    with pytest.raises(aimfor.InputError, match="The model has diverged"):
        aimfor.MetricLoss("auroc", validate=False)(scores, torch.tensor([1, 0, 1]))
