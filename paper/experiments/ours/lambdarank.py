"""A network with LambdaRank's weights: every pair's logistic loss counts what swapping the two would change in NDCG."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.learners.ensemble.members import Rows
from aimfor.targets.objective import Objective

EPOCHS, LISTS, HIDDEN = 30, 32, 64


def lambdarank(scores: Tensor, grades: Tensor, there: Tensor) -> Tensor:
    """Mean over ``(b, l)`` lists of ``Σ |ΔNDCG| log(1 + exp(s_j − s_i))`` over pairs with grade i above grade j.

    References:
        Burges, From RankNet to LambdaRank to LambdaMART, 2010.
    """
    hidden = scores.detach().masked_fill(~there, -torch.inf)
    places = hidden.argsort(1, descending=True).argsort(1) + 1
    discounts, gains = 1.0 / torch.log2(places + 1.0), torch.where(there, grades, 0).to(scores.dtype)
    best = gains.sort(1, descending=True).values
    ideal = (best / torch.log2(torch.arange(2.0, best.shape[1] + 2.0))).sum(1)
    swapped = (gains[:, :, None] - gains[:, None, :]) * (discounts[:, :, None] - discounts[:, None, :]).abs()
    pairs = swapped.clamp_min(0.0) * (there[:, :, None] & there[:, None, :])
    losses = (pairs * functional.softplus(scores[:, None, :] - scores[:, :, None])).sum((1, 2))
    defined = ideal > 0
    return torch.where(defined, losses / ideal.clamp_min(1e-9), 0.0).sum() / defined.sum().clamp_min(1)


def padded(rows: Rows) -> tuple[Tensor, Tensor]:
    """``(lists, longest)`` row numbers, and which of them are there."""
    assert rows.lists is not None
    _, ids, counts = rows.lists.unique(return_inverse=True, return_counts=True)
    order = ids.argsort(stable=True)
    first = counts.cumsum(0) - counts
    place = torch.arange(len(ids)) - first[ids[order]]
    found = torch.zeros(len(counts), int(counts.max()), dtype=torch.int64)
    found[ids[order], place] = order
    return found, torch.arange(found.shape[1]) < counts[:, None]


def train(rows: Rows, epochs: int, seed: int, look: Rows | None, objective: Objective) -> tuple[nn.Module, int]:
    """The network after so many epochs, and the epoch that was best on ``look``."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(rows.x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    numbers, there = padded(rows)
    best, chosen = -1.0, epochs
    for epoch in range(1, epochs + 1):
        for some in torch.randperm(len(numbers)).split(LISTS):
            longest = int(there[some].sum(1).max())
            items, real = numbers[some, :longest], there[some, :longest]
            optimizer.zero_grad()
            scores = model(rows.x[items.reshape(-1)]).view(items.shape)
            lambdarank(scores, rows.y[items], real).backward()
            optimizer.step()
        if look is not None:
            with torch.no_grad():
                value = objective.value(model(look.x), look.y, lists=look.lists)
            if value > best:
                best, chosen = value, epoch
    return model, chosen


def scores_of(objective: Objective, fit: Rows, look: Rows, test_x: Tensor, seed: int) -> Tensor:
    """Scores of the test rows: the epoch is chosen on validation lists, and the network refitted on both parts."""
    mean, deviation = fit.x.mean(0), fit.x.std(0).clamp_min(1e-6)

    def scaled(x: Tensor) -> Tensor:
        return ((x - mean) / deviation).clamp(-10, 10).float()

    sides = [Rows(scaled(one.x), one.y, lists=one.lists) for one in (fit, look)]
    _, epochs = train(sides[0], EPOCHS, seed, sides[1], objective)
    x, y, lists = (torch.cat([getattr(side, name) for side in sides]) for name in ("x", "y", "lists"))
    joined = Rows(x, y, lists=lists)
    model, _ = train(joined, epochs, seed, None, objective)
    with torch.no_grad():
        scores: Tensor = model(scaled(test_x))
    return scores
