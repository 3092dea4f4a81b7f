"""Plain numbers for few rows against tensors and autograd, and the anchors against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.metrics.pairs import misordered
from aimfor.smooth import Correlation, MeanOfRatios, Ratio, SmoothSum, balanced_entropy, decisions
from aimfor.smooth.form import Softness, read_value, value_and_slopes

SQUARE = 4.0
F2 = (1 + SQUARE, 0.0, 0.0, 0.0), (1 + SQUARE, 1.0, SQUARE, 0.0)
ODD = (1.0, -0.5, 0.25, 2.0), (1.0, 0.5, 3.0, 1.5)


def _by_formula(ratio: Ratio, counts: Tensor) -> Tensor:
    lines = [torch.tensor(line, dtype=torch.float64) for line in (ratio.above, ratio.below)]
    counts = counts.sum(1, keepdim=True) if ratio.summed else counts
    above, below = (line @ counts for line in lines)
    values = above / below
    found = counts[0] + counts[2] > 0
    values = torch.where(found, values, torch.nan) if ratio.above == F2[0] else values
    if ratio.weighted:
        there = (counts[0] + counts[2]) * ~values.isnan()
        return (values.nan_to_num(0.0) * there).sum() / there.sum()
    return values.nanmean()


@pytest.mark.parametrize("lines", [F2, ODD])
@pytest.mark.parametrize(("summed", "weighted"), [(False, False), (True, False), (False, True)])
def test_value_and_slopes_of_a_ratio_are_autograds(lines: tuple, summed: bool, weighted: bool) -> None:
    counts = 5 * torch.rand(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    counts[:, 2] = 0.0  # nothing there: 0/0
    counts[[0, 2], 4] = 0.0  # no positive
    ratio = Ratio(*lines, summed=summed, weighted=weighted)
    value, up, down = ratio.of(counts.tolist())
    expected, slopes = value_and_slopes(lambda leaf: _by_formula(ratio, leaf), counts)
    assert value == pytest.approx(expected, rel=1e-13)
    torch.testing.assert_close(torch.tensor(up, dtype=torch.float64), slopes[0] - slopes[2])
    torch.testing.assert_close(torch.tensor(down, dtype=torch.float64), slopes[1] - slopes[3])
    many = ratio.of_many(counts)
    assert many[0] == pytest.approx(expected, rel=1e-13)
    torch.testing.assert_close(many[1], slopes[0] - slopes[2])
    torch.testing.assert_close(many[2], slopes[1] - slopes[3])
    for value, up, down in (ratio.of([[0.0], [0.0], [0.0], [0.0]]), ratio.of_many(torch.zeros(4, 1).double())):
        assert value != value
        assert not any(up)
        assert not any(down)


def test_a_correlation_is_autograds() -> None:
    for numbers in ([3.0, 1.0, 2.0, 5.0], [0.5, 4.0, 3.0, 0.25], [0.0, 2.0, 3.0, 7.0]):
        counts = torch.tensor(numbers, dtype=torch.float64)[:, None]
        value, slopes = value_and_slopes(lambda at: aimfor.metrics.MCC().of_counts(*at).squeeze(), counts)
        for found, up, down in (Correlation().of(counts.tolist()),):
            assert found == pytest.approx(value, rel=1e-14)
            assert float(up[0]) == pytest.approx(float(slopes[0] - slopes[2]), rel=1e-13)
            assert float(down[0]) == pytest.approx(float(slopes[1] - slopes[3]), rel=1e-13)
    assert Correlation().of([[0.0], [0.0], [3.0], [2.0]]) == (0.0, [0.0], [0.0])
    assert Correlation().of([[2.0], [0.0], [1.0], [0.0]])[0] != 0.0


def test_a_mean_of_ratios_is_autograds_and_undefined_where_one_of_them_is() -> None:
    recalls = MeanOfRatios((Ratio((1, 0, 0, 0), (1, 0, 1, 0)), Ratio((0, 0, 0, 1), (0, 1, 0, 1))))
    counts = torch.tensor([[3.0], [1.0], [2.0], [5.0]], dtype=torch.float64)
    value, slopes = value_and_slopes(lambda at: aimfor.metrics.BalancedAccuracy().of_counts(*at).squeeze(), counts)
    assert value == pytest.approx((3 / 5 + 5 / 6) / 2)
    for found, up, down in (recalls.of(counts.tolist()), recalls.of_many(counts)):
        assert found == pytest.approx(value, rel=1e-14)
        assert float(up[0]) == pytest.approx(float(slopes[0] - slopes[2]), rel=1e-14)
        assert float(down[0]) == pytest.approx(float(slopes[1] - slopes[3]), rel=1e-14)
    only_positives = [[3.0], [0.0], [2.0], [0.0]]
    for found, _, _ in (recalls.of(only_positives), recalls.of_many(torch.tensor(only_positives).double())):
        assert found != found


@pytest.mark.parametrize(
    "name",
    ["f1", "iou", "accuracy", "balanced_accuracy", "pairwise_f1", "f1_macro", "f1_micro", "multilabel_f1",
     "multilabel_f1_micro"],
)  # fmt: skip
@pytest.mark.parametrize("anchor", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("bank", [0, 100])
def test_losses_do_not_see_how_few_rows_are_priced(
    name: str, anchor: float, bank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for few in (32, -1):
        monkeypatch.setattr(decisions, "FEW", few)
        generator = torch.Generator().manual_seed(1)
        loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(0.6, anchor=anchor, bank=bank))
        for step in range(3):
            shape = {"binary": (40,), "multiclass": (40, 3), "multilabel": (40, 3)}[loss_fn.metric.layout]
            scores = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            labels = torch.rand(shape if loss_fn.metric.layout == "multilabel" else (40,), generator=generator)
            labels = (labels * (3 if loss_fn.metric.layout == "multiclass" else 2)).long()
            weights = torch.rand(40, generator=generator, dtype=torch.float64) if step else None
            output = loss_fn.detailed(scores, labels, weights=weights)
            found.append((few, output.loss.detach(), output.stats["value"], *torch.autograd.grad(output.loss, scores)))
    for plain, tensors in zip(found[:3], found[3:], strict=True):
        torch.testing.assert_close(plain[1:], tensors[1:], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("few", [32, -1])
def test_the_anchor_of_classes_has_the_metrics_prices(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "FEW", few)
    generator = torch.Generator().manual_seed(4)
    scores, targets = torch.randn(40, 4, generator=generator, dtype=torch.float64), torch.arange(40) % 4
    soft, truth = torch.softmax(scores, 1), functional.one_hot(targets, 4).double()
    tp, decided, positives = (soft * truth).sum(0), soft.sum(0), truth.sum(0)
    counts = torch.stack((tp, decided - tp, positives - tp, 40 - positives - decided + tp))
    _, slopes = value_and_slopes(lambda at: (2 * at[0] / (2 * at[0] + at[1] + at[2])).mean(), counts)
    right, wrong = slopes[0] - slopes[2], slopes[1] - slopes[3]
    price = right - torch.stack([wrong[[k for k in range(4) if k != c]].mean() for c in range(4)])
    entropy = functional.cross_entropy(scores, targets, reduction="none")
    expected = (price[targets] * entropy).sum() / price[targets].sum()
    loss = aimfor.MetricLoss("f1_macro", aimfor.SmoothEngine(anchor=1.0))(scores, targets)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)


def test_where_a_function_has_no_slope_it_is_0() -> None:
    signs = torch.tensor([1.0, -1.0, 0.0])
    value, slope = value_and_slopes(lambda at: (signs * at.sqrt()).sum(), torch.zeros(3))  # inf, −inf and 0 · inf
    assert value == 0.0
    assert slope.tolist() == [0.0, 0.0, 0.0]


def test_misordered_pairs_are_those_of_all_pairs() -> None:
    generator = torch.Generator().manual_seed(2)
    scores = torch.randint(0, 12, (3, 50), generator=generator).double()  # many ties
    scores[1] = torch.rand(50, generator=generator)
    a, b = torch.rand(2, 3, 50, generator=generator, dtype=torch.float64).unbind(0)
    positive = torch.rand(3, 50, generator=generator) < 0.4
    a, b = a * positive, b * ~positive
    gaps = scores[:, None, :] - scores[:, :, None]
    above = (gaps > 0).double() + 0.5 * (gaps == 0)
    torch.testing.assert_close(misordered(scores, a, b), torch.einsum("ri,rj,rij->r", a, b, above))
    torch.testing.assert_close(misordered(scores[1:2], a[1:2], b[1:2]), misordered(scores, a, b)[1:2])


@pytest.mark.parametrize("defined", [1, 3])
def test_balanced_entropy_is_its_formula(defined: int) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(4, 20, generator=generator, dtype=torch.float64).requires_grad_()
    mass, positive = torch.rand(4, 20, generator=generator).double(), torch.rand(4, 20, generator=generator) < 0.4
    positive[defined:] = False  # no positive: left out, and a third is no number of few digits
    a, b = mass * positive, mass * ~positive
    rows = [
        0.5 * (a[r] * functional.softplus(-scores[r])).sum() / a[r].sum()
        + 0.5 * (b[r] * functional.softplus(scores[r])).sum() / b[r].sum()
        for r in range(defined)
    ]
    expected = torch.stack(rows).mean()
    value, slope = balanced_entropy(scores.detach(), a, b)
    assert value == pytest.approx(expected.item(), rel=1e-13)
    torch.testing.assert_close(slope, torch.autograd.grad(expected, scores)[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_gradients_of_masks_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch, weighted: bool, unit: float) -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(3, (2, 5, 7), generator=generator)
    scores = torch.randn(2, 3, 5, 7, generator=generator, dtype=torch.float64)
    weights = torch.rand(2, 5, 7, generator=generator, dtype=torch.float64) if weighted else None
    engine, found = aimfor.SmoothEngine(anchor=0.3, anchor_temperature=unit), []
    for block in (1 << 17, 12):
        monkeypatch.setattr(decisions, "BLOCK", block)
        leaf = scores.clone().requires_grad_()
        aimfor.MetricLoss("miou", engine)(leaf, targets, weights=weights).backward()
        found.append(leaf.grad)
    flat = scores.movedim(1, -1).reshape(-1, 3).clone().requires_grad_()  # rows, each by itself in memory
    rows = None if weights is None else weights.reshape(-1)
    aimfor.MetricLoss("miou", engine)(flat, targets.reshape(-1), weights=rows).backward()
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-16)
    torch.testing.assert_close(found[0].movedim(1, -1).reshape(-1, 3), flat.grad, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize(
    "name", ["f1_macro", "f1_micro", "f1_weighted", "miou", "accuracy", "balanced_accuracy", "mcc"]
)
@pytest.mark.parametrize("few", [32, -1])
def test_a_weight_of_two_is_an_example_twice(name: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "FEW", few)
    generator = torch.Generator().manual_seed(6)
    scores, targets = torch.randn(30, 3, generator=generator, dtype=torch.float64), torch.arange(30) % 3
    weights = 1.0 + (torch.arange(30) % 4 == 0)
    twice = torch.arange(30).repeat_interleave(weights.long())
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(0.7, anchor=0.3))
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    found, expected = loss_fn(leaf, targets, weights=weights), loss_fn(other[twice], targets[twice])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*torch.autograd.grad((found, expected), (leaf, other)))


def test_what_is_undefined_has_no_slopes() -> None:
    for ratio in (Correlation(), Ratio(*F2), MeanOfRatios((Ratio(*F2), Ratio(*F2)))):
        value, up, down = ratio.of([[0.0], [3.0], [0.0], [2.0]])
        assert value != value
        assert (up, down) == ([0.0], [0.0])


def test_a_sum_of_forms_has_the_mean_of_their_values() -> None:
    metric, generator = aimfor.FBeta(1.0), torch.Generator().manual_seed(7)
    forms = []
    for targets in ([1, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]):  # the last is undefined
        scores = torch.randn(5, generator=generator, dtype=torch.float64)
        forms.append(metric.smooth_form(metric.check(scores, torch.tensor(targets))))
    whole = SmoothSum(forms[0].scores, tuple(zip((0.5, 0.2, 0.3), forms, strict=True)))
    loss, value, _ = whole.loss(Softness(0.8))
    values = [read_value(form.loss(Softness(0.8))[1]) for form in forms[:2]]
    assert value == pytest.approx((0.5 * values[0] + 0.2 * values[1]) / 0.7, rel=1e-12)
    assert float(loss) == pytest.approx(1.0 - value, rel=1e-12)
