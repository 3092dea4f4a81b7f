"""Metrics as programs: the solver and the closed form agree in loss and gradient; bounds bound; ratios are exact."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.lp import best_threshold, solve
from aimfor.lp.ratio import RatioProblem, _beyond, ratio_form, ratio_program

PAIR_METRICS = [
    aimfor.AUROC(),
    aimfor.AUROC(max_fpr=0.4),
    aimfor.AUROCOneVsRest(),
    aimfor.AUCMu(),
    aimfor.AUCMu([[0, 1, 3], [2, 0, 1], [1, 5, 0]]),
    aimfor.PrecisionAtRecall(0.5),
    aimfor.PrecisionAtRecall(1.0),
]
RATIOS = [
    aimfor.FBeta(1.0),
    aimfor.FBeta(2.0, threshold=0.3),
    aimfor.IoU(),
    aimfor.Accuracy(),
    aimfor.CountRatio((1, 0, 0, 0), (1, 0.3, 0.7, 0), name="tversky"),
]


def batch(metric: aimfor.Metric, seed: int, n: int = 14) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    classes = 3 if metric.layout == "multiclass" else 2
    shape = (n, 3) if classes == 3 else (n,)
    targets = torch.arange(n) % classes
    scores = torch.randn(shape, generator=g, dtype=torch.float64) + (0.5 * targets if classes == 2 else 0.0)
    return scores, targets, torch.rand(n, generator=g, dtype=torch.float64) + 0.5


def loss_and_gradient(metric: aimfor.Metric, engine: aimfor.Engine, s: Tensor, y: Tensor, w: Tensor | None):
    scores = s.clone().requires_grad_()
    output = aimfor.MetricLoss(metric, engine).detailed(scores, y, weights=w)
    assert output.status is aimfor.Status.ok
    return output.loss.detach(), torch.autograd.grad(output.loss, scores)[0], output.stats


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", PAIR_METRICS + RATIOS, ids=repr)
def test_program_and_closed_form_agree_in_loss_and_gradient(metric: aimfor.Metric, weighted: bool) -> None:
    for seed, margin in ((0, 1.0), (1, 0.3)):
        s, y, w = batch(metric, seed)
        weights = w if weighted else None
        closed = loss_and_gradient(metric, aimfor.LPEngine(margin=margin), s, y, weights)
        program = loss_and_gradient(metric, aimfor.LPEngine("program", margin=margin), s, y, weights)
        assert closed[2]["programs"] == 0
        assert program[2]["programs"] >= 1
        torch.testing.assert_close(program[0], closed[0], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(program[1], closed[1], rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
def test_larger_ratio_programs_are_sparse_and_agree() -> None:
    metric = aimfor.FBeta(1.0)
    s, y, _ = batch(metric, 3, n=160)
    closed = loss_and_gradient(metric, aimfor.LPEngine(), s, y, None)
    program = loss_and_gradient(metric, aimfor.LPEngine("program"), s, y, None)
    torch.testing.assert_close(program[0], closed[0], rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(program[1], closed[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("metric", RATIOS, ids=repr)
@pytest.mark.parametrize("threshold", ["zero", "free"])
def test_the_bound_is_below_the_metric(metric: aimfor.Metric, threshold: str) -> None:
    for seed in range(10):
        s, y, w = batch(metric, seed)
        loss = aimfor.MetricLoss(metric, aimfor.LPEngine("program", threshold=threshold))(s, y, weights=w)
        if threshold == "zero":
            best = float(metric.value(s, y, weights=w))
        else:
            cuts = torch.cat((s - 1e-9, s.max()[None] + 1))
            best = max(float(metric.value(s - cut + metric.threshold, y, weights=w)) for cut in cuts)
        assert 1.0 - float(loss) <= best + 1e-7


def test_a_free_threshold_is_never_worse_and_matches_a_fine_grid() -> None:
    metric = aimfor.FBeta(1.0)
    s, y, _ = batch(metric, 2)
    s = s + 1.5 * y - 1.0
    free = float(aimfor.MetricLoss(metric, aimfor.LPEngine(threshold="free"))(s, y))
    assert free <= float(aimfor.MetricLoss(metric, aimfor.LPEngine())(s, y)) + 1e-9
    positive = y.bool()
    grid = torch.cartesian_prod(torch.linspace(0, 6, 301).double(), torch.linspace(-6, 6, 601).double())
    f = grid[:, :1] * s[positive] + grid[:, 1:]
    g = grid[:, :1] * s[~positive] + grid[:, 1:]
    tp, fp = f.clamp_max(1).sum(1), (1 + g).clamp_min(0).sum(1)
    best = float(torch.where(tp > 0, 2 * tp / (positive.sum() + tp + fp), 0.0).max())
    assert best > 0.6  # more than the bound that ignores the scores, 1/2
    assert best <= 1 - free + 1e-9
    assert best == pytest.approx(1 - free, abs=2e-3)


def test_ravi_problem_2_normalised_by_tau_gives_the_same_bound() -> None:
    """min β²nε + Σφ, τ <= ε, τ <= t f + s, φ >= ε + t f + s, Στ = 1: the bound is (1 + β²)/(1 + V)."""
    for seed, beta in ((0, 1.0), (1, 2.0)):
        s, y, _ = batch(aimfor.FBeta(beta), seed)
        high, low = s[y == 1], s[y == 0]
        p, q = len(high), len(low)
        v = p + q + 3  # τ, φ, ε, t, s
        A = torch.zeros(2 * p + q, v).double()
        for i in range(p):
            A[i, i], A[i, p + q] = 1, -1
            A[p + i, i], A[p + i, p + q + 1], A[p + i, p + q + 2] = 1, -high[i], -1
        for j in range(q):
            row = 2 * p + j
            A[row, p + j], A[row, p + q], A[row, p + q + 1], A[row, p + q + 2] = -1, 1, low[j], 1
        c = torch.zeros(v).double()
        c[p : p + q], c[p + q] = 1.0, beta**2 * p
        tau = torch.zeros(1, v).double()
        tau[0, :p] = 1
        lower = torch.full((v,), -torch.inf).double()
        lower[p : p + q + 2] = 0
        value = float(
            solve(c, A, torch.zeros(2 * p + q).double(), A_eq=tau, b_eq=torch.ones(1).double(), lower=lower).value
        )
        loss = float(aimfor.MetricLoss(aimfor.FBeta(beta), aimfor.LPEngine(threshold="free"))(s, y))
        assert 1 - loss == pytest.approx((1 + beta**2) / (1 + value), rel=1e-7)


def test_a_trivial_bound_still_has_a_way_out() -> None:
    """All positives far below the threshold: the bound is 0 and flat, the loss is not."""
    scores = torch.tensor([-3.0, -2.0, 1.0, 2.0], requires_grad=True)
    targets = torch.tensor([1, 1, 0, 0])
    for form in ("closed", "program"):
        loss = aimfor.MetricLoss("f1", aimfor.LPEngine(form))(scores, targets)
        (gradient,) = torch.autograd.grad(loss, scores)
        assert loss.item() >= 1.0
        assert bool((gradient[:2] < 0).all())


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_best_threshold_program_is_the_best_over_all_thresholds(beta: float) -> None:
    metric = aimfor.FBeta(beta)
    square = beta**2
    for seed in range(8):
        g = torch.Generator().manual_seed(seed)
        s = (torch.randn(12, generator=g, dtype=torch.float64) * 2).round() / 2
        y = torch.rand(12, generator=g) < 0.4
        y[0] = True
        positives = float(y.sum())
        solution = best_threshold(s, y, (0.0, 1 + square, 0.0), (square * positives, 1.0, 1.0))
        cuts = torch.cat((s - 1e-9, s.max()[None]))
        best = max(float(metric.value(s - cut, y)) for cut in cuts)
        assert -float(solution.value) == pytest.approx(best, abs=1e-9)


def test_charnes_cooper_without_order_finds_the_best_of_all_labellings() -> None:
    """With expected counts: max (a·h)/(c·h + γ) over 0 <= h <= 1 is attained at one of the 2ⁿ labellings."""
    g = torch.Generator().manual_seed(0)
    for _ in range(10):
        gain = torch.rand(6, generator=g, dtype=torch.float64)
        gamma = float(gain.sum())
        eye = torch.eye(6, dtype=torch.float64)
        A = torch.cat((eye, -torch.ones(6, 1).double()), 1)
        c = torch.cat((-2 * gain, torch.zeros(1).double()))
        E = torch.cat((torch.ones(6).double(), torch.tensor([gamma], dtype=torch.float64)))[None]
        value = -float(solve(c, A, torch.zeros(6).double(), A_eq=E, b_eq=torch.ones(1).double(), lower=0.0).value)
        labellings = torch.tensor(list(itertools.product((0.0, 1.0), repeat=6))).double()
        best = float((2 * labellings @ gain / (labellings.sum(1) + gamma)).max())
        assert value == pytest.approx(best, abs=1e-9)


def test_what_has_no_program_is_refused_with_a_reason() -> None:
    with pytest.raises(aimfor.UnsupportedPairError, match="HasProgram"):
        aimfor.MetricLoss(aimfor.NDCG(), aimfor.LPEngine())
    with pytest.raises(aimfor.UnsupportedPairError, match="average"):
        aimfor.MetricLoss(aimfor.IoU(average="image"), aimfor.LPEngine())
    upside_down = aimfor.CountRatio((0, 1, 0, 0), (1, 1, 1, 1))
    with pytest.raises(aimfor.InputError, match="does not rise with true positives"):
        aimfor.MetricLoss(upside_down, aimfor.LPEngine())(torch.zeros(2), torch.tensor([0, 1]))
    with pytest.raises(aimfor.InputError, match="one score per example"):
        aimfor.MetricLoss("accuracy", aimfor.LPEngine())(torch.zeros(2, 3), torch.tensor([0, 1]))
    for wrong in ({"form": "open"}, {"threshold": "best"}, {"margin": 0.0}, {"tol": -1.0}):
        with pytest.raises(aimfor.InputError, match=next(iter(wrong))):
            aimfor.LPEngine(**wrong)  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match="numerator"):
        aimfor.CountRatio((1, 2), (1, 1, 1, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["closed", "program"])
def test_beyond_the_bound_the_loss_moves_the_positives_alone(form: str) -> None:
    """Where no positive scores above zero the loss goes on straight in tp, by the slope of fp = all three negatives."""
    scores = torch.tensor([-0.5, -1.5, 0.3, -0.2, -2.0]).double().requires_grad_()
    targets = torch.tensor([1, 1, 0, 0, 0])
    loss_fn = aimfor.MetricLoss("f1", aimfor.LPEngine(form))
    loss = loss_fn(scores, targets)
    (gradient,) = torch.autograd.grad(loss, scores)
    # F₁ = 2 tp / (2 + tp + fp) has slope 2 / (2 + fp) at tp = 0.
    assert float(loss.detach()) == pytest.approx(1.0 + 2.0 / (2.0 + 3.0) * (0.5 + 1.5))
    assert gradient.tolist() == pytest.approx([-2.0 / (2.0 + 3.0)] * 2 + [0.0] * 3)


@pytest.mark.parametrize("numerator", [(0.0, 2.0, 0.0), (3.0, 1.0, -1.0)], ids=["f1", "with tn"])
def test_beyond_the_trivial_bound_the_loss_goes_on_along_the_tangent(numerator: tuple[float, float, float]) -> None:
    """Value of 1 − ratio at tp = 0, and its slope where both negatives are false positives, by finite differences."""
    denominator = (2.0, 1.0, 1.0) if numerator[0] == 0.0 else (5.0, 0.5, 0.0)  # both parts of the slope count
    ones = torch.ones(2, dtype=torch.float64)
    high = torch.tensor([-0.8, -0.4], dtype=torch.float64, requires_grad=True)
    problem = RatioProblem(high, torch.tensor([-0.5, 0.7]).double(), ones, ones, numerator, denominator)
    tp, fp = -1.2, 0.5 + 1.7
    slope = (problem.ratio(1e-6, 2.0) - problem.ratio(-1e-6, 2.0)) / 2e-6
    loss = _beyond(problem, 1.0)
    assert float(loss.detach()) == pytest.approx(1.0 - problem.ratio(0.0, fp) - slope * tp, rel=1e-8)
    assert torch.autograd.grad(loss, high)[0].tolist() == pytest.approx([-slope, -slope], rel=1e-8)


@pytest.mark.parametrize(("threshold", "more"), [("zero", 1), ("free", 3)])
def test_the_program_has_no_idle_variable_and_few_scores_are_a_dense_matrix(threshold: str, more: int) -> None:
    ones = torch.ones(40, dtype=torch.float64)
    problem = RatioProblem(ones * 0.5, -ones, ones, ones, (0, 2, 0), (40, 1, 1))
    program = ratio_program(problem, 1.0, threshold)
    assert program["c"].shape == (80 + more,)
    assert program["A"].shape == (120, 80 + more)
    assert program["A"].layout is torch.strided  # 80 scores, though 1,600 pairs
    assert bool((program["A"] != 0).any(0).all())


@pytest.mark.parametrize(
    ("positives", "constant", "defined"), [(2, 0.0, True), (2, 2.0, True), (0, 0.0, False), (0, 2.0, True)]
)
def test_a_ratio_is_defined_where_its_denominator_can_be_positive(
    positives: int, constant: float, defined: bool
) -> None:
    """Precision, whose denominator has no constant, needs a positive; with a constant it does not."""
    high, low = torch.ones(positives, dtype=torch.float64), -torch.ones(3, dtype=torch.float64)
    problem = RatioProblem(high, low, high, torch.ones_like(low), (0.0, 1.0, 0.0), (constant, 1.0, 1.0))
    assert ratio_form(problem, torch.cat((high, low)), 1.0, "zero").defined is defined


@pytest.mark.parametrize("recall", [0.2, 0.5, 0.9, 1.0])
def test_program_of_precision_at_a_recall_bounds_it_and_is_reached_with_wide_margins(recall: float) -> None:
    """With the threshold searched by brute force over a fine grid the bound is no better; scaled up it is exact."""
    metric = aimfor.PrecisionAtRecall(recall)
    for seed in range(20):
        s, y, _ = batch(metric, seed)
        bound = 1.0 - float(aimfor.MetricLoss(metric, aimfor.LPEngine())(s, y))
        needed, grid = recall * float(y.sum()), torch.linspace(-4, 4, 4001, dtype=torch.float64)
        recalled = (s[y == 1][None] - grid[:, None]).clamp_max(1.0).sum(1)
        false = (1.0 + s[y == 0][None] - grid[:, None]).clamp_min(0.0).sum(1)
        by_hand = (needed / (needed + false))[recalled >= needed].max()
        assert bound == pytest.approx(float(by_hand), abs=2e-3)
        assert bound <= float(metric.value(s, y)) + 1e-12
    clear = torch.where(y == 1, 1e6, -1e6).double() + s
    assert float(aimfor.MetricLoss(metric, aimfor.LPEngine())(clear, y)) == pytest.approx(0.0, abs=1e-9)
