"""The grid's sums against every difference by itself, in value and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.smooth import HasSmooth, Ranking, asked_items, grid, ranking, sums
from aimfor.smooth.form import Softness, value_and_slopes
from aimfor.smooth.ranks import binary_logistic, sums_of

#: Spread of the scores: one cell, and many.
SPREADS = (0.0, 3.0, 60.0)


@pytest.fixture(autouse=True)
def _always_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "FEWEST", 0)


def problem(spread: float, dtype: torch.dtype, lists: int = 3, items: int = 400) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = (torch.rand(lists, items, generator=generator, dtype=torch.float64) * spread - 0.3 * spread).to(dtype)
    places = torch.stack([torch.randperm(items, generator=generator)[:100] for _ in range(lists)])
    masses = torch.rand(lists, items, 2, generator=generator, dtype=torch.float64).to(dtype)
    return scores, places, masses


def on_grid(scores: Tensor, places: Tensor, hits: bool = False) -> grid.Grid:
    """The grid, whether it pays or not."""
    cells = grid.cells_of(float(scores.max() - scores.min()), grid.ERROR[scores.dtype])
    assert cells is not None
    return grid.Grid(grid.placed(scores - scores.amin(1, keepdim=True), cells), places, hits)


def dense(kernel: sums.Kernel, scores: Tensor, places: Tensor, masses: Tensor) -> Tensor:
    scores, masses = scores.double(), masses.double()
    gaps = scores[:, None, :] - scores.gather(1, places)[..., None]
    soft = torch.sigmoid(gaps)
    values = {"sigmoid": soft, "steep": soft * (1 - soft), "softplus": torch.log1p(torch.exp(gaps))}[kernel]
    return values @ masses


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("kernel", ["sigmoid", "steep", "softplus"])
def test_sums_are_those_of_every_difference(kernel: sums.Kernel, spread: float, dtype: torch.dtype) -> None:
    scores, places, masses = problem(spread, dtype)
    found = on_grid(scores, places)
    assert (found.points.cells.count == 1) == (spread < 10)
    expected = dense(kernel, scores, places, masses)
    # The error is a share of all that is summed, here 200 on average.
    largest = 200 * (spread if kernel == "softplus" and spread > 1 else 1.0)
    tolerance = {torch.float32: 5e-7, torch.float64: 2e-14}[dtype] * largest
    torch.testing.assert_close(found.sums(kernel, masses).double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("hits", [False, True])
def test_gradient_is_autograds(spread: float, hits: bool) -> None:
    scores, places, masses = problem(spread, torch.float64)
    if hits:
        masses[..., 0] = torch.zeros_like(scores).scatter(1, places, masses[..., 0].gather(1, places))
    weights = torch.rand(3, 100, 2, dtype=torch.float64)
    leaf = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad((dense("sigmoid", leaf, places, masses) * weights).sum(), leaf)
    for found in (on_grid(scores, places, hits), sums.Blocks(scores, places)):
        torch.testing.assert_close(found.gradient("steep", masses, weights), expected, rtol=0, atol=1e-11)


def test_many_items_are_summed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for spread in SPREADS[1:]:
        scores, places, masses = problem(spread, torch.float64)
        whole = on_grid(scores, places)
        monkeypatch.setattr(grid, "BLOCK", 100)
        parts = on_grid(scores, places)
        torch.testing.assert_close(whole.sums("sigmoid", masses), parts.sums("sigmoid", masses), rtol=1e-12, atol=0)
        asked = torch.rand(3, 100, 2, dtype=torch.float64)
        both = (found.gradient("steep", masses, asked) for found in (whole, parts))
        torch.testing.assert_close(*both, rtol=1e-10, atol=1e-10)


def test_scores_too_far_apart_or_too_few_are_summed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, places, _ = problem(3.0, torch.float32)
    assert isinstance(sums_of(scores * 1e6, places), sums.Blocks)
    assert isinstance(sums_of(torch.full_like(scores, 3e38), places), grid.Grid)  # all equal, and large
    assert grid.cells_of(float("inf"), 1e-8) is None
    assert grid.cells_of(500.0, 1e-8) is None
    assert isinstance(sums_of(scores[:, :10], places[:, :1] % 10), sums.Blocks)  # more points than pairs
    monkeypatch.setattr(grid, "FEWEST", 1 << 17)
    assert isinstance(sums_of(scores[:1], places[:1]), sums.Blocks)


def test_pairs_of_two_grades_are_those_of_softplus() -> None:
    scores, places, masses = problem(3.0, torch.float64)
    below, weight = masses[..., 0], masses[..., 1].gather(1, places)
    leaf = scores.clone().requires_grad_()
    expected = (dense("softplus", leaf, places, below[..., None])[..., 0] * weight).sum()
    (gradient,) = torch.autograd.grad(expected, leaf)
    for found in (on_grid(scores, places), sums.Blocks(scores, places)):
        total, slope = binary_logistic(weight, below, found)
        assert total == pytest.approx(float(expected.detach()), rel=1e-7)
        torch.testing.assert_close(slope, gradient)


@pytest.mark.parametrize("name", ["ap", "map@r", "recall@precision=0.9"])
def test_losses_do_not_see_how_they_are_summed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    targets = torch.rand(500, generator=generator) < 0.3
    scores = (torch.randn(500, generator=generator, dtype=torch.float64) + targets).requires_grad_()
    found = []
    for fewest in (0, 1 << 40):
        monkeypatch.setattr(grid, "FEWEST", fewest)
        loss = aimfor.MetricLoss(name, aimfor.SmoothEngine(0.7, anchor=0.3))(scores, targets)
        found.append((loss.detach(), torch.autograd.grad(loss, scores)[0]))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(60,), (4, 30)])
@pytest.mark.parametrize("weighted", ["no", "lists", "items"])
def test_slopes_of_average_precision_are_autograds(shape: tuple[int, ...], weighted: str) -> None:
    generator = torch.Generator().manual_seed(2)
    targets = torch.rand(shape, generator=generator) < 0.3
    if len(shape) == 2:
        targets[0] = False  # a list without a positive
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    size = {"no": None, "lists": (shape[0],) if len(shape) == 2 else (1,), "items": shape}[weighted]
    weights = None if size is None else torch.rand(size, generator=generator)
    metric = aimfor.AveragePrecision()
    form = metric.smooth_form(metric.check(scores, targets, weights=weights))
    above = 1 + torch.rand(2, *form.asked.places.shape, generator=generator, dtype=torch.float64)
    assert form.priced is not None
    value, slopes = form.priced(above, torch.ones(()))
    expected, autograds = value_and_slopes(lambda leaf: form.measure(leaf, above), above)
    assert value == pytest.approx(expected, rel=1e-12)
    there = torch.ones_like(slopes[0], dtype=torch.bool) if form.asked.there is None else form.asked.there
    torch.testing.assert_close(slopes * there, autograds * there)
    empty = metric.smooth_form(metric.check(scores, torch.zeros_like(targets)))
    assert empty.loss(Softness(1.0))[1] != empty.loss(Softness(1.0))[1]


@pytest.mark.parametrize("shape", [(60,), (4, 30)])
@pytest.mark.parametrize("name", ["ndcg", "ndcg@5", "ndcg@40", "map@r", "r_precision"])
@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_of_lists_are_autograds(shape: tuple[int, ...], name: str, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    grades = torch.randint(4 if "ndcg" in name else 2, shape, generator=generator)
    if len(shape) == 2:
        grades[0] = 0  # a list without a gain
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    lists = shape[0] if len(shape) == 2 else 1
    metric = aimfor.MetricLoss(name).metric
    assert isinstance(metric, HasSmooth)
    weights = torch.rand(lists, generator=generator) if weighted else None
    form = metric.smooth_form(metric.check(scores, grades, weights=weights))
    assert isinstance(form, Ranking)
    size = (len(form.masses), *form.asked.places.shape)
    above = 1 + 20 * torch.rand(size, generator=generator, dtype=torch.float64)
    relative = 0.1 + torch.rand(lists, 1, generator=generator, dtype=torch.float64)
    assert form.priced is not None
    value, slopes = form.priced(above, relative)
    expected, autograds = value_and_slopes(lambda leaf: form.measure(leaf, relative), above)
    assert value == pytest.approx(expected, rel=1e-12)
    there = torch.ones_like(slopes[0], dtype=torch.bool) if form.asked.there is None else form.asked.there
    torch.testing.assert_close(slopes * there, autograds * there)
    empty = metric.smooth_form(metric.check(scores, torch.zeros_like(grades)))
    assert math.isnan(empty.loss(Softness(1.0))[1])


def test_padding_is_never_an_asked_item(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.rand(5, 40, generator=torch.Generator().manual_seed(4)) < torch.tensor(
        [[0.0], [0.2], [0.5], [0.9], [1]]
    )
    mask[:, 0] = True
    few = asked_items(mask)
    monkeypatch.setattr(ranking, "SMALL", 0)
    many = asked_items(mask)
    assert few.there is not None
    assert many.there is not None
    assert torch.equal(few.there, many.there)
    for asked in (few, many):
        for row, places, there in zip(mask, asked.places, asked.there, strict=True):
            assert places[there].sort().values.tolist() == row.nonzero()[:, 0].tolist()
        assert not mask.gather(1, asked.places)[~asked.there].any()
        assert asked.counts == mask.sum(1).tolist()


@pytest.mark.parametrize("name", ["ap", "map@r", "ndcg@10", "multilabel_ap"])
def test_long_lists_side_by_side_are_those_one_by_one(name: str) -> None:
    generator = torch.Generator().manual_seed(5)
    targets = torch.rand(3, 1500, generator=generator) < torch.tensor([[0.1], [0.3], [0.02]])
    targets[:, 0] = True
    scores = torch.randn(3, 1500, generator=generator, dtype=torch.float64) + targets
    by_label = name.startswith("multilabel")
    scores, targets = (scores.t().contiguous(), targets.t().contiguous()) if by_label else (scores, targets)
    scores.requires_grad_()
    engine = aimfor.SmoothEngine(0.3, anchor=0.4, anchor_temperature=0.3)
    loss = aimfor.MetricLoss(name, engine)(scores, targets)
    one = aimfor.MetricLoss("ap" if by_label else name, engine)
    parts = [one(*row) for row in zip(*((part.t() if by_label else part) for part in (scores, targets)), strict=True)]
    expected = torch.stack(parts).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-11, atol=0)
    gradients = (torch.autograd.grad(value, scores)[0] for value in (loss, expected))
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", SPREADS[1:])
def test_equal_scores_have_equal_sums(spread: float, dtype: torch.dtype) -> None:
    """Bit by bit, wherever they stand: curves are interpolated between neighbours, over differences that must be 0."""
    scores, _, masses = problem(spread, dtype, lists=1, items=1003)
    scores = (scores * 20 / spread).round() * (spread / 20)
    places = torch.arange(2, 1003)[None]
    found, asked = on_grid(scores, places).sums("sigmoid", masses)[0], scores[0, 2:]
    for value in asked.unique():
        alike = found[asked == value]
        assert torch.equal(alike, alike[:1].expand_as(alike))
