"""The direct engine: its limit, its modes, its ε, and what it does with bad and degenerate input."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.direct import CountForm, CountRule, Decay, DirectEngine, Rows, StructuredLoss, rows_of

LISTS, LENGTH, POSITIVES = 20_000, 12, 4


def smooth_family(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of many small lists as a smooth function of one parameter: the direction of a projection."""
    generator = torch.Generator().manual_seed(0)
    positive = (torch.arange(LENGTH) < POSITIVES).expand(LISTS, LENGTH)
    x = torch.randn((LISTS, LENGTH, 2), generator=generator, dtype=torch.float64)
    x = x + positive[..., None] * torch.tensor([1.0, 0.3], dtype=torch.float64)
    return x[..., 0] * torch.cos(angle) + x[..., 1] * torch.sin(angle), positive


F1 = CountRule(aimfor.FBeta(1.0).of_counts, True, True, 1.0)


def mean_f1(scores: Tensor, positive: Tensor) -> Tensor:
    tp, fp = ((scores > 0) & positive).sum(1).double(), ((scores > 0) & ~positive).sum(1).double()
    return F1.worth(tp, fp, torch.tensor(POSITIVES), torch.tensor(LENGTH - POSITIVES)).mean()


def form_of(metric: str, angle: Tensor):
    scores, positive = smooth_family(angle)
    if metric == "ap":
        ap = aimfor.AveragePrecision()
        return ap.argmax_form(ap.check(scores, positive))
    scores = scores - 0.3
    share = torch.full((LISTS,), 1.0 / LISTS)
    return CountForm(Rows(scores, positive, None), share, 1.0 - mean_f1(scores.detach(), positive), F1)


def direct_gradient(metric: str, epsilon: float, sign: int | str) -> float:
    angle = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    DirectEngine(epsilon, sign).solve(form_of(metric, angle)).loss.backward()
    return float(angle.grad)


@pytest.mark.parametrize("metric", ["ap", "f1"])
def test_gradient_tends_to_that_of_the_expected_metric(metric):
    """20,000 lists, common random numbers: within 10 % at ε = 0.1 (sampling noise is about 5 %), far off at ε = 3."""
    step = 0.1
    ends = [float(form_of(metric, torch.tensor(0.9 + h, dtype=torch.float64)).loss()) for h in (step, -step)]
    true = (ends[0] - ends[1]) / (2 * step)
    assert abs(true) > 0.1
    for sign in (1, -1, "both"):
        near, far = direct_gradient(metric, 0.1, sign), direct_gradient(metric, 3.0, sign)
        assert near == pytest.approx(true, rel=0.10), sign
        assert abs(far - true) > 0.25 * abs(true), sign


def test_two_signs_together_have_the_smaller_bias():
    true = direct_gradient("f1", 0.1, "both")
    errors = {sign: abs(direct_gradient("f1", 0.4, sign) - true) for sign in (1, -1, "both")}
    assert errors["both"] < 0.5 * min(errors[1], errors[-1])


def ap_gradient(scores, targets, engine, factor=1.0):
    scores = scores.clone().requires_grad_()
    loss = aimfor.MetricLoss(aimfor.AveragePrecision(), engine)(scores, targets)
    (factor * loss).backward()
    return scores.grad


@pytest.mark.parametrize("sign", [1, -1, "both"])
def test_gradient_is_the_difference_of_two_rankings(sign):
    scores, targets = torch.randn(30, dtype=torch.float64), torch.arange(30) < 9
    got = ap_gradient(scores, targets, DirectEngine(0.5, sign), factor=3.0)
    up, down = scores[targets], scores[~targets]

    def pair_score(n: Tensor, free: Tensor) -> Tensor:
        a, b = free[targets].sort(descending=True).values, free[~targets].sort(descending=True).values
        above = torch.arange(21) < n[:, None]
        return (torch.where(above, -1.0, 1.0) * (a[:, None] - b)).mean()

    own = (down[None] > up.sort(descending=True).values[:, None]).sum(1)
    n = {s: aimfor.direct.ap_interleave(up, down, 0.5, s) for s in (1, -1)}
    first, second, factor = {
        1: (n[1], own, 1 / 0.5),
        -1: (n[-1], own, -1 / 0.5),
        "both": (n[1], n[-1], 1 / (2 * 0.5)),
    }[sign]
    free = scores.clone().requires_grad_()
    (3.0 * factor * (pair_score(first, free) - pair_score(second, free))).backward()
    torch.testing.assert_close(got, free.grad)
    assert got.any()


