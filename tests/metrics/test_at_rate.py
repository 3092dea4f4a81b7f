"""Precision at a recall and recall at a precision: scikit-learn's curve, a plain loop, and the threshold to deploy."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve

import aimfor
from aimfor.engine import Batch
from aimfor.metrics.at_rate import _precision
from aimfor.metrics.curve import threshold_curve

RATES = st.sampled_from([0.05, 0.2, 0.3, 0.5, 2 / 3, 0.75, 0.8, 1.0])


@st.composite
def binary_data(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    n = draw(st.integers(1, 12))
    g = torch.Generator().manual_seed(draw(st.integers(0, 100_000)))
    return {
        "scores": torch.randint(-4, 5, (n,), generator=g).double() / 4,
        "targets": torch.randint(0, 2, (n,), generator=g),
        "weights": torch.randint(0, 4, (n,), generator=g).double() * 0.3,
        "where": torch.rand(n, generator=g) < 0.9,
    }


def rates_at(data: dict[str, torch.Tensor], threshold: float) -> tuple[float, float]:
    """(precision, recall) when deciding at score > threshold."""
    tp = fp = positives = 0.0
    for score, target, weight, keep in zip(*(data[k].tolist() for k in data), strict=True):
        if keep:
            positives += weight * target
            tp += weight * target * (score > threshold)
            fp += weight * (1 - target) * (score > threshold)
    return tp / (tp + fp) if tp + fp else 0.0, tp / positives if positives else math.nan


def loop_best(data: dict[str, torch.Tensor], want: str, floor: float) -> float:
    points = [rates_at(data, t - 0.01) for t in set(data["scores"].tolist())]
    if any(math.isnan(recall) for _, recall in points):
        return math.nan
    if want == "precision":
        return max(precision for precision, recall in points if recall >= floor - 1e-9)
    return max([recall for precision, recall in points if precision >= floor - 1e-9], default=0.0)


METRICS = {"precision": aimfor.PrecisionAtRecall, "recall": aimfor.RecallAtPrecision}


@given(binary_data(), RATES, st.sampled_from(["precision", "recall"]))
def test_values_equal_a_plain_loop_and_decide_reaches_them(
    data: dict[str, torch.Tensor], floor: float, want: str
) -> None:
    metric = METRICS[want](floor)
    expected = loop_best(data, want, floor)
    value, threshold = float(metric.value(**data)), float(metric.decide(**data))
    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)
    if math.isnan(expected):
        assert math.isnan(threshold)
        return
    precision, recall = rates_at(data, threshold)
    assert (precision if want == "precision" else recall) == pytest.approx(expected, abs=1e-12)
    if math.isinf(threshold):
        assert (want, expected) == ("recall", 0.0)
    else:
        assert (recall if want == "precision" else precision) >= floor - 1e-9


@given(binary_data(), RATES)
def test_values_equal_scikit_learn(data: dict[str, torch.Tensor], floor: float) -> None:
    mass = data["weights"] * data["where"]
    keep = mass > 0
    if not float((mass * data["targets"]).sum()):
        return
    precision, recall, _ = precision_recall_curve(
        data["targets"][keep].numpy(), data["scores"][keep].numpy(), sample_weight=mass[keep].numpy()
    )
    precision, recall = precision[:-1], recall[:-1]  # the last point decides nothing
    assert float(aimfor.PrecisionAtRecall(floor).value(**data)) == pytest.approx(
        precision[recall >= floor - 1e-9].max(), abs=1e-12
    )
    best = recall[precision >= floor - 1e-9].max(initial=0.0)
    assert float(aimfor.RecallAtPrecision(floor).value(**data)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("metric", [aimfor.PrecisionAtRecall(0.7), aimfor.RecallAtPrecision(0.6)], ids=repr)
def test_the_threshold_works_in_the_scores_own_precision(metric: Any, dtype: torch.dtype) -> None:
    base = torch.tensor(1.0, dtype=dtype)
    scores = [base]
    for _ in range(29):  # neighbouring floats: no number lies between them
        bits = {torch.float16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}[dtype]
        scores.append((scores[-1].view(bits) + 1).view(dtype))
    column = torch.stack(scores)
    targets = torch.rand(30) < torch.linspace(0, 1, 30)
    targets[0] = True
    decided = column > metric.decide(column, targets)
    tp = float((decided & targets).sum())
    precision, recall = tp / float(decided.sum()), tp / float(targets.sum())
    best = precision if isinstance(metric, aimfor.PrecisionAtRecall) else recall
    assert float(metric.value(column, targets)) == best


def test_the_lowest_score_can_be_decided_positive() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for lowest in (0.0, 1.0, -3.0):
            scores = torch.tensor([lowest + 1, lowest], dtype=dtype)
            assert bool((scores > aimfor.PrecisionAtRecall(1.0).decide(scores, torch.tensor([0, 1]))).all())


def test_masked_scores_do_not_shape_the_threshold() -> None:
    scores, targets = torch.tensor([4.0, 3.9, 2.0]), torch.tensor([1, 0, 0])
    metric, where = aimfor.RecallAtPrecision(0.9), torch.tensor([True, False, True])
    assert float(metric.decide(scores, targets, where=where)) == 3.0
    assert float(metric.decide(scores, targets, weights=where.float())) == 3.0


def test_a_floor_met_exactly_is_met_in_spite_of_rounding() -> None:
    scores, targets = torch.arange(10.0, 0.0, -1.0).double(), torch.tensor([1] * 8 + [0, 1])
    weights = torch.full((10,), 0.1).double()
    assert float(aimfor.RecallAtPrecision(0.9).value(scores, targets, weights=weights)) == 1.0
    flipped = torch.tensor([1, 1, 1, 1, 0, 1, 0, 0, 0, 0])
    assert float(aimfor.PrecisionAtRecall(0.8).value(scores, flipped, weights=weights)) == 1.0


@pytest.mark.parametrize("metric", [aimfor.PrecisionAtRecall(0.5), aimfor.RecallAtPrecision(0.5)], ids=repr)
def test_no_positive_is_undefined_and_no_negative_is_one(metric: Any) -> None:
    x = torch.tensor([1.0, 2.0])
    assert math.isnan(metric.value(x, torch.zeros(2)))
    assert math.isnan(metric.decide(x, torch.zeros(2)))
    assert math.isnan(metric.value(x, torch.ones(2), where=torch.zeros(2, dtype=torch.bool)))
    assert math.isnan(metric.value(torch.zeros(0), torch.zeros(0)))
    assert math.isnan(metric.decide(torch.zeros(0), torch.zeros(0)))
    assert float(metric.value(x, torch.ones(2))) == 1.0


def test_an_unreachable_precision_gives_zero_and_decides_nothing() -> None:
    scores, targets = torch.tensor([2.0, 1.0]), torch.tensor([0, 1])
    assert float(aimfor.RecallAtPrecision(0.6).value(scores, targets)) == 0.0
    assert float(aimfor.RecallAtPrecision(0.6).decide(scores, targets)) == math.inf
    assert float(aimfor.RecallAtPrecision(0.5).value(scores, targets)) == 1.0


@pytest.mark.parametrize("make", METRICS.values())
@pytest.mark.parametrize("rate", [0, -0.1, 1.0001, math.nan, "0.5", True])
def test_rates_must_lie_in_the_unit_interval(make: Any, rate: Any) -> None:
    with pytest.raises(aimfor.InputError, match=r"recall|precision"):
        make(rate)


@pytest.mark.parametrize("make", METRICS.values())
def test_the_ends_of_the_interval_are_allowed(make: Any) -> None:
    make(1)
    make(1e-9)


def test_decide_refuses_what_value_refuses() -> None:
    with pytest.raises(aimfor.InputError, match="0 or 1"):
        aimfor.PrecisionAtRecall(0.5).decide(torch.zeros(2), torch.tensor([-1, 1]))
    with pytest.raises(aimfor.InputError, match="scores"):
        aimfor.PrecisionAtRecall(0.5).decide([0.0], torch.tensor([1]))  # type: ignore[arg-type]


@given(binary_data())
def test_precision_is_zero_where_no_weight_is_decided(data: dict[str, torch.Tensor]) -> None:
    mass = data["weights"] * data["where"]
    mass[data["scores"] == data["scores"].max()] = 0.0
    curve = threshold_curve(Batch(data["scores"], data["targets"] == 1, mass))
    seen = {**data, "weights": mass}
    expected = [rates_at(seen, threshold - 0.01)[0] for threshold in curve.thresholds.tolist()]
    assert _precision(curve).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("metric", "stated"),
    [
        (aimfor.PrecisionAtRecall(0.75), "maximize precision subject to recall >= 0.75"),
        (aimfor.RecallAtPrecision(0.75), "maximize recall subject to precision >= 0.75"),
        (aimfor.TPRAtFPR(0.25), "maximize recall subject to fpr <= 0.25"),
    ],
    ids=repr,
)
def test_the_same_wish_as_a_problem_has_the_same_answer(metric: Any, stated: str) -> None:
    """Also where the rate is just what was asked for."""
    scores, targets = torch.arange(8.0, 0.0, -1.0), torch.tensor([1, 1, 0, 1, 0, 0, 1, 0])
    problem = metric.problem()
    assert " ".join(repr(problem).split()) == stated
    decision = problem.decide(scores, targets, margin="none")
    certificate = problem.certificate(scores, targets, decision=decision)
    assert certificate.objective_value == pytest.approx(float(metric.value(scores, targets)))
    (finding,) = certificate.findings
    assert finding.value == pytest.approx(float(stated.split()[-1]))


@pytest.mark.parametrize("margin", [0.3, 1.0, 2.0])
def test_the_program_of_precision_is_its_closed_form(margin: float) -> None:
    scores = torch.tensor([2.0, -1.0, 0.5, -3.0, 1.0, 0.2], dtype=torch.float64)
    targets = torch.tensor([1, 1, 0, 0, 0, 1])
    closed, program = (
        aimfor.MetricLoss(aimfor.PrecisionAtRecall(0.6), aimfor.LPEngine(form, margin=margin))(scores, targets)
        for form in ("closed", "program")
    )
    assert program.item() == pytest.approx(closed.item(), abs=1e-7)
