"""NDCG's loss-augmented inference against every permutation and against the assignment problem."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import aimfor
from aimfor.direct.forms.ranking import shared_discounts, shared_first

CASES = pytest.mark.parametrize(
    ("sign", "k", "gain"), list(itertools.product([1, -1], [None, 1, 3], ["linear", "exponential"]))
)


def problem(length: int, k: int | None, gain: str, sign: int):
    """One list: its form, and the matrix of item × place values of F + sign ε (1 − NDCG), up to a constant."""
    scores = torch.randn(1, length, dtype=torch.float64)
    grades = torch.randint(0, 4, (1, length))
    grades[0, 0] = 2
    metric, epsilon = aimfor.NDCG(k, gain), float(10 ** (2 * torch.rand(()) - 1))
    form = metric.argmax_form(metric.check(scores, grades))
    discounts, gains = metric.discounts(length), metric.gains(grades[0])
    ideal = float((gains.sort(descending=True).values * discounts).sum())
    unit = float(discounts.sum())
    table = torch.outer(scores[0] / unit, discounts) - sign * epsilon * torch.outer(gains, discounts) / ideal
    return form, table, epsilon, unit, gains, discounts, ideal, scores


def reached(form, epsilon, unit, sign, gains, ideal, scores) -> float:
    discount = form.augment(epsilon, sign)[0] * unit  # with one list the share is 1
    return float((discount * scores[0]).sum() / unit - sign * epsilon * (discount * gains).sum() / ideal)


@CASES
def test_best_of_all_permutations_is_reached(sign, k, gain):
    for length in (2, 3, 5, 6):
        form, table, epsilon, unit, gains, _, ideal, scores = problem(length, k, gain, sign)
        best = max(
            sum(float(table[item, place]) for place, item in enumerate(order))
            for order in itertools.permutations(range(length))
        )
        assert reached(form, epsilon, unit, sign, gains, ideal, scores) == pytest.approx(best, abs=1e-12)


@CASES
def test_assignment_solver_agrees_on_longer_lists(sign, k, gain):
    form, table, epsilon, unit, gains, _, ideal, scores = problem(40, k, gain, sign)
    rows, columns = linear_sum_assignment(table.numpy(), maximize=True)
    best = float(np.asarray(table)[rows, columns].sum())
    assert reached(form, epsilon, unit, sign, gains, ideal, scores) == pytest.approx(best, abs=1e-11)


def test_truth_is_an_ideal_order_and_nearest_to_the_scores():
    scores, grades = torch.tensor([[0.1, 0.9, 0.5, 0.3]], dtype=torch.float64), torch.tensor([[1, 1, 2, 0]])
    metric = aimfor.NDCG()
    form = metric.argmax_form(metric.check(scores, grades))
    assert form.truth()[0].argsort(descending=True).tolist() == [2, 1, 0, 3]


def test_ties_share_their_places():
    discounts = aimfor.NDCG().discounts(4)
    shared = shared_discounts(torch.tensor([[1.0, 5.0, 1.0, 0.0]]), discounts)
    middle = float(discounts[1:3].mean())
    assert shared[0].tolist() == pytest.approx([middle, 1.0, middle, float(discounts[3])])


@pytest.mark.parametrize("first", [1, 3, 7, 8, 20])
def test_first_places_alone_need_no_sort(first):
    keys = torch.randint(0, 5, (6, 8), generator=torch.Generator().manual_seed(first)).double()  # many ties
    keys[:2, 3:] = -torch.inf  # padding
    discounts = (torch.arange(1, 9) <= first).double()
    torch.testing.assert_close(shared_first(keys, first), shared_discounts(keys, discounts))


def test_padding_changes_nothing():
    scores, grades = torch.randn(3, 6, dtype=torch.float64), torch.randint(0, 3, (3, 6))
    grades[:, 0] = 1
    padded = torch.cat((scores, torch.full((3, 2), float("nan"), dtype=torch.float64)), 1).requires_grad_()
    where = torch.arange(8).expand(3, 8) < 6
    plain = scores.clone().requires_grad_()
    loss_fn = aimfor.MetricLoss(aimfor.NDCG(4), aimfor.DirectEngine())
    long, short = loss_fn(padded, torch.nn.functional.pad(grades, (0, 2)), where=where), loss_fn(plain, grades)
    long.backward()
    short.backward()
    torch.testing.assert_close(long, short)
    torch.testing.assert_close(padded.grad[:, :6], plain.grad)
    assert not padded.grad[:, 6:].any()


def test_the_ideal_order_leaves_equal_scores_of_a_grade_in_the_order_of_the_list() -> None:
    length = 300
    scores, grades = torch.randint(0, 3, (length,)).double(), torch.randint(0, 3, (length,))
    metric = aimfor.NDCG()
    form = metric.argmax_form(metric.check(scores, grades))
    order = sorted(range(length), key=lambda item: (-int(grades[item]), -float(scores[item])))  # a stable sort
    discounts = metric.discounts(length)
    expected = torch.zeros(length, dtype=torch.float64)
    expected[order] = discounts / discounts.sum()
    torch.testing.assert_close(form.truth()[0].double(), expected, rtol=1e-12, atol=1e-15)