@pytest.mark.parametrize(("positives", "sign"), [(32, "both"), (33, 1)])
def test_a_sign_that_is_not_given_is_both_for_short_lists_and_one_for_long(positives: int, sign: int | str) -> None:
    scores, targets = torch.randn(positives + 128, dtype=torch.float64), torch.arange(positives + 128) < positives
    chosen = ap_gradient(scores, targets, DirectEngine(0.5))
    assert chosen.any()
    torch.testing.assert_close(chosen, ap_gradient(scores, targets, DirectEngine(0.5, sign)))


def test_value_is_the_metric_in_every_mode():
    scores, targets = torch.randn(30, requires_grad=True), torch.arange(30) < 9
    for engine in (
        DirectEngine(0.1),
        DirectEngine(0.1, -1),
        DirectEngine(mode="hinge"),
        DirectEngine(mode="perceptron"),
    ):
        for metric in (aimfor.AveragePrecision(), aimfor.FBeta(1.0), aimfor.Accuracy()):
            loss = aimfor.MetricLoss(metric, engine)(scores, targets)
            assert loss.item() == pytest.approx(1 - metric.value(scores, targets).item(), abs=1e-6)


def test_loss_of_the_ranking_form_is_the_exact_metric_with_ties_masks_and_weights():
    metric = aimfor.AveragePrecision()
    for _ in range(20):
        scores, targets = torch.randn(6, 9, dtype=torch.float64).round(), torch.rand(6, 9) < 0.4
        where, by_list = torch.rand(6, 9) < 0.8, torch.rand(6)
        for weights in (None, by_list, torch.randint(0, 3, (6, 9)).double()):
            batch = metric.check(scores, targets, where=where, weights=weights)
            torch.testing.assert_close(1.0 - metric.argmax_form(batch).loss(), metric.exact(batch), equal_nan=True)


def test_perceptron_moves_pairs_in_wrong_order_and_only_those():
    scores, targets = torch.tensor([2.0, 1.0, 0.0, 3.0]), torch.tensor([1, 1, 0, 0])
    # Pairs (1,3) and (2,3) are wrong; each has weight 2 / (p q) = 1/2 in ∇F(y_w) − ∇F(y*).
    assert ap_gradient(scores, targets, DirectEngine(mode="perceptron")).tolist() == [-0.5, -0.5, 0.0, 1.0]


