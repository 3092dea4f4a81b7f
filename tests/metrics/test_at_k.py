"""Precision and recall at k: plain counting, every choice of k items, and training."""

from __future__ import annotations

import itertools

import pytest
import torch

import aimfor
from aimfor.metrics import PrecisionAtK, RecallAtK

BOTH = pytest.mark.parametrize("metric", [PrecisionAtK(3), RecallAtK(3)], ids=["precision", "recall"])


@BOTH
def test_value_is_plain_counting(metric):
    scores, targets = torch.randn(20, 8), torch.rand(20, 8) < 0.4
    targets[:, 0] = True
    hits = targets.gather(1, scores.topk(3).indices).sum(1).double()
    expected = hits / 3 if isinstance(metric, PrecisionAtK) else hits / targets.sum(1)
    assert float(metric.value(scores, targets)) == pytest.approx(float(expected.mean()))


@BOTH
@pytest.mark.parametrize("sign", [1, -1])
def test_best_of_all_choices_of_k_items_is_reached(metric, sign):
    for _ in range(20):
        scores, targets = torch.randn(1, 6, dtype=torch.float64), torch.rand(1, 6) < 0.5
        targets[0, 0] = True
        epsilon = float(3 * torch.rand(()) + 0.01)
        form = metric.argmax_form(metric.check(scores, targets))
        divisor = 3.0 if isinstance(metric, PrecisionAtK) else float(targets.sum())

        def objective(chosen, scores=scores, targets=targets, divisor=divisor, epsilon=epsilon):
            hits = float((chosen * targets[0]).sum()) / divisor
            return float((chosen * scores[0]).sum()) / 3 + sign * epsilon * (1 - hits)

        choices = (torch.tensor([i in some for i in range(6)]).double() for some in itertools.combinations(range(6), 3))
        assert objective(form.augment(epsilon, sign)[0] * 3) == pytest.approx(max(map(objective, choices)), abs=1e-12)


# At the optimum no change helps, and precision among 3 places stays below 1 in lists with fewer positives: the hint
# about gradients of exactly 0 is right there.
@pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")
@BOTH
def test_training_raises_it(metric):
    """The protocol of the law tests: 200 steps of Adam, and at least half of what there is to gain."""
    scores, targets = torch.randn(10, 12, requires_grad=True), torch.rand(10, 12) < 0.25
    targets[:, 0] = True
    loss_fn = aimfor.MetricLoss(metric)
    optimizer = torch.optim.Adam([scores], lr=0.05)
    start = loss_fn(scores, targets).item()
    for _ in range(200):
        optimizer.zero_grad()
        loss = loss_fn(scores, targets)
        loss.backward()
        optimizer.step()
    best = 1 - targets.sum(1).clamp_max(3).div(3 if isinstance(metric, PrecisionAtK) else targets.sum(1)).mean().item()
    assert loss.item() - best < 0.5 * (start - best)


def test_bad_settings_and_item_weights_are_named():
    with pytest.raises(aimfor.InputError, match="k"):
        PrecisionAtK(0)
    with pytest.raises(aimfor.InputError, match="weights"):
        PrecisionAtK(2).value(torch.randn(2, 4), torch.ones(2, 4), weights=torch.ones(2, 4))
