"""Prices of decisions: objectives that are a count or a share, written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

import aimfor
from aimfor.rates import accuracy, fn, fpr


def rows(kind: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, labels, and by the proxy's formula what a positive and a negative decision of each row count."""
    generator = torch.Generator().manual_seed(0)
    scores, y = torch.randn(60, generator=generator, dtype=torch.float64), torch.arange(60) % 3 == 0
    positive_if, negative_if = (
        (1 + side).clamp_min(0) if kind == "hinge" else softplus(side) / torch.log(torch.tensor(2.0).double())
        for side in (scores, -scores)
    )
    return scores, y, positive_if, negative_if


@pytest.mark.parametrize("kind", ["logistic", "hinge"])
def test_a_count_to_keep_low_is_a_share_of_all_rows(kind: str) -> None:
    scores, y, positive_if, negative_if = rows(kind)
    loss = aimfor.minimize(fn, fpr <= 0.2, proxy=kind, initial=2.0)(scores, y)
    expected = negative_if[y].sum() / 60 - 2.0 * (0.2 - positive_if[~y].mean())
    assert float(loss) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("kind", ["logistic", "hinge"])
def test_a_share_to_keep_high_is_what_it_lacks_of_one(kind: str) -> None:
    scores, y, positive_if, negative_if = rows(kind)
    loss = aimfor.maximize(accuracy, fpr <= 0.2, proxy=kind, initial=2.0)(scores, y)
    wrong = (negative_if[y].sum() + positive_if[~y].sum()) / 60
    assert float(loss) == pytest.approx(float(wrong - 2.0 * (0.2 - positive_if[~y].mean())), abs=1e-12)
