"""Matthews' correlation: scikit-learn for two classes and several, weights, one class only, training."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import matthews_corrcoef

import aimfor
from aimfor.metrics import MCC
from samples import sample


@pytest.mark.parametrize("layout", ["binary", "multiclass"])
@pytest.mark.parametrize("seed", range(5))
def test_values_are_scikit_learns(layout: str, seed: int) -> None:
    s = sample(layout, seed)
    decided = s.scores > 0.25 if layout == "binary" else s.scores.argmax(1)
    for weights in (None, s.weights):
        expected = matthews_corrcoef(s.targets, decided, sample_weight=weights)
        assert float(MCC(0.25).value(s.scores, s.targets, weights=weights)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
def test_one_class_is_zero_as_a_value_and_nothing_to_learn_from() -> None:
    scores = torch.tensor([1.0, -1.0, 2.0], requires_grad=True)
    columns = torch.eye(3, requires_grad=True)
    for given, targets in ((scores, torch.ones(3).long()), (columns, torch.ones(3).long())):
        assert float(MCC().value(given.detach(), targets)) == 0.0
        output = aimfor.MetricLoss("mcc", aimfor.SmoothEngine()).detailed(given, targets)
        assert output.status is aimfor.Status.undefined_batch


def test_one_decision_for_all_is_zero() -> None:
    assert float(MCC().value(torch.ones(4), torch.tensor([0, 1, 0, 1]))) == 0.0
    assert float(MCC().value(torch.eye(3)[[0, 0, 0]], torch.tensor([0, 1, 2]))) == 0.0


def test_several_classes_are_learned_and_refused_by_direct() -> None:
    s = sample("multiclass", seed=3, ties=False)
    scores, loss_fn = s.scores.clone().requires_grad_(), aimfor.MetricLoss("mcc")
    optimizer = torch.optim.Adam([scores], 0.2)
    for _ in range(50):
        optimizer.zero_grad()
        loss_fn(scores, s.targets).backward()
        optimizer.step()
    assert float(MCC().value(scores.detach(), s.targets)) > 0.8
    with pytest.raises(aimfor.InputError, match="one score per example"):
        aimfor.MetricLoss("mcc", aimfor.DirectEngine())(s.scores, s.targets)


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_what_counts_nothing_has_no_correlation(shape: tuple[int, ...]) -> None:
    scores, targets = torch.zeros(shape), torch.tensor([0, 1])
    assert MCC().value(scores, targets, weights=torch.zeros(2)).isnan()
    assert MCC().value(scores[:0], targets[:0]).isnan()
