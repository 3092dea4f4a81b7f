"""Ranks that are only shown: exact, ties shared, and the limit of the soft ones."""

from __future__ import annotations

import pytest
import torch

import aimfor
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
