"""AveragePrecision: scikit-learn, a plain loop over thresholds, and lists."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import aimfor


def loop_ap(scores: list[float], targets: list[int], mass: list[float]) -> float:
    """Σ (R_t − R_{t−1}) P_t straight from the definition."""
    positives = sum(w for t, w in zip(targets, mass, strict=True) if t)
    if not positives:
        return math.nan
    total = before = 0.0
    for threshold in sorted(set(scores), reverse=True):
        chosen = [(t, w) for s, t, w in zip(scores, targets, mass, strict=True) if s >= threshold]
        tp, decided = sum(w for t, w in chosen if t), sum(w for _, w in chosen)
        if decided:
            total += (tp / positives - before) * tp / decided
            before = tp / positives
    return total


@st.composite
def ranked_lists(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    b, l = draw(st.integers(1, 4)), draw(st.integers(2, 8))  # noqa: E741
    g = torch.Generator().manual_seed(draw(st.integers(0, 100_000)))
    return {
        "scores": torch.randint(-2, 3, (b, l), generator=g).double(),
        "targets": torch.randint(0, 2, (b, l), generator=g),
        "weights": torch.randint(0, 4, (b, l), generator=g).double() * 0.3,
        "where": torch.rand(b, l, generator=g) < 0.8,
    }


def mean(values: list[tuple[float, float]]) -> float:
    kept = [(v, w) for v, w in values if not math.isnan(v) and w > 0]
    return sum(v * w for v, w in kept) / sum(w for _, w in kept) if kept else math.nan


@given(ranked_lists(), st.booleans(), st.booleans(), st.booleans())
def test_values_equal_a_plain_loop(data: dict[str, Any], weighted: bool, masked: bool, per_list: bool) -> None:
    b = data["scores"].shape[0]
    mass = torch.ones_like(data["scores"])
    by_list = torch.ones(b, dtype=torch.float64)
    if per_list:
        by_list = data["weights"][:, 0].clone()
        data["weights"] = by_list
    elif weighted:
        mass = data["weights"]
    else:
        del data["weights"]
    if masked:
        mass = mass * data["where"]
    else:
        del data["where"]
    each = [
        (loop_ap(data["scores"][i].tolist(), data["targets"][i].tolist(), mass[i].tolist()), float(by_list[i]))
        for i in range(b)
    ]
    assert float(aimfor.AveragePrecision().value(**data)) == pytest.approx(mean(each), abs=1e-12, nan_ok=True)


@given(ranked_lists())
def test_values_equal_scikit_learn(data: dict[str, Any]) -> None:
    each = []
    for i in range(data["scores"].shape[0]):
        keep = data["where"][i]
        scores, targets, weights = (data[k][i][keep].numpy() for k in ("scores", "targets", "weights"))
        if (weights * targets).sum() > 0:
            each.append((average_precision_score(targets, scores, sample_weight=weights), 1.0))
    assert float(aimfor.AveragePrecision().value(**data)) == pytest.approx(mean(each), abs=1e-12, nan_ok=True)


def test_one_long_list_equals_scikit_learn() -> None:
    scores, targets = torch.randn(5000).mul(20).round(), torch.rand(5000) < 0.05
    expected = average_precision_score(targets.numpy(), scores.double().numpy())
    value = aimfor.AveragePrecision().value(scores, targets)
    assert value.dtype == torch.float64
    assert float(value) == pytest.approx(expected, abs=1e-12)


def test_padding_equals_shorter_lists() -> None:
    scores, targets = torch.randn(3, 6), torch.tensor([[1, 0, 1, 0, 0, 1]] * 3)
    lengths = torch.tensor([6, 4, 2])
    where = torch.arange(6) < lengths[:, None]
    padded = torch.where(where, scores, torch.full((), math.inf))
    short = [aimfor.AveragePrecision().value(scores[i, :n], targets[i, :n]) for i, n in enumerate(lengths.tolist())]
    assert float(aimfor.AveragePrecision().value(padded, targets, where=where)) == pytest.approx(
        float(sum(short)) / 3, abs=1e-12
    )


def test_lists_without_a_positive_are_left_out_and_none_left_is_undefined() -> None:
    scores, targets = torch.tensor([[1.0, 2.0], [1.0, 2.0]]), torch.tensor([[1, 0], [0, 0]])
    assert float(aimfor.AveragePrecision().value(scores, targets)) == 0.5
    assert math.isnan(aimfor.AveragePrecision().value(scores[1:], targets[1:]))
    assert math.isnan(aimfor.AveragePrecision().value(scores, targets, where=torch.zeros(2, 2, dtype=torch.bool)))
    assert math.isnan(aimfor.AveragePrecision().value(scores, targets, weights=torch.tensor([0.0, 1.0])))
    assert math.isnan(aimfor.AveragePrecision().value(torch.zeros(0), torch.zeros(0)))
    assert math.isnan(aimfor.AveragePrecision().value(torch.zeros(0, 3), torch.zeros(0, 3)))
    assert math.isnan(aimfor.AveragePrecision().value(torch.zeros(3, 0), torch.zeros(3, 0)))


def test_all_positive_is_one() -> None:
    assert float(aimfor.AveragePrecision().value(torch.randn(4), torch.ones(4))) == 1.0


@pytest.mark.parametrize("given", [("weights",), ("where",), ("weights", "where")])
def test_ranks_that_are_nearly_sharp_count_what_the_value_counts(given: tuple[str, ...]) -> None:
    scores = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    targets = torch.tensor([0, 1, 1, 0, 1])
    parts = {"weights": scores + 0.5, "where": torch.tensor([False, True, True, True, True])}
    rest = {name: parts[name] for name in given}
    metric = aimfor.AveragePrecision()
    loss = aimfor.MetricLoss(metric, aimfor.SmoothEngine(1e-3))(scores.requires_grad_(), targets, **rest)
    value = float(metric.value(scores.detach(), targets, **rest))
    assert loss.item() == pytest.approx(1.0 - value, abs=1e-12)
    assert value != pytest.approx(float(metric.value(scores.detach(), targets)), abs=1e-3)