@pytest.mark.parametrize("masked", [False, True])
def test_perceptron_of_decisions_moves_wrong_ones_and_only_those(masked: bool) -> None:
    scores = torch.tensor([2.0, -1.0, 3.0, -2.0, -1.5, 0.5], requires_grad=True)
    targets, where = torch.tensor([1, 1, 0, 0, 1, 0]), torch.tensor([1, 1, 1, 1, 0, 0]).bool()
    engine = DirectEngine(mode="perceptron")
    aimfor.MetricLoss(aimfor.FBeta(1.0), engine)(scores, targets, where=where if masked else None).backward()
    wrong = torch.tensor([0.0, -1.0, 1.0, 0.0, 0.0, 0.0] if masked else [0.0, -1.0, 1.0, 0.0, -1.0, 1.0])
    torch.testing.assert_close(scores.grad, wrong / (4 if masked else 6))


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_hinge_has_the_gradient_of_its_bound_per_unit_of_epsilon(epsilon: float) -> None:
    """(max over y of F(y) + ε loss(y) − F(truth)) / ε, over all labellings."""
    scores, targets = torch.randn(7, dtype=torch.float64), torch.arange(7) < 3
    every = torch.cartesian_prod(*[torch.tensor([False, True])] * 7)
    tp, fp = (every & targets).sum(1).double(), (every & ~targets).sum(1).double()
    losses = 1.0 - F1.worth(tp, fp, torch.tensor(3), torch.tensor(4))
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    aimfor.MetricLoss(aimfor.FBeta(1.0), DirectEngine(epsilon, mode="hinge"))(ours, targets).backward()
    bound = ((every * theirs).mean(1) + epsilon * losses).max() - (targets * theirs).mean()
    (bound / epsilon).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_hinge_wants_a_margin_that_grows_with_epsilon():
    scores, targets = torch.tensor([2.0, 1.0, 0.0, -3.0]), torch.tensor([1, 1, 0, 0])
    assert not ap_gradient(scores, targets, DirectEngine(0.1, mode="hinge")).any()
    assert ap_gradient(scores, targets, DirectEngine(10.0, mode="hinge")).any()


