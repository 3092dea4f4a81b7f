"""Ranks that are only shown: exact, ties shared, and the limit of the soft ones."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref

import pytest
import torch

import aimfor
from aimfor import InputError, Status
from aimfor.smooth.ranks import SoftRanks, sharp_above


def test_sharp_ranks_are_the_limit_of_soft_ones_with_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(6, (3, 40), generator=generator).double()
    masses = torch.rand(3, 40, 2, generator=generator, dtype=torch.float64)
    places = torch.stack([torch.randperm(40, generator=generator)[:11] for _ in range(3)])
    soft = SoftRanks(scores, places, masses, 1e-4).above()
    torch.testing.assert_close(sharp_above(scores, places, masses), soft, rtol=0, atol=1e-9)


def test_sharp_ranks_are_counts() -> None:
    scores = torch.tensor([[2.0, 5.0, 2.0, 1.0]])
    places = torch.tensor([[0, 1, 3]])
    ranks = sharp_above(scores, places, torch.ones(1, 4, 1))[0, :, 0]
    assert ranks.tolist() == [2.5, 1.0, 4.0]  # two items share places 2 and 3


@pytest.mark.parametrize("name", ["auroc", "auc_mu", "multilabel_auroc", "precision@2"])
def test_a_loss_that_is_all_anchor_shows_the_exact_value(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(anchor=1.0))
    several = name not in ("auroc", "precision@2")
    scores = torch.randn(60, 3, generator=generator) if several else torch.randn(60, generator=generator)
    targets = torch.randint(3 if name == "auc_mu" else 2, (60,), generator=generator)
    if name == "multilabel_auroc":
        targets = torch.randint(2, (60, 3), generator=generator)
    shown = loss_fn.detailed(scores.requires_grad_(), targets).stats["value"]
    assert shown == pytest.approx(float(loss_fn.value(scores, targets)))


@pytest.mark.parametrize("name", ["auroc", "auc_mu", "multilabel_auroc", "precision@2"])
def test_a_value_that_is_found_when_it_is_read_is_still_known_to_be_undefined(name: str) -> None:
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(anchor=1.0))
    shape = (6,) if name in ("auroc", "precision@2") else (6, 3)
    scores = torch.randn(shape, requires_grad=True)
    targets = torch.zeros((6, 3) if name == "multilabel_auroc" else (6,), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = loss_fn.detailed(scores, targets)
    assert output.status is Status.undefined_batch
    assert output.stats["value"] != output.stats["value"]
    assert output.loss.item() == 0.0
    output.loss.backward()
    assert not scores.grad.any()


def test_a_value_is_not_read_from_scores_that_have_changed_since() -> None:
    loss_fn, targets = aimfor.MetricLoss("precision@2"), torch.tensor([1, 0, 1, 0])
    scores = torch.tensor([3.0, 2.0, 1.0, 0.0])
    first, second = loss_fn.detailed(scores, targets), loss_fn.detailed(scores, targets)
    assert first.stats["value"] == 0.5
    scores.neg_()
    assert first.stats["value"] == 0.5  # read before
    with pytest.raises(InputError, match="changed in place"):
        second.stats["value"]
    with torch.inference_mode():
        assert loss_fn.detailed(torch.tensor([3.0, 2.0, 1.0, 0.0]), targets).stats["value"] == 0.5


def test_stats_that_are_kept_do_not_keep_the_graph_and_can_be_pickled() -> None:
    class Marker:
        """Lives as long as the graph, whose hook knows it."""

    loss_fn, targets, marker = aimfor.MetricLoss("precision@2"), torch.tensor([1, 0, 1, 0]), Marker()
    scores = torch.nn.Linear(3, 1)(torch.randn(4, 3))
    scores.register_hook(lambda gradient, marker=marker: gradient)
    kept, alive = loss_fn.detailed(scores, targets).stats, weakref.ref(marker)
    del scores, marker
    gc.collect()
    assert alive() is None
    copy = pickle.loads(pickle.dumps(kept))
    assert dict(copy) == dict(kept)
    assert copy["batches"] == 1
