"""Interleavings against all orderings, against the paper's dynamic program, and against each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.direct import ap_interleave, ndcg_interleave
from aimfor.direct import interleave as interleaving
from aimfor.direct.interleave import DISCOUNT, PRECISION, Gain, _by_rows, _suffix_by_sums, _to_lists, interleave

from .oracles import average_precision, best_over_all_orderings, dynamic_program, ndcg, objective

BOTH = pytest.mark.parametrize("sign", [1, -1])
METRICS = pytest.mark.parametrize(
    ("function", "metric"), [(ap_interleave, average_precision), (ndcg_interleave, ndcg)], ids=["ap", "ndcg"]
)


def draw(p: int, q: int, case: int) -> tuple[Tensor, Tensor, float]:
    """Scores of several kinds: continuous, heavily tied, all tied, nearly separated, and with an outlier."""
    up, down = torch.randn(p, dtype=torch.float64), torch.randn(q, dtype=torch.float64)
    kind = case % 5
    if kind == 1:
        up, down = up.round(), down.round()
    elif kind == 2:
        up, down = up * 0, down * 0
    elif kind == 3:
        up = up * 0.05 + 1
    elif kind == 4:
        up, down = up * 1e-6, down * 0.1 + 5 * (torch.arange(q) == 0)
    return up, down, float(10 ** (torch.rand(()) * 4 - 2))


@BOTH
@METRICS
def test_best_of_all_orderings_is_reached(function, metric, sign):
    for case in range(60):
        p, q = (1 + case % 3, 1 + (case // 3) % 3)
        up, down, epsilon = draw(p, q, case)
        n = function(up, down, epsilon, sign)
        reached = objective(up.tolist(), down.tolist(), n.tolist(), epsilon, sign, metric)
        best = best_over_all_orderings(up.tolist(), down.tolist(), epsilon, sign, metric)
        assert reached == pytest.approx(best, abs=1e-12)


@BOTH
def test_the_papers_dynamic_program_is_matched(sign):
    for case in range(150):
        p, q = (int(v) for v in torch.randint(1, 14, (2,)))
        up, down, epsilon = draw(p, q, case)
        n = ap_interleave(up, down, epsilon, sign)
        reached = objective(up.tolist(), down.tolist(), n.tolist(), epsilon, sign, average_precision)
        assert reached == pytest.approx(dynamic_program(up.tolist(), down.tolist(), epsilon, sign), abs=1e-11)


@pytest.mark.parametrize("gain", [PRECISION, DISCOUNT], ids=["ap", "ndcg"])
def test_thresholds_match_the_row_recursion_on_longer_lists(gain):
    # The same objective by a different route: −gain turns the row recursion for sign −1 into one for sign +1.
    for case in range(40):
        up, down, epsilon = draw(150, 300, case)
        lists, _ = _to_lists(up, down, None, None)
        reward = torch.full((1,), epsilon * 150, dtype=torch.float64)
        fast = interleave(lists, reward, gain, +1)
        turned = Gain(lambda i, k: -gain.at(i, k), gain.drop)
        slow = _by_rows(lists, reward, turned, prune=False)
        assert total(lists, reward, gain, fast) == pytest.approx(total(lists, reward, gain, slow), rel=1e-12)


def total(lists, reward, gain, n):
    prefix = torch.cat((torch.zeros(1, dtype=torch.float64), lists.negatives.cumsum(0)))
    return float((prefix[n] - n * lists.positives - reward * gain.at(lists.rank().double(), n.double())).sum())


def test_pooling_is_needed_and_done():
    # Equal positives in a dense stretch: each alone would pick n = 9, 6, … (not increasing), together they share one n.
    up, down = torch.zeros(40, dtype=torch.float64), torch.linspace(1, -1, 60, dtype=torch.float64)
    n = ap_interleave(up, down, 0.5, +1)
    assert bool((n.diff() >= 0).all())
    best = dynamic_program(up.tolist(), down.tolist(), 0.5, 1)
    assert objective(up.tolist(), down.tolist(), n.tolist(), 0.5, 1, average_precision) == pytest.approx(
        best, abs=1e-12
    )


def test_pruning_never_changes_the_row_recursion():
    for case in range(30):
        up, down, epsilon = draw(40, 90, case)
        lists, _ = _to_lists(up, down, None, None)
        reward = torch.full((1,), epsilon * 45, dtype=torch.float64)
        assert total(lists, -reward, PRECISION, _by_rows(lists, reward, PRECISION)) == pytest.approx(
            total(lists, -reward, PRECISION, _by_rows(lists, reward, PRECISION, prune=False)), rel=1e-12
        )


@BOTH
@METRICS
def test_a_batch_of_masked_lists_equals_the_lists_one_by_one(function, metric, sign):
    up, down = torch.randn(6, 9).round(decimals=1), torch.randn(6, 14).round(decimals=1)
    up_where, down_where = torch.rand(6, 9) < 0.7, torch.rand(6, 14) < 0.7
    up_where[1], down_where[2] = False, False
    up[~up_where], down[~down_where] = float("nan"), float("inf")
    together = function(up, down, 0.7, sign, positives_where=up_where, negatives_where=down_where)
    for row in range(6):
        kept = together[row][: int(up_where[row].sum())]
        alone = function(up[row][up_where[row]], down[row][down_where[row]], 0.7, sign)
        assert torch.equal(kept, alone)
        assert bool((together[row][len(kept) :] == -1).all())


@BOTH
@METRICS
def test_lists_of_one_positive_each_equal_the_lists_one_by_one(function, metric, sign):
    up, down = torch.randn(6, 1, dtype=torch.float64), torch.randn(6, 9, dtype=torch.float64)
    together = function(up, down, 0.7, sign)
    assert together.shape == (6, 1)
    for row in range(6):
        assert together[row].tolist() == function(up[row], down[row], 0.7, sign).tolist()


@METRICS
def test_the_loss_is_made_larger_unless_told_otherwise(function, metric):
    up, down = torch.tensor([2.0, 0.5, 0.1]), torch.tensor([1.0, 0.0, -1.0])
    assert torch.equal(function(up, down, 3.0), function(up, down, 3.0, 1))
    assert not torch.equal(function(up, down, 3.0), function(up, down, 3.0, -1))


def test_ties_put_negatives_first_for_plus_and_positives_first_for_minus():
    tied = torch.zeros(4)
    assert ap_interleave(tied, torch.zeros(7), 1e-3, +1).tolist() == [7] * 4
    assert ap_interleave(tied, torch.zeros(7), 1e-3, -1).tolist() == [0] * 4


def test_among_equally_good_cuts_the_fewest_positives_move():
    """Suffixes from the second and from the fourth are worth 2 each; moving nobody is as good as moving both of the
    last pair. The ranking nearest to the order of the scores is the one in which fewer move."""
    marginal, block = torch.tensor([-1.0, 1.0, -1.0, 2.0, 1.0, -1.0]), torch.tensor([0, 0, 0, 0, 1, 1])
    assert _suffix_by_sums(marginal, block, 2).tolist() == [False, False, False, True, False, False]


def test_a_small_epsilon_leaves_the_order_of_the_scores():
    up, down = torch.randn(30), torch.randn(50)
    for sign in (1, -1):
        n = ap_interleave(up, down, 1e-9, sign)
        assert torch.equal(n, (down[None] > up.sort(descending=True).values[:, None]).sum(1))


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"sign": 0}, "sign"),
        ({"sign": 2}, "sign"),
        ({"positives": torch.tensor([1.0, float("nan")])}, "positives"),
        ({"negatives": torch.zeros(2, 3)}, "negatives"),
        ({"negatives": torch.zeros(1, 3)}, "negatives"),
        ({"positives": torch.zeros(2, 4), "negatives": torch.zeros(3, 4)}, "negatives"),
        ({"positives": torch.tensor([1, 2])}, "scores"),
        ({"negatives_where": torch.ones(3)}, "negatives_where"),
    ],
)
def test_bad_input_is_named(change, argument):
    arguments = {"positives": torch.zeros(2), "negatives": torch.zeros(3), "epsilon": 0.1, "sign": 1} | change
    with pytest.raises(aimfor.InputError) as caught:
        ap_interleave(**arguments)
    assert caught.value.argument == argument


@pytest.mark.parametrize("lists", [1, 4])
def test_a_table_too_large_to_keep_is_refused_before_it_is_filled(lists, monkeypatch):
    """A row holds 0 … n for the n negatives above the positive, in the list with most: 1 + 2 + 4 cells a list."""
    up, down = torch.tensor([3.0, 2.0, 0.0]).expand(lists, 3), torch.tensor([2.5, 1.0, 0.5, -1.0]).expand(lists, 4)
    up = up + 10.0 * torch.arange(lists)[:, None]
    cells = lists * (1 + 2 + 4)
    monkeypatch.setattr(interleaving, "MOST_CELLS", cells)
    assert ap_interleave(up, down, 0.1, -1).shape == (lists, 3)
    monkeypatch.setattr(interleaving, "MOST_CELLS", cells - 1)
    with pytest.raises(aimfor.InputError, match="sign: got -1 with") as caught:
        ap_interleave(up, down, 0.1, -1)
    assert f"{cells:.1e} cells" in str(caught.value)
    assert f"at most {cells - 1:.1e}" in str(caught.value)
    assert ap_interleave(up, down, 0.1, +1).shape == (lists, 3)


@BOTH
def test_empty_classes_are_defined(sign):
    assert ap_interleave(torch.zeros(0), torch.zeros(3), 0.1, sign).shape == (0,)
    assert ap_interleave(torch.zeros(3), torch.zeros(0), 0.1, sign).tolist() == [0, 0, 0]