@pytest.mark.parametrize("metric", ["f1", "fbeta=2", "iou", "accuracy"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_auto_epsilon_is_one_for_decisions_so_that_training_settles(metric, scale):
    scores, targets = scale * torch.randn(40), torch.arange(40) % 3 == 0
    output = aimfor.MetricLoss(metric, DirectEngine()).detailed(scores, targets)
    assert output.stats["epsilon"] == 1.0
    right = (200.0 * targets - 100.0).requires_grad_()  # far outside every margin: nothing is left to move
    aimfor.MetricLoss(metric, DirectEngine())(right, targets).backward()
    assert not right.grad.any()


@pytest.mark.parametrize("rate", [0.005, 0.01, 0.02, 0.1])
def test_auto_epsilon_of_average_precision_reaches_rare_positives(rate):
    """Untrained scores, batches of 128: a batch with a positive has a gradient, however rare positives are."""
    generator = torch.Generator().manual_seed(4)
    loss_fn, batches = aimfor.MetricLoss("ap", DirectEngine()), 0
    while batches < 50:
        targets = torch.rand(128, generator=generator) < rate
        if targets.any():
            batches += 1
            loss_fn(torch.randn(128, generator=generator).requires_grad_(), targets)
    assert loss_fn.counts.batches == 50
    assert loss_fn.counts.zero_gradient <= 1  # it was 39 to 77 % with an ε that looked at p/q alone


def test_auto_epsilon_of_average_precision_by_hand():
    """One positive of 4 at rank 3: the root of the deviation times 3²/(1·3); on top: times √(16/6)/3, a margin."""
    scores = torch.tensor([3.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    for place, depth in ((2, 3.0), (0, (16 / 6) ** 0.5 / 3)):
        output = aimfor.MetricLoss("ap", DirectEngine()).detailed(scores, torch.arange(4) == place)
        assert output.stats["epsilon"] == pytest.approx(depth * float(scores.std(correction=0)) ** 0.5)


def test_auto_epsilon_of_average_precision_is_outgrown():
    """A hundred times the scores is ten times the ε: at some scale nothing is closer than it reaches."""
    scores, targets = torch.randn(60, dtype=torch.float64), torch.rand(60) < 0.3
    loss_fn = aimfor.MetricLoss("ap", DirectEngine())
    small, large = (loss_fn.detailed(scale * scores, targets).stats["epsilon"] for scale in (1.0, 100.0))
    assert large == pytest.approx(10.0 * small)
    right = torch.where(targets, 1e9, -1e9).requires_grad_()
    loss_fn(right, targets).backward()
    assert not right.grad.any()


def test_auto_epsilon_of_ndcg_moves_relevant_items_by_two_deviations():
    """``ε · ΣD · gain / ideal``, averaged over the relevant items, is twice the standard deviation of the scores."""
    scores, grades = torch.randn(9, dtype=torch.float64), torch.tensor([0, 3, 0, 1, 0, 0, 2, 0, 0])
    output = aimfor.MetricLoss("ndcg", DirectEngine()).detailed(scores, grades)
    discounts = 1.0 / torch.log2(torch.arange(2.0, 11.0, dtype=torch.float64))
    ideal = (grades.double().sort(descending=True).values * discounts).sum()
    moved = output.stats["epsilon"] * discounts.sum() * grades[grades > 0].double() / ideal
    assert float(moved.mean()) == pytest.approx(2.0 * float(scores.std(correction=0)))


def test_auto_epsilon_of_ndcg_follows_the_scale_of_the_scores():
    scores = torch.randn(40, dtype=torch.float64)
    targets = (torch.rand(40) < 0.3).long()

    def gradient(factor: float) -> Tensor:
        free = (factor * scores).requires_grad_()
        aimfor.MetricLoss("ndcg", DirectEngine())(free, targets).backward()
        return free.grad

    torch.testing.assert_close(1000.0 * gradient(1000.0), gradient(1.0))
    torch.testing.assert_close(0.001 * gradient(0.001), gradient(1.0))


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")  # the bad choices are told so
@pytest.mark.parametrize("metric", ["ap", "f1"])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_auto_epsilon_is_never_worse_than_a_bad_fixed_choice(metric, scale):
    x = torch.randn(150, 5)
    targets = x @ torch.tensor([1.0, -1.0, 0.5, 0.0, 2.0]) + 0.5 * torch.randn(150) > 1.0

    def trained(epsilon: float | str) -> float:
        weight = torch.full((5,), 0.1, requires_grad=True)
        loss_fn = aimfor.MetricLoss(metric, DirectEngine(epsilon))
        optimizer = torch.optim.Adam([weight], lr=0.05)
        for _ in range(50):
            optimizer.zero_grad()
            loss_fn(scale * (x @ weight), targets).backward()
            optimizer.step()
        return float(loss_fn.value(scale * (x @ weight), targets))

    fixed = [trained(epsilon) for epsilon in (1e-3, 1.0, 1e3)]
    auto = trained("auto")
    assert auto >= sorted(fixed)[1]  # two of the three are bad by a factor of a thousand or more


def test_schedule_counts_training_steps_and_is_saved():
    loss_fn = aimfor.MetricLoss("ap", DirectEngine(Decay(1.0, 0.01, 10)))
    scores, targets = torch.randn(20, requires_grad=True), torch.arange(20) < 5
    seen = [loss_fn.detailed(scores, targets).stats["epsilon"] for _ in range(3)]
    assert seen == pytest.approx([1.0, 0.01**0.1, 0.01**0.2])
    loss_fn.eval()
    loss_fn.detailed(scores, targets)
    with torch.no_grad():
        loss_fn.train().detailed(scores, targets)
    twin = aimfor.MetricLoss("ap", DirectEngine(Decay(1.0, 0.01, 10)))
    twin.load_state_dict(loss_fn.state_dict())
    for other in (twin, copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
        assert other.detailed(scores, targets).stats["epsilon"] == pytest.approx(0.01**0.3)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "small"}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"sign": 0}, "sign"),
        ({"sign": 2}, "sign"),
        ({"sign": "plus"}, "sign"),
        ({"sign": -1, "mode": "hinge"}, "sign"),
        ({"sign": "both", "mode": "perceptron"}, "sign"),
        ({"mode": "indirect"}, "mode"),
    ],
)
def test_bad_settings_are_named(arguments, argument):
    with pytest.raises(aimfor.InputError) as caught:
        DirectEngine(**arguments)
    assert caught.value.argument == argument


