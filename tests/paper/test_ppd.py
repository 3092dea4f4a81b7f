"""PPD-SG and PPD-AdaGrad: the saddle function's value, a convex problem with a known optimum, and the protocol."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from paper.protocol.protocol import Budget, Contest, Split
from paper.rivals import ppd


def problem(seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.rand(300, generator=draw) < 0.25
    x = torch.randn(300, 4, generator=draw, dtype=torch.float64)
    return x + y[:, None] * torch.tensor([1.0, 0.5, 0.0, -0.5]), y


def pairs(scores: Tensor, y: Tensor) -> float:
    """Mean over pairs of (1 − difference)²."""
    return float((1 - (scores[y][:, None] - scores[~y][None, :])).square().mean())


def test_the_saddle_s_value_is_that_of_all_pairs() -> None:
    x, y = problem()
    scores, share = x @ torch.tensor([0.3, -0.2, 0.1, 0.4], dtype=torch.float64), float(y.double().mean())
    best = scores[y].mean(), scores[~y].mean(), scores[~y].mean() - scores[y].mean()
    value = ppd.saddle(scores, y, *best, share)
    # The function leaves out the constant p(1−p) of the square.
    assert float(value) + share * (1 - share) == pytest.approx(share * (1 - share) * pairs(scores, y), rel=1e-12)
    for change in (-0.1, 0.1):
        assert ppd.saddle(scores, y, best[0] + change, *best[1:], share) > value
        assert ppd.saddle(scores, y, *best[:2], best[2] + change, share) < value


@pytest.mark.parametrize("name", ppd.NAMES)
def test_linear_scores_reach_the_known_optimum(name: str) -> None:
    x, y = problem()
    differences = (x[y][:, None] - x[~y][None, :]).reshape(-1, 4)
    optimum = torch.linalg.lstsq(differences, torch.ones(len(differences), 1, dtype=torch.float64)).solution[:, 0]
    weights = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    share, rate = float(y.double().mean()), 0.2 if name == ppd.SG else 1.0
    ends = list(ppd.stages([weights], lambda: (x @ weights, y), share, rate, 3900, name))
    assert ends == [300, 1200, 3900]
    assert pairs((x @ weights).detach(), y) <= 1.001 * pairs(x @ optimum, y)
    torch.testing.assert_close(weights.detach(), optimum, rtol=0, atol=0.01)


def test_the_protocol_s_trainer_learns_from_batches() -> None:
    x, y = problem(1)
    whole = Split(x.float(), y.long())
    task = Contest(whole, whole, whole, lambda: nn.Linear(4, 1))
    for rival in ppd.rivals():
        assert rival.trainer is not None
        found = rival.trainer(task, Budget(260, 0, batch=32), 0)
        assert len(found) == 3 * len(ppd.RATES[rival.name])
        assert max(pairwise(point.validation, y) for point in found) > 0.8


def pairwise(scores: Tensor, y: Tensor) -> float:
    return float((scores[y][:, None] > scores[~y][None, :]).double().mean())
