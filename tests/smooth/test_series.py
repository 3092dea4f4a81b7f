"""Sums on cells and by one sort against every difference by itself, in value and gradient, however the scores lie."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.ordering import ordered
from aimfor.smooth import HasSmooth, Ranking, grid, queried_items, ranks, series, sums
from aimfor.smooth.companions import binary_logistic
from aimfor.smooth.form import Softness, value_and_slopes
from aimfor.smooth.grid import Grid, grid_of
from aimfor.smooth.ranks import sums_of
from aimfor.smooth.series import Series, coefficients

#: Spread of the scores.
SPREADS = (0.0, 3.0, 60.0)
#: The error of a sum, as a share of the mass that is summed; a slope's is at most a quarter of it.
TOLERANCE = {torch.float32: 5e-7, torch.float64: 2e-14}
KERNELS: tuple[sums.Kernel, ...] = ("sigmoid", "steep", "softplus")


@pytest.fixture(autouse=True)
def _never_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "FEW_QUERIES", 0)


def each_way(scores: Tensor, places: Tensor, temperature: float = 1.0) -> list[sums.DifferenceSums]:
    """By one sort, and on cells where they are few: all in one matrix or one by one."""
    found: list[sums.DifferenceSums] = [Series(scores, places, temperature)]
    for whole in (grid.WHOLE, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grid, "WHOLE", whole)
            cells = grid_of(scores, places, temperature)
        found += [] if cells is None else [cells]
    return found


def problem(spread: float, dtype: torch.dtype, lists: int = 3, items: int = 400) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = (torch.rand(lists, items, generator=generator, dtype=torch.float64) * spread - 0.3 * spread).to(dtype)
    places = torch.stack([torch.randperm(items, generator=generator)[:100] for _ in range(lists)])
    masses = torch.rand(lists, items, 2, generator=generator, dtype=torch.float64).to(dtype)
    return scores, places, masses


def hostile(case: str, dtype: torch.dtype, lists: int = 2, items: int = 2000) -> Tensor:
    """Scores that lie as they should not."""
    scores = torch.randn(lists, items, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    if case == "one of 200":
        scores[:, 5] = 200.0
    elif case == "ties":
        scores = scores.mul(2.0).round()
    elif case == "all equal":
        scores = torch.full_like(scores, 5.0)
    elif case == "two clusters":
        scores = torch.where(scores > 0, 1e30 + scores, scores)
    elif case == "1e38 beside 1e-38":
        scores = torch.where(scores > 0, 1e38, 1e-38) * scores.sign()
    elif case == "denormals":
        scores = scores * 1e-41
    elif case == "one each cell":
        scores = torch.arange(items, dtype=torch.float64).expand(lists, -1) * 40.0
    else:
        scores = scores * float(case)
    return scores.to(dtype)


CASES = (
    *("1e-3", "1", "6", "100", "1e4", "1e6", "1e30"),
    *("one of 200", "ties", "all equal", "two clusters", "1e38 beside 1e-38", "denormals", "one each cell"),
)


def dense(kernel: sums.Kernel, scores: Tensor, places: Tensor, masses: Tensor) -> Tensor:
    scores, masses = scores.double(), masses.double()
    gaps = scores[:, None, :] - scores.gather(1, places)[..., None]
    soft = torch.sigmoid(gaps)
    values = {
        "sigmoid": soft,
        "steep": soft * torch.sigmoid(-gaps),
        "softplus": functional.softplus(gaps, threshold=60),
    }
    return values[kernel] @ masses


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 1.0, 1e3])
def test_neither_spread_nor_temperature_nor_ties_change_the_error(
    case: str, dtype: torch.dtype, temperature: float
) -> None:
    scores = hostile(case, dtype)
    generator = torch.Generator().manual_seed(8)
    places = torch.stack([torch.randperm(2000, generator=generator)[:150] for _ in scores])
    masses = torch.rand(2, 2000, 2, generator=generator, dtype=torch.float64).to(dtype)
    weights = torch.rand(2, 150, 2, generator=generator, dtype=torch.float64).to(dtype)
    tempered, ways = scores.double() / temperature, each_way(scores, places, temperature)
    whole, asked = masses.double().sum(1, keepdim=True), weights.double().sum(1, keepdim=True)
    for kernel in KERNELS:
        if kernel == "softplus" and float(tempered.abs().max()) > 1e30:
            continue  # its sums are beyond float32
        expected = dense(kernel, tempered, places, masses)
        scale = torch.maximum(whole, expected) if kernel == "softplus" else whole
        for found in ways:
            assert float(((found.sums(kernel, masses).double() - expected).abs() / scale).max()) < TOLERANCE[dtype]
    gaps = tempered[:, None, :] - tempered.gather(1, places)[..., None]
    for slope, matrix in (("steep", torch.sigmoid(gaps) * torch.sigmoid(-gaps)), ("sigmoid", torch.sigmoid(gaps))):
        of_asked = (matrix @ masses.double() * weights).sum(2)
        expected = (matrix.mT @ weights.double() * masses).sum(2).scatter_add(1, places, -of_asked)
        for found in ways:
            error = (found.gradient(slope, masses, weights).double() - expected).abs()  # type: ignore[arg-type]
            assert float((error / (whole + asked).sum(2)).max()) < 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("degree", "error"), [(11, 4e-8), (20, 2e-14)])
def test_polynomials_are_as_near_as_they_say(kernel: sums.Kernel, degree: int, error: float) -> None:
    u = torch.linspace(1e-12, 1.0, 10_001, dtype=torch.float64)
    expected = {"sigmoid": u / (1 + u), "steep": u / (1 + u) ** 2, "softplus": u.log1p()}[kernel]
    found = torch.zeros_like(u)
    for coefficient in coefficients(kernel, degree).flip(0):
        found = found * u + coefficient
    assert float((found - expected).abs().max()) < error


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("length", [100, 9_000, 40_000])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_by_bits_is_sorting(dtype: torch.dtype, length: int, descending: bool) -> None:
    rows = torch.randn(2, length, generator=torch.Generator().manual_seed(9)).mul(30).round().to(dtype)
    rows[rows == 1] = -0.0
    rows[:, :2] = torch.tensor([torch.finfo(dtype).max, torch.finfo(dtype).min])
    for given in (rows, rows[0]):
        values, places = torch.sort(given, stable=True, descending=descending)
        found = ordered(given, descending=descending)
        assert torch.equal(found[0], values)
        assert torch.equal(found[1], places)


@pytest.mark.parametrize("spread", SPREADS)
def test_gradient_is_autograds(spread: float) -> None:
    scores, places, masses = problem(spread, torch.float64)
    weights = torch.rand(3, 100, 2, dtype=torch.float64)
    leaf = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad((dense("sigmoid", leaf, places, masses) * weights).sum(), leaf)
    for found in (*each_way(scores, places), sums.Blocks(scores, places)):
        torch.testing.assert_close(found.gradient("steep", masses, weights), expected, rtol=0, atol=1e-11)


def test_many_items_are_summed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for spread in SPREADS[1:]:
        scores, places, masses = problem(spread, torch.float64)
        whole = Series(scores, places)
        monkeypatch.setattr(series, "BLOCK", 1)
        monkeypatch.setattr(series, "KEPT", 0)
        parts = Series(scores, places)
        torch.testing.assert_close(whole.sums("sigmoid", masses), parts.sums("sigmoid", masses), rtol=1e-12, atol=0)
        asked = torch.rand(3, 100, 2, dtype=torch.float64)
        both = (found.gradient("steep", masses, asked) for found in (whole, parts))
        torch.testing.assert_close(*both, rtol=1e-10, atol=1e-10)


def test_many_items_are_read_off_their_cells_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, positions, masses = problem(3.0, torch.float64)
    whole = grid_of(scores, positions, 1.0)
    monkeypatch.setattr(grid, "BLOCK", 1000)
    blocks = grid_of(scores, positions, 1.0)
    assert whole is not None
    assert blocks is not None
    assert blocks.points.basis is None
    weights = torch.rand(3, 100, 2, dtype=torch.float64)
    for call in (lambda ways: ways.sums("sigmoid", masses), lambda ways: ways.gradient("steep", masses, weights)):
        torch.testing.assert_close(call(whole), call(blocks), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spread", SPREADS)
def test_the_gradient_of_several_sums_is_the_sum_of_theirs(spread: float) -> None:
    scores, positions, masses = problem(spread, torch.float64)
    generator = torch.Generator().manual_seed(9)
    ranks_of, pairs = (torch.rand(3, 100, m, generator=generator, dtype=torch.float64) for m in (2, 1))
    for found in (*each_way(scores, positions), sums.Blocks(scores, positions)):
        steep, sigmoid = found.gradient("steep", masses, ranks_of), found.gradient("sigmoid", masses, pairs)
        both = found.gradients(masses, [("steep", ranks_of), ("sigmoid", pairs)])
        torch.testing.assert_close(both, steep + sigmoid, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", ["1e30", "two clusters", "1e38 beside 1e-38"])
def test_sums_of_differences_beyond_the_dtype_are_its_largest_numbers(case: str) -> None:
    scores = hostile(case, torch.float32)
    for found in each_way(scores, torch.arange(100).expand(2, -1), 1e-20):
        values = found.sums("softplus", torch.ones(2, 2000, 1))
        assert torch.isfinite(values).all()
        assert float(values.max()) > 1e36


def test_cells_are_for_scores_that_need_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "FEW_QUERIES", 64)
    ways = {"ties": Grid, "one of 200": Grid, "6": Grid, "1e4": Series, "two clusters": Series, "one each cell": Series}
    for case, way in ways.items():
        scores = hostile(case, torch.float32)
        for asked, kind in ((64, sums.Blocks), (65, way)):
            assert type(sums_of(scores, torch.arange(asked).expand(2, -1))) is kind


def test_many_items_of_one_cell_are_as_exact_as_few() -> None:
    scores = 1e-3 * torch.rand(1, 60_000, generator=torch.Generator().manual_seed(6))
    found = grid_of(scores, torch.arange(100)[None], 1.0)
    assert found is not None
    masses = torch.full((1, 60_000, 1), 0.3)
    expected = dense("sigmoid", scores, torch.arange(100)[None], masses)
    error = (found.sums("sigmoid", masses) - expected).abs().max() / masses.double().sum()
    assert float(error) < TOLERANCE[torch.float32]


def test_pairs_of_two_grades_are_those_of_softplus() -> None:
    scores, places, masses = problem(3.0, torch.float64)
    below, weight = masses[..., 0], masses[..., 1].gather(1, places)
    leaf = scores.clone().requires_grad_()
    expected = (dense("softplus", leaf, places, below[..., None])[..., 0] * weight).sum()
    (gradient,) = torch.autograd.grad(expected, leaf)
    for found in (*each_way(scores, places), sums.Blocks(scores, places)):
        total, slope = binary_logistic(weight, below, found)
        assert total == pytest.approx(float(expected.detach()), rel=1e-7)
        torch.testing.assert_close(slope, gradient)


@pytest.mark.parametrize("name", ["ap", "map@r", "recall@precision=0.9"])
def test_losses_do_not_see_how_they_are_summed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    targets = torch.rand(500, generator=generator) < 0.3
    scores = (torch.randn(500, generator=generator, dtype=torch.float64) + targets).requires_grad_()
    found = []
    for few, cells in ((0, 64), (0, 0), (1 << 40, 0)):
        monkeypatch.setattr(ranks, "FEW_QUERIES", few)
        monkeypatch.setattr(grid, "EMPTY", cells)
        loss = aimfor.MetricLoss(name, aimfor.SmoothEngine(0.7, anchor=0.3))(scores, targets)
        found.append((loss.detach(), torch.autograd.grad(loss, scores)[0]))
    torch.testing.assert_close(found[0], found[2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], found[2], rtol=1e-10, atol=1e-12)


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
    above = 1 + torch.rand(2, *form.queries.positions.shape, generator=generator, dtype=torch.float64)
    assert form.priced is not None
    value, slopes = form.priced(above, torch.ones(()))
    expected, autograds = value_and_slopes(lambda leaf: form.measure(leaf, above), above)
    assert value == pytest.approx(expected, rel=1e-12)
    there = torch.ones_like(slopes[0], dtype=torch.bool) if form.queries.there is None else form.queries.there
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
    size = (len(form.masses), *form.queries.positions.shape)
    above = 1 + 20 * torch.rand(size, generator=generator, dtype=torch.float64)
    relative = 0.1 + torch.rand(lists, 1, generator=generator, dtype=torch.float64)
    assert form.priced is not None
    value, slopes = form.priced(above, relative)
    expected, autograds = value_and_slopes(lambda leaf: form.measure(leaf, relative), above)
    assert value == pytest.approx(expected, rel=1e-12)
    there = torch.ones_like(slopes[0], dtype=torch.bool) if form.queries.there is None else form.queries.there
    torch.testing.assert_close(slopes * there, autograds * there)
    empty = metric.smooth_form(metric.check(scores, torch.zeros_like(grades)))
    assert math.isnan(empty.loss(Softness(1.0))[1])


def test_padding_is_never_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.rand(5, 40, generator=torch.Generator().manual_seed(4)) < torch.tensor(
        [[0.0], [0.2], [0.5], [0.9], [1]]
    )
    mask[:, 0] = True
    few = queried_items(mask)
    monkeypatch.setattr(ranks, "SMALL", 0)
    many = queried_items(mask)
    assert few.there is not None
    assert many.there is not None
    assert torch.equal(few.there, many.there)
    for queries in (few, many):
        for row, positions, there in zip(mask, queries.positions, queries.there, strict=True):
            assert positions[there].sort().values.tolist() == row.nonzero()[:, 0].tolist()
        assert not mask.gather(1, queries.positions)[~queries.there].any()
        assert queries.counts == mask.sum(1).tolist()


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
    asked = scores[0, 2:]
    for way in each_way(scores, places):
        found = way.sums("sigmoid", masses)[0]
        for value in asked.unique():
            alike = found[asked == value]
            assert torch.equal(alike, alike[:1].expand_as(alike))