def test_a_schedule_that_leaves_the_domain_is_named():
    loss_fn = aimfor.MetricLoss("ap", DirectEngine(lambda step: 1.0 - step))
    scores, targets = torch.randn(9, requires_grad=True), torch.arange(9) < 3
    loss_fn(scores, targets)
    with pytest.raises(aimfor.InputError, match="epsilon"):
        loss_fn(scores, targets)


METRICS = ["ap", "ndcg", "ndcg@3", "f1", "iou", "accuracy"]
DEGENERATE = {
    "no positive": (torch.randn(6), torch.zeros(6)),
    "no negative": (torch.randn(6), torch.ones(6)),
    "one positive": (torch.randn(1), torch.ones(1)),
    "one negative": (torch.randn(1), torch.zeros(1)),
    "all tied": (torch.zeros(6), torch.arange(6) % 2),
    "empty": (torch.zeros(0), torch.zeros(0)),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("sign", [1, -1, "both"])
def test_degenerate_batches_are_defined(metric, case, sign):
    scores, targets = DEGENERATE[case]
    scores = scores.clone().requires_grad_()
    loss_fn = aimfor.MetricLoss(metric, DirectEngine(sign=sign))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = loss_fn.detailed(scores, targets.long())
    output.loss.backward()
    value = loss_fn.value(scores, targets.long())
    # Without positives F_β and IoU are 0 whatever is decided: nothing to learn, as where they are undefined.
    nothing = bool(value.isnan()) or (metric in ("f1", "iou") and not targets.any())
    expected = 0.0 if nothing else 1.0 - value.item()
    assert (output.status is aimfor.Status.undefined_batch) == nothing
    assert output.loss.item() == pytest.approx(expected, abs=1e-6)
    assert torch.isfinite(scores.grad).all()


def test_equal_scores_get_equal_gradients_that_part_the_classes():
    scores, targets = torch.zeros(6), torch.tensor([1, 0, 0, 1, 0, 0])
    for sign in (1, -1, "both"):
        gradient = ap_gradient(scores, targets, DirectEngine(sign=sign))
        assert len(set(gradient[targets == 1].tolist())) == len(set(gradient[targets == 0].tolist())) == 1
        assert gradient[0] < 0 < gradient[1]


def test_empty_and_one_class_lists_inside_a_batch_are_left_out():
    scores = torch.randn(4, 5, dtype=torch.float64)
    targets = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0]])
    where = torch.ones(4, 5, dtype=torch.bool)
    where[3] = False
    free = scores.clone().requires_grad_()
    loss = aimfor.MetricLoss("ap", DirectEngine(1.0))(free, targets, where=where)
    loss.backward()
    alone = ap_gradient(scores[0], targets[0], DirectEngine(1.0))
    torch.testing.assert_close(free.grad[0], 0.5 * alone)  # list 2 counts in the mean with AP = 1
    assert not free.grad[1:].any()


def test_nan_scores_are_refused():
    scores = torch.tensor([1.0, float("nan"), 0.0], requires_grad=True)
    for metric in METRICS:
        with pytest.raises(aimfor.InputError, match="not finite"):
            aimfor.MetricLoss(metric, DirectEngine())(scores, torch.tensor([1, 0, 0]))


def test_weights_are_repetitions_or_refused():
    scores, targets = torch.randn(8, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 0, 1, 0, 0])
    weights = torch.tensor([1.0, 2.0, 0.0, 3.0, 1.0, 1.0, 2.0, 1.0])
    copies = torch.arange(8).repeat_interleave(weights.long())
    for metric in ("ap", "f1"):
        loss_fn = aimfor.MetricLoss(metric, DirectEngine(0.7, 1))
        weighted, repeated = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        loss_fn(weighted, targets, weights=weights).backward()
        loss_fn(repeated[copies], targets[copies]).backward()
        torch.testing.assert_close(weighted.grad, repeated.grad)
        with pytest.raises(aimfor.InputError, match="whole numbers"):
            loss_fn(weighted, targets, weights=weights + 0.5)


