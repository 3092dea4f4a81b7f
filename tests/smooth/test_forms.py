"""Soft decisions and soft ranks: brute force, the limit of temperature 0, finite differences, blocks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.metrics import METRICS, Metric, PrecisionAtK, RecallAtK, metric_from_name
from aimfor.smooth import ClassDecisions, Decisions, HasSmooth, sums
from aimfor.smooth.form import Softness
from samples import sample

EXTRA: list[Metric] = [
    PrecisionAtK(3),
    RecallAtK(2),
    aimfor.AUROC(max_fpr=0.4),
    aimfor.NDCG(3, gain="exponential"),
    aimfor.FBeta(0.5, threshold=0.3),
    aimfor.Confusion(lambda tp, fp, fn, tn: tp * tn / ((tp + fn) * (tn + fp)), name="product"),
    aimfor.IoU(classes="mean"),
    aimfor.IoU(classes=1),
    aimfor.AUCMu([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]),
]
ALL = [metric_from_name(entry.example) for entry in METRICS] + EXTRA
SMOOTH = [metric for metric in ALL if isinstance(metric, HasSmooth)]
every = pytest.mark.parametrize("metric", SMOOTH, ids=repr)


def data(metric: Metric, seed: int = 0) -> tuple[Tensor, Tensor]:
    s = sample(metric.layout, seed, ties=False)
    return s.scores, s.targets


def loss(metric: Metric, scores: Tensor, targets: Tensor, softness: Softness, **rest: Tensor) -> Tensor:
    assert isinstance(metric, HasSmooth)
    return metric.smooth_form(metric.check(scores, targets, **rest)).loss(softness)[0]


def has_prices(metric: Metric) -> bool:
    """Decisions: their anchor is cross-entropy at prices that the gradient takes as constants."""
    assert isinstance(metric, HasSmooth)
    return isinstance(metric.smooth_form(metric.check(*data(metric))), Decisions | ClassDecisions)


def test_every_registered_metric_has_a_smooth_form() -> None:
    assert [metric for metric in ALL if not isinstance(metric, HasSmooth)] == []


@every
@pytest.mark.parametrize("seed", range(3))
def test_the_limit_of_temperature_zero_is_the_exact_metric(metric: Metric, seed: int) -> None:
    """Of every class, label, list and example that has something to find."""
    scores, targets = data(metric, seed)
    if metric.layout == "multilabel":
        scores, targets = scores[targets.any(1)], targets[targets.any(1)]
    found = float(loss(metric, scores, targets, Softness(1e-7, 1e-7)))
    assert 1.0 - found == pytest.approx(float(metric.value(scores, targets)), abs=1e-4)


@pytest.mark.parametrize(
    ("metric", "anchor"),
    # The prices of decisions are constants to the gradient; their anchor is compared with cross-entropy below.
    [(metric, 0.0) for metric in SMOOTH] + [(metric, 0.4) for metric in SMOOTH if not has_prices(metric)],
    ids=repr,
)
def test_gradient_agrees_with_finite_differences(metric: Metric, anchor: float) -> None:
    scores, targets = data(metric, 1)
    softness = Softness(0.7, 0.4, anchor)
    leaf = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(metric, leaf, targets, softness), leaf)
    assert gradient.abs().max() > 1e-6
    for place in range(0, scores.numel(), 3):
        step = torch.zeros_like(scores).view(-1)
        step[place] = 1e-5
        up, down = (float(loss(metric, scores + sign * step.view_as(scores), targets, softness)) for sign in (1, -1))
        assert float(gradient.reshape(-1)[place]) == pytest.approx((up - down) / 2e-5, abs=2e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_f_score_of_sigmoids(weighted: bool) -> None:
    scores, targets = torch.tensor([2.0, -1.0, 0.5, -3.0, 0.2]), torch.tensor([1, 1, 0, 0, 1])
    weights = torch.tensor([0.3, 1.7, 0.9, 2.0, 1.1]) if weighted else torch.ones(5)
    soft = [1 / (1 + math.exp(-s / 0.5)) for s in scores.tolist()]
    tp = sum(w * d for w, d, y in zip(weights.tolist(), soft, targets.tolist(), strict=True) if y)
    fp = sum(w * d for w, d, y in zip(weights.tolist(), soft, targets.tolist(), strict=True) if not y)
    positives = sum(w for w, y in zip(weights.tolist(), targets.tolist(), strict=True) if y)
    expected = 1 - 5 * tp / (5 * tp + 4 * (positives - tp) + fp)
    got = aimfor.MetricLoss("fbeta=2", aimfor.SmoothEngine(0.5))(scores, targets, weights=weights)
    assert float(got) == pytest.approx(expected, rel=1e-6)


def test_average_precision_of_sigmoids() -> None:
    scores = torch.randn(2, 9, dtype=torch.float64)
    targets = torch.rand(2, 9) < 0.4
    targets[:, 0] = True
    weights = torch.rand(2, 9, dtype=torch.float64) + 0.1
    values = []
    for s, y, w in zip(scores.tolist(), targets.tolist(), weights.tolist(), strict=True):
        total, mass = 0.0, 0.0
        for i in range(9):
            if y[i]:
                above = [w[j] if j == i else w[j] / (1 + math.exp(-(s[j] - s[i]) / 0.3)) for j in range(9)]
                total += w[i] * sum(a for a, hit in zip(above, y, strict=True) if hit) / sum(above)
                mass += w[i]
        values.append(total / mass)
    got = aimfor.MetricLoss("ap", aimfor.SmoothEngine(0.3))(scores, targets, weights=weights)
    assert float(got) == pytest.approx(1 - sum(values) / 2, abs=1e-12)


def test_auroc_of_sigmoids_and_its_anchor() -> None:
    scores, targets = data(aimfor.AUROC(), 2)
    positives, negatives = scores[targets == 1], scores[targets == 0]
    gaps = negatives[None] - positives[:, None]
    plain = aimfor.MetricLoss("auroc", aimfor.SmoothEngine(0.3))(scores, targets)
    assert float(plain) == pytest.approx(float(torch.sigmoid(gaps / 0.3).mean()), abs=1e-12)
    anchored = aimfor.MetricLoss("auroc", aimfor.SmoothEngine(0.3, anchor=1.0))(scores, targets)
    assert float(anchored) == pytest.approx(float(functional.softplus(gaps).mean()), abs=1e-12)


def test_the_anchor_of_accuracy_is_cross_entropy() -> None:
    scores, targets = data(aimfor.AUROC(), 3)
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    anchored = aimfor.MetricLoss("accuracy", aimfor.SmoothEngine(2.0, anchor=1.0))(leaf, targets)
    entropy = functional.binary_cross_entropy_with_logits(other, targets.double())
    torch.testing.assert_close(anchored, entropy)
    torch.testing.assert_close(*torch.autograd.grad((anchored, entropy), (leaf, other)))
    scores, targets = data(aimfor.AUCMu(), 3)
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    anchored = aimfor.MetricLoss("accuracy", aimfor.SmoothEngine(0.5, anchor=1.0))(leaf, targets)
    entropy = functional.cross_entropy(other, targets)
    torch.testing.assert_close(anchored, entropy)
    torch.testing.assert_close(*torch.autograd.grad((anchored, entropy), (leaf, other)))


@every
def test_the_temperature_of_the_anchor_is_a_scale_of_the_scores(metric: Metric) -> None:
    """Both temperatures at a quarter are both at 1 for scores four times as large; so are different ones."""
    scores, targets = data(metric, 3)
    scores = scores.double()
    moved = getattr(metric, "threshold", 0.0)
    for temperature in (0.25, 0.4):
        colder = aimfor.SmoothEngine(temperature, anchor=0.4, anchor_temperature=0.25)
        plain = aimfor.SmoothEngine(4 * temperature, anchor=0.4)
        leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        one, two = (aimfor.MetricLoss(metric, engine) for engine in (colder, plain))
        found, expected = one(leaf, targets), two(4 * (other - moved) + moved, targets)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(*torch.autograd.grad((found, expected), (leaf, other)), rtol=1e-9, atol=1e-12)


def test_colder_anchors_by_their_formulas() -> None:
    scores, targets = data(aimfor.AUROC(), 2)
    gaps = scores[targets == 0][None] - scores[targets == 1][:, None]
    engine = aimfor.SmoothEngine(0.7, anchor=1.0, anchor_temperature=0.25)
    pairs = aimfor.MetricLoss("auroc", engine)(scores, targets)
    assert float(pairs) == pytest.approx(float(functional.softplus(gaps / 0.25).mean()), abs=1e-12)
    entropy = functional.binary_cross_entropy_with_logits(scores / 0.25, targets.double())
    assert float(aimfor.MetricLoss("accuracy", engine)(scores, targets)) == pytest.approx(float(entropy), abs=1e-12)
    scores, targets = data(aimfor.AUCMu(), 3)
    entropy = functional.cross_entropy(scores / 0.25, targets)
    assert float(aimfor.MetricLoss("accuracy", engine)(scores, targets)) == pytest.approx(float(entropy), abs=1e-12)


def test_the_anchor_of_f1_has_the_prices_of_parambath() -> None:
    """A missed positive costs 2 − F, a false alarm F, with F the (soft) score itself."""
    scores, targets = data(aimfor.AUROC(), 4)
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    soft = torch.sigmoid(scores)
    value = float(2 * (soft * targets).sum() / (soft.sum() + targets.sum()))
    prices = torch.where(targets == 1, 2 - value, value)
    entropy = functional.binary_cross_entropy_with_logits(other, targets.double(), prices, reduction="sum")
    entropy = entropy / prices.sum()
    anchored = aimfor.MetricLoss("f1", aimfor.SmoothEngine(anchor=1.0))(leaf, targets)
    torch.testing.assert_close(anchored, entropy)
    torch.testing.assert_close(*torch.autograd.grad((anchored, entropy), (leaf, other)))


def test_ratio_without_tensors_says_what_the_formula_says() -> None:
    scores, targets = data(aimfor.AUROC(), 5)
    lines = aimfor.FBeta(2.0)
    formula = aimfor.Confusion(lambda tp, fp, fn, tn: 5 * tp / (5 * tp + 4 * fn + fp), name="formula")
    softness = Softness(0.8, None, 0.3)
    first, second = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    one, two = loss(lines, first, targets, softness), loss(formula, second, targets, softness)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(*torch.autograd.grad((one, two), (first, second)))


@pytest.mark.parametrize("name", ["ap", "ndcg@10", "auc_mu"])
@pytest.mark.parametrize("kept", [0, 1 << 21])
def test_blocks_do_not_change_anything(name: str, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = metric_from_name(name)
    scores, targets = data(metric, 6)
    softness = Softness(0.5, 0.5, 0.3)

    def run() -> tuple[Tensor, Tensor]:
        leaf = scores.clone().requires_grad_()
        value = loss(metric, leaf, targets, softness)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    whole = run()
    monkeypatch.setattr(sums, "BLOCK", 16)
    monkeypatch.setattr(sums, "KEPT", kept)
    for a, b in zip(whole, run(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_memory_is_linear_in_a_long_list() -> None:
    """The largest tensor of a list of 20,000 with 2,000 positives is a block, not 40 million differences."""
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor):
                largest = max(largest, out.numel())
            return out

    scores = torch.randn(20_000, requires_grad=True)
    targets = torch.arange(20_000) < 2_000
    with Watch():
        aimfor.MetricLoss("ap", aimfor.SmoothEngine(anchor=0.5))(scores, targets).backward()
    assert largest <= sums.BLOCK + 20_000


@pytest.mark.parametrize("name", ["ndcg", "ndcg@2", "precision@2", "map@r", "r_precision", "mrr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_anchor_of_metrics_of_lists(name: str, weighted: bool) -> None:
    """Softmax cross-entropy of every list that has two grades, against the shares of its grades, without the masked
    items; for the first k places the mean logistic loss of pairs."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    grades = torch.tensor([[1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 1, 1]])
    if name.startswith("ndcg"):
        grades = grades * torch.tensor([1, 2, 1, 1, 3, 1])
        grades[2] = 1
    where = torch.ones(4, 6, dtype=torch.bool)
    where[3, 4:] = False
    weights = torch.tensor([0.5, 2.0, 1.0, 3.0] if weighted else [1.0] * 4, dtype=torch.float64)
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    engine = aimfor.SmoothEngine(0.7, anchor=1.0, anchor_temperature=0.25)
    found = aimfor.MetricLoss(name, engine)(leaf, grades, where=where, weights=weights if weighted else None)
    expected = torch.zeros((), dtype=torch.float64)
    for place in (0, 3):
        there = where[place]
        x, grade = 4 * other[place][there], grades[place][there]
        if name.startswith("precision"):
            gaps = x[grade == 0] - x[grade == 1][:, None]
            expected = expected + weights[place] * torch.log1p(gaps.exp()).mean()
        else:
            expected = expected - weights[place] * (grade / grade.sum() * torch.log_softmax(x, 0)).sum()
    expected = expected / weights[[0, 2, 3]].sum()  # the third list counts in the mean, with nothing to order
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*torch.autograd.grad((found, expected), (leaf, other)))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_anchor_of_auc_mu_is_softmax_cross_entropy(weighted: bool) -> None:
    scores, targets = data(aimfor.AUCMu(), 3)
    weights = torch.rand(len(targets), dtype=torch.float64) if weighted else None
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    engine = aimfor.SmoothEngine(0.7, anchor=1.0, anchor_temperature=0.25)
    found = aimfor.MetricLoss("auc_mu", engine)(leaf, targets, weights=weights)
    each = functional.cross_entropy(4 * other, targets, reduction="none")
    mass = torch.ones_like(each) if weights is None else weights
    expected = (each * mass).sum() / mass.sum()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*torch.autograd.grad((found, expected), (leaf, other)))


