"""Confusion, FBeta and Accuracy: scikit-learn, plain loops, and both sides of every boundary."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

import aimfor
from aimfor.metrics import AUCMu
from aimfor.metrics.confusion import class_counts

GRID = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])


@st.composite
def binary_data(draw: st.DrawFn) -> dict[str, Any]:
    """Tied scores (some at the threshold), labels, weights (some zero) and a mask."""
    n = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(values, min_size=n, max_size=n))

    return {
        "scores": torch.tensor(column(GRID), dtype=torch.float64),
        "targets": torch.tensor(column(st.integers(0, 1))),
        "weights": torch.tensor(column(st.sampled_from([0.0, 0.3, 1.0, 2.5])), dtype=torch.float64),
        "where": torch.tensor(column(st.booleans())),
    }


def loop_counts(data: dict[str, Any], threshold: float) -> tuple[float, float, float, float]:
    tp = fp = fn = tn = 0.0
    for score, target, weight, keep in zip(*(data[k].tolist() for k in data), strict=True):
        if keep:
            decided = score > threshold
            tp += weight * (decided and target == 1)
            fp += weight * (decided and target == 0)
            fn += weight * (not decided and target == 1)
            tn += weight * (not decided and target == 0)
    return tp, fp, fn, tn


def ratio(a: float, b: float) -> float:
    return a / b if b else math.nan


def same(a: Any, b: float) -> bool:
    return float(a) == pytest.approx(b, abs=1e-12, nan_ok=True)


@given(binary_data(), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([-0.5, 0.0, 0.25]))
def test_values_equal_a_plain_loop(data: dict[str, Any], beta: float, threshold: float) -> None:
    tp, fp, fn, tn = loop_counts(data, threshold)
    assert same(
        aimfor.FBeta(beta, threshold).value(**data),
        ratio((1 + beta**2) * tp, (1 + beta**2) * tp + beta**2 * fn + fp),
    )
    assert same(aimfor.Accuracy(threshold).value(**data), ratio(tp + tn, tp + fp + fn + tn))
    youden = aimfor.Confusion(lambda tp, fp, fn, tn: tp / (tp + fn) - fp / (fp + tn), "youden", threshold)
    assert same(youden.value(**data), ratio(tp, tp + fn) - ratio(fp, fp + tn))


@given(binary_data(), st.sampled_from([0.5, 1.0, 2.0]))
def test_values_equal_scikit_learn(data: dict[str, Any], beta: float) -> None:
    keep = data["where"]
    truth, decided, weights = data["targets"][keep], (data["scores"] > 0)[keep].long(), data["weights"][keep]
    if float(weights.sum()) == 0:
        return
    assert same(
        aimfor.Accuracy().value(**data),
        sk.accuracy_score(truth.numpy(), decided.numpy(), sample_weight=weights.numpy()),
    )
    if float((weights * (truth | decided)).sum()) > 0:
        expected = sk.fbeta_score(
            truth.numpy(), decided.numpy(), beta=beta, sample_weight=weights.numpy(), zero_division=0.0
        )
        assert same(aimfor.FBeta(beta).value(**data), expected)


def test_matthews_by_confusion_equals_scikit_learn() -> None:
    def matthews(tp: torch.Tensor, fp: torch.Tensor, fn: torch.Tensor, tn: torch.Tensor) -> torch.Tensor:
        return (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)).sqrt()

    scores, targets = torch.randn(300), torch.randint(0, 2, (300,))
    expected = sk.matthews_corrcoef(targets.numpy(), (scores > 0).numpy())
    assert same(aimfor.Confusion(matthews).value(scores, targets), expected)


@given(binary_data(), st.integers(2, 4), st.integers(0, 10_000))
def test_multiclass_accuracy_equals_scikit_learn(data: dict[str, Any], classes: int, seed: int) -> None:
    n = len(data["scores"])
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-2, 3, (n, classes), generator=generator).double()
    targets = torch.randint(0, classes, (n,), generator=generator)
    got = aimfor.Accuracy().value(scores, targets, weights=data["weights"], where=data["where"])
    mass = data["weights"] * data["where"]
    right = [float(mass[i]) for i in range(n) if max(range(classes), key=lambda k, i=i: scores[i, k]) == targets[i]]
    assert same(got, ratio(sum(right), float(mass.sum())))
    if float(mass.sum()) > 0:
        expected = sk.accuracy_score(targets.numpy(), scores.argmax(1).numpy(), sample_weight=mass.numpy())
        assert same(got, expected)


def test_a_score_at_the_threshold_is_decided_negative() -> None:
    at = torch.tensor([0.5])
    assert float(aimfor.Accuracy(threshold=0.5).value(at, torch.tensor([0]))) == 1.0
    assert float(aimfor.Accuracy(threshold=0.49).value(at, torch.tensor([0]))) == 0.0


@pytest.mark.parametrize("metric", [aimfor.FBeta(1.0), aimfor.Accuracy(), aimfor.IoU()])
def test_of_counts_broadcasts_over_a_table(metric: Any) -> None:
    a, b = torch.arange(4.0, dtype=torch.float64)[:, None], torch.arange(6.0, dtype=torch.float64)[None]
    table = metric.of_counts(a, b, 3 - a, 5 - b)
    assert table.shape == (4, 6)
    one = metric.of_counts(*(torch.tensor(v, dtype=torch.float64) for v in (2.0, 1.0, 1.0, 4.0)))
    assert float(table[2, 1]) == float(one)


def test_float32_scores_are_counted_in_float64() -> None:
    n = (1 << 24) + 9  # float32 cannot count so far by ones
    scores = torch.ones(1).expand(n)
    assert float(aimfor.Accuracy().value(scores, torch.ones(1, dtype=torch.bool).expand(n))) == 1.0
    weights = torch.full((1000,), 0.1)
    value = aimfor.Accuracy().value(torch.ones(1000), torch.arange(1000) < 500, weights=weights)
    assert value.dtype == torch.float64
    assert same(value, 0.5)


@pytest.mark.parametrize("metric", [aimfor.FBeta(1.0), aimfor.Accuracy(), aimfor.IoU()])
def test_nothing_left_is_undefined(metric: Any) -> None:
    empty = torch.zeros(0)
    assert math.isnan(metric.value(empty, empty))
    one = torch.ones(1)
    assert math.isnan(metric.value(one, one, where=torch.zeros(1, dtype=torch.bool)))
    assert math.isnan(metric.value(one, one, weights=torch.zeros(1)))


def test_no_positive_and_none_decided_is_undefined_but_a_false_alarm_is_zero() -> None:
    none = torch.zeros(2, dtype=torch.long)
    assert math.isnan(aimfor.FBeta(1.0).value(torch.tensor([-1.0, -2.0]), none))
    assert float(aimfor.FBeta(1.0).value(torch.tensor([1.0, -2.0]), none)) == 0.0


@pytest.mark.parametrize("beta", [0, -1, math.nan, math.inf, "2", True])
def test_beta_must_be_a_positive_number(beta: Any) -> None:
    with pytest.raises(aimfor.InputError, match="beta"):
        aimfor.FBeta(beta)


def test_beta_just_above_zero_is_allowed() -> None:
    assert aimfor.FBeta(1e-9).beta == 1e-9


@pytest.mark.parametrize("threshold", [math.nan, math.inf, "0", None])
@pytest.mark.parametrize("make", [aimfor.Accuracy, aimfor.IoU, lambda threshold: aimfor.FBeta(1.0, threshold)])
def test_threshold_must_be_finite(make: Any, threshold: Any) -> None:
    with pytest.raises(aimfor.InputError, match="threshold"):
        make(threshold=threshold)


def test_confusion_wants_a_function_of_tensors() -> None:
    with pytest.raises(aimfor.InputError, match="fn"):
        aimfor.Confusion(3)  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match="name"):
        aimfor.Confusion(lambda tp, fp, fn, tn: tp, name=3)  # type: ignore[arg-type]
    x = torch.ones(2)
    with pytest.raises(aimfor.InputError, match="float"):
        aimfor.Confusion(lambda tp, fp, fn, tn: float(tp)).value(x, x)  # type: ignore[arg-type,return-value]
    for counts in (torch.zeros(3), torch.zeros(2, 3)):  # a formula that has summed its counts away
        with pytest.raises(aimfor.InputError, match=r"shape \(\) for counts"):
            aimfor.Confusion(lambda tp, fp, fn, tn: (tp / (tp + fp + fn + tn)).sum()).of_counts(*[counts + 1.0] * 4)
    with pytest.raises(aimfor.InputError, match="shape"):
        aimfor.Confusion(lambda tp, fp, fn, tn: tp[None]).value(x, x)


def test_accuracy_refuses_what_fits_neither_layout() -> None:
    with pytest.raises(aimfor.InputError, match="targets"):
        aimfor.Accuracy().value(torch.zeros(4, 3), torch.zeros(5, dtype=torch.long))
    with pytest.raises(aimfor.InputError, match="class ids"):
        aimfor.Accuracy().value(torch.zeros(4, 3), torch.zeros(4))
    with pytest.raises(aimfor.InputError, match="ids from 0 to 2"):
        aimfor.Accuracy().value(torch.zeros(4, 3), torch.full((4,), 3))


def test_counts_of_classes_tell_false_positives_from_false_negatives() -> None:
    """Rows that are decided for another class: what is missed in one class is wrongly decided in the other."""
    scores = torch.eye(3)[[0, 0, 1, 1, 1, 2]]
    targets = torch.tensor([0, 1, 1, 2, 2, 2])
    counts = class_counts(AUCMu().check(scores, targets))
    assert counts.tp.tolist() == [1, 1, 1]
    assert counts.fp.tolist() == [1, 2, 0]
    assert counts.fn.tolist() == [0, 1, 2]
    assert counts.tn.tolist() == [4, 2, 3]


@given(binary_data())
def test_a_ratio_may_subtract_counts(data: dict[str, Any]) -> None:
    """Net benefit at odds of one to four."""
    tp, fp, fn, tn = loop_counts(data, 0.0)
    metric = aimfor.CountRatio((1, -0.25, 0, 0), (1, 1, 1, 1), name="net benefit")
    expected = ratio(tp - 0.25 * fp, tp + fp + fn + tn)
    assert float(metric.value(**data)) == pytest.approx(expected, abs=1e-12, nan_ok=True)
