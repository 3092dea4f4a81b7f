"""Equal error rate: the root on scikit-learn's curve, brute force over thresholds, pairs of embeddings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.metrics import roc_curve

import aimfor
from aimfor.metrics import EqualErrorRate
from samples import sample


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ties", [False, True])
def test_it_is_where_scikit_learns_curve_meets_the_diagonal(seed: int, ties: bool) -> None:
    s = sample("binary", seed, ties=ties)
    for weights in (None, s.weights):
        fpr, tpr, _ = roc_curve(s.targets, s.scores, sample_weight=weights, drop_intermediate=False)
        rate = brentq(lambda x, f=fpr, t=tpr: 1 - x - np.interp(x, f, t), 0.0, 1.0, xtol=1e-14)
        steps = 1e-12 if ties else 0.0  # on a vertical step the curve has more than one height
        value = float(EqualErrorRate().value(s.scores, s.targets, weights=weights))
        assert value == pytest.approx(1 - rate, abs=1e-9 + steps)


@pytest.mark.parametrize("seed", range(5))
def test_without_ties_it_is_the_best_of_the_smaller_rate(seed: int) -> None:
    s = sample("binary", seed, ties=False)
    y = s.targets.bool()
    best = max(
        min(float((s.scores[y] >= t).double().mean()), float((s.scores[~y] < t).double().mean()))
        for t in s.scores.tolist()
    )
    assert float(EqualErrorRate().value(s.scores, s.targets)) == pytest.approx(best, abs=1e-12)


def test_pairs_are_all_pairs() -> None:
    x, labels = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 0, 2, 1, 0])
    scores, same = aimfor.retrieval.pair_scores(x, labels)
    pairs = list(itertools.combinations(range(6), 2))
    unit = x / x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(scores, torch.stack([unit[i] @ unit[j] for i, j in pairs]))
    assert same.tolist() == [bool(labels[i] == labels[j]) for i, j in pairs]
    scores, same = aimfor.retrieval.pair_scores(x[:2], labels[:2], x[2:], labels[2:], similarity="dot")
    torch.testing.assert_close(scores, (x[:2] @ x[2:].t()).reshape(-1))
    assert same.tolist() == [True, False, False, True, False, False, True, False]


def test_training_lowers_the_error_of_pairs() -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(24, 6, requires_grad=True), torch.arange(24) % 4
    metric, loss_fn = EqualErrorRate(), aimfor.MetricLoss("eer")
    before = float(metric.value(*aimfor.retrieval.pair_scores(x.detach(), labels)))
    optimizer = torch.optim.Adam([x], 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        loss_fn(*aimfor.retrieval.pair_scores(x, labels)).backward()
        optimizer.step()
    assert float(metric.value(*aimfor.retrieval.pair_scores(x.detach(), labels))) > 0.5 + 0.5 * before