def test_weights_of_zero_and_one_are_a_mask():
    scores, targets = torch.randn(8, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 0, 1, 0, 0])
    for weights in (torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]), torch.ones(8)):
        for metric in ("ap", "f1"):
            loss_fn = aimfor.MetricLoss(metric, DirectEngine(10.0))
            weighted, masked = scores.clone().requires_grad_(), scores.clone().requires_grad_()
            by_weight = loss_fn(weighted, targets, weights=weights)
            by_mask = loss_fn(masked, targets, where=weights > 0)
            by_weight.backward()
            by_mask.backward()
            torch.testing.assert_close(by_weight, by_mask)
            torch.testing.assert_close(weighted.grad, masked.grad)
            assert masked.grad.any()


def test_structured_loss_differentiates_any_score_and_checks_its_parts():
    def argmax(x: Tensor) -> Tensor:
        return x.argmax(1)

    def augmented(x: Tensor, y: Tensor, e: float) -> Tensor:
        return (x + e * (1 - torch.nn.functional.one_hot(y, x.shape[1]))).argmax(1)

    def score(x: Tensor, y: Tensor) -> Tensor:
        return x.gather(1, y[:, None]).squeeze(1)

    def wrong(y: Tensor, z: Tensor) -> Tensor:
        return (y != z).double()

    x, y = torch.randn(50, 4, dtype=torch.float64), torch.randint(0, 4, (50,))
    for engine in (DirectEngine(0.5, 1), DirectEngine(0.5, -1), DirectEngine(0.5, mode="hinge")):
        own, built_in = x.clone().requires_grad_(), x.clone().requires_grad_()
        mine = StructuredLoss(score, argmax, augmented, wrong, engine)(own, y)
        theirs = aimfor.MetricLoss(aimfor.Accuracy(), engine)(built_in, y)
        mine.backward()
        theirs.backward()
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(own.grad, built_in.grad)
    with pytest.raises(aimfor.InputError, match="argmax"):
        StructuredLoss(score, None, augmented, wrong)
    with pytest.raises(aimfor.InputError, match="score"):
        StructuredLoss(lambda x, y: 0.0, argmax, augmented, wrong)(x.clone().requires_grad_(), y)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 100.0])
def test_auto_epsilon_of_a_structured_loss_is_one_deviation(scale):
    x, y = scale * torch.randn(30, 4, dtype=torch.float64), torch.randint(0, 4, (30,))
    seen = []

    def augmented(x: Tensor, y: Tensor, e: float) -> Tensor:
        seen.append(e)
        return (x + e * (1 - torch.nn.functional.one_hot(y, 4))).argmax(1)

    loss_fn = StructuredLoss(
        lambda x, y: x.gather(1, y[:, None]).squeeze(1),
        lambda x: x.argmax(1),
        augmented,
        lambda y, z: (y != z).double(),
        DirectEngine(sign=-1),
    )
    epsilon = loss_fn.detailed(x.requires_grad_(), y).stats["epsilon"]
    assert epsilon == pytest.approx(float(x.detach().std(correction=0)) if scale else 1.0)
    assert seen == [-epsilon]


def test_a_threshold_is_taken_off_the_scores():
    batch = aimfor.FBeta(1.0).check(torch.tensor([2.0, 0.25, -1.0]), torch.tensor([1, 0, 1]))
    assert rows_of(batch, threshold=0.5).scores.tolist() == [[1.5, -0.25, -1.5]]
    assert rows_of(batch).scores.tolist() == [[2.0, 0.25, -1.0]]


def test_lists_without_a_positive_have_no_scale():
    ap = aimfor.AveragePrecision()
    assert ap.argmax_form(ap.check(torch.tensor([2.0, 1.0]), torch.tensor([0, 0]))).auto_epsilon() == 0.0
