"""Precision and recall at k, and reciprocal rank: plain counting, every choice of k items, and training."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import aimfor
from aimfor.metrics import HitAtK, PrecisionAtK, RecallAtK, ReciprocalRank
from aimfor.smooth.form import Softness

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


def test_soft_precision_is_the_share_of_what_is_softly_inside() -> None:
    """Against the definition, one list at a time; it never exceeds what k places hold."""
    scores, targets = torch.randn(6, 9, dtype=torch.float64), torch.rand(6, 9) < 0.6
    targets[:, 0] = True
    for k in (1, 3, 20):
        loss = aimfor.MetricLoss(PrecisionAtK(k), aimfor.SmoothEngine(0.7, relative=True))(scores, targets)
        spread = ((scores - scores.mean(1, keepdim=True)).square().mean()).sqrt()
        expected = []
        for row, hit in zip(scores, targets, strict=True):
            above = torch.sigmoid((row[None] - row[:, None]) / (0.7 * spread))
            ranks = 0.5 + above.sum(1)
            inside = torch.sigmoid((k + 0.5 - ranks) / (0.7 * max(10, k)))
            expected.append(min(k, 9) / k * float(inside[hit].sum() / inside.sum()))
        assert 1 - float(loss) == pytest.approx(sum(expected) / 6, abs=1e-9)


def test_reciprocal_rank_is_plain_counting() -> None:
    scores, targets = torch.randn(20, 8), torch.rand(20, 8) < 0.2
    there = torch.rand(20, 8) < 0.8
    expected = []
    for row, hit, counted in zip(scores.tolist(), targets.tolist(), there.tolist(), strict=True):
        order = sorted((i for i in range(8) if counted[i]), key=lambda i, row=row: -row[i])
        places = [place for place, i in enumerate(order, 1) if hit[i]]
        expected += [1 / places[0]] if places else []
    got = aimfor.metric_from_name("mrr").value(scores, targets, where=there)
    assert 0 < len(expected) < 20
    assert float(got) == pytest.approx(sum(expected) / len(expected))


def test_reciprocal_rank_is_torchmetrics() -> None:
    retrieval = pytest.importorskip("torchmetrics.functional.retrieval")
    for _ in range(20):
        scores, targets = torch.rand(9), torch.rand(9) < 0.3  # torchmetrics takes a positive at or below 0 for a miss
        targets[0] = True
        theirs = float(retrieval.retrieval_reciprocal_rank(scores, targets))
        assert float(ReciprocalRank().value(scores, targets)) == pytest.approx(theirs)


@pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")
def test_a_list_without_a_positive_has_no_first_one() -> None:
    assert torch.isnan(ReciprocalRank().value(torch.zeros(4), torch.zeros(4)))
    loss = aimfor.MetricLoss("mrr", aimfor.SmoothEngine())(torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3))
    assert loss.requires_grad
    assert float(loss.detach()) == 0.0


def test_soft_reciprocal_rank_by_hand() -> None:
    scores, targets = torch.tensor([[1.0, 0.2, -0.5, 0.9]], dtype=torch.float64), torch.tensor([[0, 1, 1, 0]])
    above = sum(1 / (1 + math.exp(-(s - 0.2) / 0.5)) for s in (1.0, 0.9))
    found = aimfor.MetricLoss("mrr", aimfor.SmoothEngine(0.5))(scores, targets)
    assert 1 - float(found) == pytest.approx(1 / (1 + above))


def test_soft_ranks_are_asked_of_the_positives_unless_all_crowd_the_first_places():
    targets = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
    for metric, asked in [(RecallAtK(2), targets.sum(1).tolist()), (PrecisionAtK(2), [5, 5])]:
        form = metric.smooth_form(metric.check(torch.randn(2, 5), targets))
        assert form.queries.there.sum(1).tolist() == asked


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_soft_hit_is_one_minus_the_chance_that_every_positive_misses(k):
    scores, targets = torch.randn(3, 6, dtype=torch.float64), torch.rand(3, 6) < 0.4
    targets[:, 0] = True
    metric = HitAtK(k)
    found = float(metric.smooth_form(metric.check(scores, targets)).loss(Softness(0.4, relative=0.3))[0])
    hits = []
    for row, truth in zip(scores.tolist(), targets.tolist(), strict=True):
        missed = 1.0
        for i, own in enumerate(row):
            if truth[i]:
                rank = 1.0 + sum(1 / (1 + math.exp((own - s) / 0.4)) for j, s in enumerate(row) if j != i)
                missed *= 1.0 - 1 / (1 + math.exp((rank - k - 0.5) / (0.3 * max(k, 10.0))))
        hits.append(1.0 - missed)
    assert 1.0 - found == pytest.approx(sum(hits) / 3, abs=1e-9)
