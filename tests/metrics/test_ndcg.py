"""NDCG: scikit-learn, the mean over all orders of tied items, padding, and undefined lists."""

from __future__ import annotations

import math
from itertools import pairwise, permutations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import aimfor


def loop_dcg(gains: list[float], k: int | None) -> float:
    return sum(g / math.log2(place + 2) for place, g in enumerate(gains[:k]))


def loop_ndcg(scores: list[float], gains: list[float], k: int | None) -> float:
    """Mean over every order of the items that puts no lower score before a higher one."""
    ideal = loop_dcg(sorted(gains, reverse=True), k)
    if not ideal:
        return math.nan
    allowed = [
        loop_dcg([gains[i] for i in order], k)
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return sum(allowed) / len(allowed) / ideal


@st.composite
def graded_lists(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    b, l = draw(st.integers(1, 3)), draw(st.integers(2, 5))  # noqa: E741
    g = torch.Generator().manual_seed(draw(st.integers(0, 100_000)))
    return {
        "scores": torch.randint(-1, 2, (b, l), generator=g).double(),
        "targets": torch.randint(0, 4, (b, l), generator=g),
        "weights": torch.randint(0, 3, (b,), generator=g).double() * 0.7,
        "where": torch.rand(b, l, generator=g) < 0.8,
    }


@given(graded_lists(), st.sampled_from([None, 1, 2, 4, 10]), st.sampled_from(["linear", "exponential"]))
def test_values_equal_the_mean_over_all_orders(data: dict[str, Any], k: int | None, gain: str) -> None:
    total = mass = 0.0
    for i, weight in enumerate(data["weights"].tolist()):
        keep = data["where"][i]
        grades = data["targets"][i][keep].tolist()
        gains = grades if gain == "linear" else [2**g - 1 for g in grades]
        value = loop_ndcg(data["scores"][i][keep].tolist(), gains, k)
        if not math.isnan(value):
            total, mass = total + weight * value, mass + weight
    expected = total / mass if mass else math.nan
    assert float(aimfor.NDCG(k, gain).value(**data)) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("k", [None, 1, 5, 12, 50])
@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_values_equal_scikit_learn(k: int | None, gain: str) -> None:
    scores, grades = torch.randn(20, 12).mul(2).round().double(), torch.randint(0, 4, (20, 12))
    grades[:, 0] = 1  # scikit-learn counts lists without relevant items as 0, we leave them out
    weights = torch.rand(20).double()
    gains = grades if gain == "linear" else 2**grades - 1
    got = aimfor.NDCG(k, gain).value(scores, grades, weights=weights)
    expected = ndcg_score(gains.numpy(), scores.numpy(), k=k, sample_weight=weights.numpy())
    assert float(got) == pytest.approx(expected, abs=1e-12)


def test_real_valued_relevance_equals_scikit_learn() -> None:
    scores, grades = torch.randn(5, 30).double(), torch.rand(5, 30).double()
    assert float(aimfor.NDCG().value(scores, grades)) == pytest.approx(
        ndcg_score(grades.numpy(), scores.numpy()), abs=1e-12
    )


@pytest.mark.parametrize("k", [None, 7, 1500])
@pytest.mark.parametrize("grades", ["whole", "many", "real", "none"])
def test_a_long_list_equals_scikit_learn(k: int | None, grades: str) -> None:
    """Whether its grades are counted or sorted."""
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(3000, generator=generator, dtype=torch.float64)
    targets = torch.randint({"many": 200, "none": 1}.get(grades, 5), (3000,), generator=generator)
    targets = targets + 0.5 if grades == "real" else targets
    for gain in ("linear", "exponential") if grades == "whole" else ("linear",):
        gains = targets if gain == "linear" else 2**targets - 1
        expected = ndcg_score(gains[None].double(), scores[None], k=k) if grades != "none" else math.nan
        found = float(aimfor.NDCG(k, gain).value(scores, targets))
        assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)
        padded = torch.cat((scores, torch.full((500,), 9.0))), torch.cat((targets, targets[:500]))
        where = torch.arange(3500) < 3000
        assert float(aimfor.NDCG(k, gain).value(*padded, where=where)) == pytest.approx(found, rel=1e-12, nan_ok=True)


def test_float32_scores_are_summed_in_float64() -> None:
    scores, grades = torch.randn(3, 400), torch.randint(0, 5, (3, 400))
    value = aimfor.NDCG().value(scores, grades)
    assert value.dtype == torch.float64
    assert float(value) == pytest.approx(ndcg_score(grades.numpy(), scores.double().numpy()), abs=1e-12)


def test_one_flat_list_is_one_row() -> None:
    scores, grades = torch.randn(7), torch.randint(0, 3, (7,)) + 1
    assert torch.equal(aimfor.NDCG().value(scores, grades), aimfor.NDCG().value(scores[None], grades[None]))


def test_padding_takes_no_place() -> None:
    scores, grades = torch.tensor([[1.0, -5.0, math.nan, math.inf]]), torch.tensor([[0, 1, 99, -4]])
    where = torch.tensor([[True, True, False, False]])
    assert float(aimfor.NDCG().value(scores, grades, where=where)) == pytest.approx(1 / math.log2(3), abs=1e-12)


def test_lists_without_relevant_items_are_left_out_and_none_left_is_undefined() -> None:
    scores, grades = torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([[0, 1], [0, 0]])
    assert float(aimfor.NDCG().value(scores, grades)) == pytest.approx(1 / math.log2(3), abs=1e-12)
    assert math.isnan(aimfor.NDCG().value(scores[1:], grades[1:]))
    assert math.isnan(aimfor.NDCG().value(scores, grades, weights=torch.tensor([0.0, 1.0])))
    assert math.isnan(aimfor.NDCG().value(scores, grades, where=torch.zeros(2, 2, dtype=torch.bool)))
    for shape in [(0,), (0, 3), (3, 0)]:
        assert math.isnan(aimfor.NDCG().value(torch.zeros(shape), torch.zeros(shape)))


def test_helpers_serve_engines() -> None:
    metric = aimfor.NDCG(2, "exponential")
    assert metric.discounts(4).tolist() == pytest.approx([1.0, 1 / math.log2(3), 0.0, 0.0], abs=1e-15)
    assert metric.gains(torch.tensor([0.0, 1.0, 3.0])).tolist() == [0.0, 1.0, 7.0]


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", True])
def test_k_must_be_a_whole_number_from_one(k: Any) -> None:
    with pytest.raises(aimfor.InputError, match="k"):
        aimfor.NDCG(k)


def test_gain_is_one_of_two() -> None:
    assert aimfor.NDCG(1, "exponential").k == 1
    with pytest.raises(aimfor.InputError, match="gain"):
        aimfor.NDCG(gain="log")


def test_grades_are_checked() -> None:
    scores = torch.zeros(1, 2)
    with pytest.raises(aimfor.InputError, match="negative grade"):
        aimfor.NDCG().value(scores, torch.tensor([[-1, 1]]))
    with pytest.raises(aimfor.InputError, match="targets"):
        aimfor.NDCG().value(scores, torch.tensor([[math.nan, 1]]))
    with pytest.raises(aimfor.InputError, match="grade of 1001"):
        aimfor.NDCG(gain="exponential").value(scores, torch.tensor([[1001, 1]]))
    aimfor.NDCG(gain="exponential").value(scores, torch.tensor([[1000, 1]]))
    aimfor.NDCG().value(scores, torch.tensor([[1001, 1]]))
    with pytest.raises(aimfor.InputError, match="weight per list"):
        aimfor.NDCG().value(scores, torch.tensor([[1, 1]]), weights=torch.ones(1, 2))


@pytest.mark.parametrize("k", [None, 2, 20])
def test_prices_are_the_slopes_of_the_measure(k: int | None) -> None:
    scores = torch.linspace(1.0, -1.0, 8, dtype=torch.float64)[None]
    form = aimfor.NDCG(k).smooth_form(aimfor.NDCG(k).check(scores, torch.tensor([[0, 2, 1, 0, 3, 0, 1, 0]])))
    above = torch.tensor([[[1.5, 2.0, 3.5, 6.0]]], dtype=torch.float64, requires_grad=True)
    measured = form.measure(above, 0.1)
    assert form.priced is not None
    value, slopes = form.priced(above.detach(), 0.1)
    assert value == pytest.approx(measured.item(), abs=1e-12)
    torch.testing.assert_close(slopes, torch.autograd.grad(measured, above)[0])
