"""The metric as the program sees it: a threshold that does what the value beside it says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aimfor.targets.objective import Objective


@pytest.mark.parametrize("low", [1.0, float(np.nextafter(1.0, 2.0)), 2.0**60, 1e308])
def test_a_tuned_threshold_parts_neighbouring_scores(low: float) -> None:
    """Halfway between two neighbours is one of the two, and beyond 2^53 one less is the same number."""
    objective, y = Objective.of("f1"), torch.tensor([1, 0])
    scores = torch.tensor([float(np.nextafter(low, np.inf)), low], dtype=torch.float64)
    threshold, value = objective.tuned(scores, y)
    assert objective.value(scores, y, threshold) == value == 1.0
    threshold, value = objective.tuned(scores, torch.tensor([1, 1]))
    assert objective.value(scores, torch.tensor([1, 1]), threshold) == value == 1.0