def test_a_share_of_the_anchor_of_auc_mu() -> None:
    """The loss is the mixture of its parts."""
    scores, targets = data(aimfor.AUCMu(), 3)
    parts = [float(aimfor.MetricLoss("auc_mu", aimfor.SmoothEngine(anchor=share))(scores, targets)) for share in (0, 1)]
    mixed = float(aimfor.MetricLoss("auc_mu", aimfor.SmoothEngine(anchor=0.25))(scores, targets))
    assert mixed == pytest.approx(0.75 * parts[0] + 0.25 * parts[1], rel=1e-12)


def test_the_anchor_of_auroc_of_labels_weighs_both_sides_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    targets = torch.zeros(12, 3, dtype=torch.int64)
    targets[:3, 0] = targets[4:9, 1] = 1  # the third label has no positive, and says nothing
    weights = torch.rand(12, generator=generator, dtype=torch.float64)
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    engine = aimfor.SmoothEngine(anchor=1.0, anchor_temperature=0.5)
    found = aimfor.MetricLoss("multilabel_auroc", engine)(leaf, targets, weights=weights)
    expected = torch.zeros((), dtype=torch.float64)
    for label in (0, 1):
        hit, x = targets[:, label] == 1, 2 * other[:, label]
        for side, sign in ((hit, -1.0), (~hit, 1.0)):
            mean = (weights[side] * functional.softplus(sign * x[side])).sum() / weights[side].sum()
            expected = expected + 0.25 * mean
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*torch.autograd.grad((found, expected), (leaf, other)))
