"""The engine's Lagrangian against the formula written out, its state, and everything it must refuse."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.lagrangian import LagrangianEngine, LinearDecay, PowerDecay, bound_from_scores
from aimfor.lagrangian.bound import SURROGATES

LABELS = torch.tensor([1, 0, 0, 1, 0, 1, 0, 0])


def make(beta: float = 1.0, **options: object) -> aimfor.MetricLoss:
    return aimfor.MetricLoss(aimfor.FBeta(beta), LagrangianEngine(LABELS, **options)).double()  # type: ignore[arg-type]


def stirred(beta: float = 1.0, **options: object) -> aimfor.MetricLoss:
    """An engine with every variable away from its start."""
    loss_fn = make(beta, **options)
    duals = loss_fn.engine.duals[0]
    with torch.no_grad():
        duals.tau.copy_(torch.tensor([0.875, 1.75, 0.25]))
        duals.epsilon.copy_(torch.tensor(1.25))
        duals.lam.copy_(torch.tensor([0.4, 0.0, 2.0]))
        duals.mu.fill_(-1.1)
        if duals.gamma.numel():
            duals.gamma.copy_(torch.tensor([0.1, 0.5, 0.0]))
    return loss_fn


def written_out(loss_fn: aimfor.MetricLoss, scores: Tensor, beta: float, penalty: float) -> Tensor:
    """L of the whole data set, with max and sums spelled out, differentiable in everything."""
    duals = loss_fn.engine.duals[0]
    t, e, lam, mu = duals.tau, duals.epsilon, duals.lam, duals.mu
    positive = LABELS.bool()
    n = 3
    total = beta**2 * e + torch.relu(e + scores[~positive]).sum() / n
    gap, r = t - scores[positive], t.mean() - 1
    if penalty:
        total = total + mu * r + penalty * r**2 / 2
        total = total + ((torch.relu(lam + penalty * gap) ** 2 - lam**2) / (2 * penalty)).sum() / n
    else:
        total = total + mu * r + (lam * gap).sum() / n
    if duals.gamma.numel():
        over = torch.relu(duals.gamma + penalty * (t - e)) ** 2 - duals.gamma**2
        total = total + (over / (2 * penalty)).sum() / n
    return total


@pytest.mark.parametrize("beta", [1.0, 1.5])
@pytest.mark.parametrize(("mode", "penalty"), [("ravi", 0.0), ("ravi", 3.0), ("ravi-full", 1.0), ("venkatesh", 2.0)])
def test_full_batch_is_the_lagrangian_written_out_in_value_and_all_gradients(
    mode: str, penalty: float, beta: float
) -> None:
    loss_fn = stirred(beta, mode=mode, penalty=penalty, primal="optimizer")
    if mode == "ravi-full":
        loss_fn.engine._project(loss_fn.engine.duals[0])  # as the next training call will
    scores = torch.randn(8, dtype=torch.float64, requires_grad=True)
    duals = loss_fn.engine.duals[0]
    wanted = (scores, duals.epsilon, duals.tau)
    expected = written_out(loss_fn, scores, beta, penalty)
    by_hand = torch.autograd.grad(expected, wanted)
    loss = loss_fn(scores, LABELS, index=torch.arange(8))
    ours = torch.autograd.grad(loss, wanted)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours[0], by_hand[0])
    torch.testing.assert_close(ours[1], by_hand[1])
    torch.testing.assert_close(ours[2], 3 * by_hand[2])  # in the metric de² + mean dt²


def test_batches_of_an_epoch_add_up_to_the_whole_without_bias() -> None:
    """Over all 28 pairs of examples the estimates and their gradients average to the full batch's."""
    loss_fn = stirred(primal="optimizer")
    scores = torch.randn(8, dtype=torch.float64, requires_grad=True)
    duals = loss_fn.engine.duals[0]
    wanted = (scores, duals.epsilon, duals.tau)

    def of(index: Tensor) -> list[Tensor]:
        loss = loss_fn(scores[index], LABELS[index], index=index)
        return [loss.detach(), *torch.autograd.grad(loss, wanted)]

    whole = of(torch.arange(8))
    pairs = [of(torch.tensor([i, j])) for i in range(8) for j in range(i)]
    for full, parts in zip(whole, zip(*pairs, strict=True), strict=True):
        torch.testing.assert_close(torch.stack(parts).mean(0), full, rtol=1e-10, atol=1e-12)


def test_stratified_batches_have_no_bias_either() -> None:
    loss_fn = stirred(primal="optimizer", sampling="stratified")
    scores = torch.randn(8, dtype=torch.float64, requires_grad=True)
    whole = loss_fn(scores, LABELS, index=torch.arange(8)).detach()
    drawn = [torch.tensor([i, j]) for i in (0, 3, 5) for j in (1, 2, 4, 6, 7)]
    parts = [loss_fn(scores[index], LABELS[index], index=index).detach() for index in drawn]
    torch.testing.assert_close(torch.stack(parts).mean(), whole)


def test_own_step_is_gradient_descent_in_the_stated_metric() -> None:
    own, mine = stirred(primal_step=0.05), stirred(primal="optimizer")
    scores = torch.randn(8, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([0, 2, 3, 6])
    own(scores[index], LABELS[index], index=index)
    mine(scores[index], LABELS[index], index=index).backward()
    a, b = own.engine.duals[0], mine.engine.duals[0]
    torch.testing.assert_close(a.tau, b.tau - 0.05 * 0.5 * b.tau.grad)
    torch.testing.assert_close(a.epsilon, b.epsilon - 0.05 * 0.5 * b.epsilon.grad)
    assert float(a.tau[2]) == 0.25  # not in the batch


def test_end_epoch_projects_then_takes_the_dual_step_with_multipliers_kept_nonnegative() -> None:
    loss_fn = stirred(penalty=0.0, dual_step=0.5, primal="optimizer")
    scores = torch.tensor([3.0, 0, 0, 0.1, 0, -0.2, 0, 0], dtype=torch.float64)
    loss_fn.engine.end_epoch(scores)
    duals = loss_fn.engine.duals[0]
    capped = aimfor.lagrangian.project_cap(
        torch.tensor(1.25, dtype=torch.float64), torch.tensor([0.875, 1.75, 0.25], dtype=torch.float64), weight=3.0
    )
    torch.testing.assert_close(duals.tau.detach(), capped.tau)
    expected = (torch.tensor([0.4, 0.0, 2.0]).double() + 0.5 * (capped.tau - scores[LABELS.bool()])).clamp_min(0)
    torch.testing.assert_close(duals.lam, expected)
    assert float(duals.lam[0]) == 0.0
    assert float(duals.mu) == pytest.approx(-1.1 + 0.5 * (float(capped.tau.mean()) - 1))


def test_only_examples_seen_since_the_last_dual_step_get_one() -> None:
    loss_fn = make()
    index = torch.tensor([0, 1])
    loss_fn(torch.tensor([-2.0, 0.0], dtype=torch.float64), LABELS[index], index=index)
    loss_fn.end_epoch()
    assert (loss_fn.engine.duals[0].lam > 0).tolist() == [True, False, False]


def test_inner_epochs_and_schedules_decide_when_and_how_far() -> None:
    loss_fn = make(inner=lambda dual_step: dual_step, dual_step=PowerDecay(0.6))
    scores = torch.zeros(8, dtype=torch.float64)
    for _ in range(6):
        loss_fn.engine.end_epoch(scores)
    assert loss_fn.engine.history["dual_step"] == pytest.approx([0.6, 0, 0.3, 0, 0, 0.2])
    assert [LinearDecay(1.0, 4)(e) for e in (1, 2, 3, 4, 9)] == [1.0, 0.75, 0.5, 0.25, 0.25]
    assert [LinearDecay(0.5, 1)(e) for e in (1, 2)] == [0.5, 0.5]
    with pytest.raises(aimfor.InputError, match="epochs"):
        LinearDecay(1.0, 0)


@pytest.mark.parametrize(
    ("make_schedule", "argument"),
    [
        (lambda bad: LinearDecay(bad, 4), "step"),
        (lambda bad: PowerDecay(bad), "c"),
        (lambda bad: PowerDecay(1.0, bad - 1.0), "power"),
        (lambda bad: LagrangianEngine(LABELS, dual_step=lambda number: bad), "dual_step(1)"),
    ],
    ids=["linear", "power", "exponent", "function"],
)
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_steps_that_do_not_step_forward_are_refused(
    make_schedule: Callable[[float], object], argument: str, bad: float
) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        make_schedule(bad)
    assert caught.value.argument == argument


def test_ascent_variables_are_no_parameters_and_own_primal_ones_get_no_gradient() -> None:
    loss_fn = make()
    assert {name.split(".")[-1] for name, _ in loss_fn.named_parameters()} == {"tau", "epsilon"}
    optimizer = torch.optim.SGD(loss_fn.parameters(), lr=1.0, weight_decay=1.0)
    before = copy.deepcopy(loss_fn.state_dict())
    loss = loss_fn(torch.zeros(8, dtype=torch.float64, requires_grad=True), LABELS, index=torch.arange(8))
    between = copy.deepcopy(loss_fn.state_dict())
    loss.backward()
    optimizer.step()
    after = loss_fn.state_dict()
    assert all(torch.equal(between[key], after[key]) for key in after)
    assert not torch.equal(before["engine.duals.0.tau"], after["engine.duals.0.tau"])


def test_state_dict_shows_every_variable() -> None:
    names = {name.removeprefix("engine.duals.0.") for name in make(mode="venkatesh").state_dict()}
    assert {"tau", "epsilon", "lam", "mu", "gamma", "scores", "seen", "fresh"} <= names
    assert {"engine.labels", "engine.epoch", "engine.rounds", "engine.history.rows"} <= names


@pytest.mark.parametrize("context", ["eval", "no_grad"])
def test_evaluation_gives_the_bound_needs_no_index_and_touches_nothing(context: str) -> None:
    loss_fn = stirred()
    before = copy.deepcopy(loss_fn.state_dict())
    scores = torch.randn(8, dtype=torch.float64)
    if context == "eval":
        loss = loss_fn.eval()(scores, LABELS)
    else:
        with torch.no_grad():
            loss = loss_fn(scores, LABELS)
    assert float(loss) == pytest.approx(1 - float(bound_from_scores(scores, LABELS.bool()).bound))
    after = loss_fn.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in after)


def test_evaluation_is_finite_when_no_positive_scores_above_zero() -> None:
    output = make().eval().detailed(-torch.ones(8, dtype=torch.float64), LABELS)
    assert float(output.loss) == 1.0
    assert float(output.stats["bound"]) == 0.0


def test_batch_without_positives_is_an_ordinary_unbiased_batch() -> None:
    loss_fn = make()
    index = torch.tensor([1, 2])
    scores = torch.tensor([0.5, -3.0], dtype=torch.float64, requires_grad=True)
    output = loss_fn.detailed(scores, LABELS[index], index=index)
    assert output.status is aimfor.Status.ok
    assert output.stats["positives"] == 0
    (gradient,) = torch.autograd.grad(output.loss, scores)
    assert gradient.tolist() == pytest.approx([8 / 2 / 3, 0.0])  # N/B/n, and nothing below the margin


def test_masked_rows_count_as_absent() -> None:
    kept, masked = stirred(), stirred()
    scores = torch.randn(4, dtype=torch.float64)
    index = torch.tensor([0, 1, 3, 4])
    where = torch.tensor([True, True, False, True])
    loss = masked(scores, LABELS[index], index=index, where=where)
    assert torch.equal(loss, kept(scores[where], LABELS[index[where]], index=index[where]))
    assert all(torch.equal(a, b) for a, b in zip(kept.state_dict().values(), masked.state_dict().values(), strict=True))


def test_empty_batch_is_undefined_and_touches_nothing() -> None:
    loss_fn = make()
    before = copy.deepcopy(loss_fn.state_dict())
    nothing = torch.zeros(0, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)  # one per process: another test may have had it
        output = loss_fn.detailed(torch.zeros(0, dtype=torch.float64, requires_grad=True), nothing, index=nothing)
    assert output.status is aimfor.Status.undefined_batch
    assert all(torch.equal(before[key], value) for key, value in loss_fn.state_dict().items())


@pytest.mark.parametrize(
    ("index", "targets", "match"),
    [
        (None, LABELS[:3], "index"),
        (torch.tensor([0, 1, 1]), LABELS[[0, 1, 1]], "more than once"),
        (torch.tensor([0, 1, 8]), torch.tensor([1, 0, 0]), "from 0 to 7"),
        (torch.tensor([0, 1, -1]), torch.tensor([1, 0, 0]), "position"),
        (torch.tensor([0, 1, 3]), torch.tensor([1, 0, 0]), "labels that differ"),
    ],
)
def test_wrong_index_is_refused_and_no_state_touched(index: Tensor | None, targets: Tensor, match: str) -> None:
    loss_fn = stirred()
    before = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(aimfor.InputError, match=match):
        loss_fn(torch.zeros(3, dtype=torch.float64, requires_grad=True), targets, index=index)
    assert all(torch.equal(before[key], value) for key, value in loss_fn.state_dict().items())


@pytest.mark.parametrize(
    ("labels", "options", "argument"),
    [
        (torch.ones(4), {}, "labels"),
        (torch.zeros(0), {}, "labels"),
        (torch.tensor([0, 2]), {}, "labels"),
        (torch.tensor([[0, 1]]), {}, "labels"),
        ([0, 1], {}, "labels"),
        (LABELS, {"mode": "other"}, "mode"),
        (LABELS, {"surrogate": "other"}, "surrogate"),
        (LABELS, {"penalty": -1.0}, "penalty"),
        (LABELS, {"primal": "other"}, "primal"),
        (LABELS, {"primal_step": 0.0}, "primal_step"),
        (LABELS, {"dual_step": "fast"}, "dual_step"),
        (LABELS, {"mu_step": -1e-5}, "mu_step"),
        (LABELS, {"mode": "venkatesh", "gamma_step": 0.0}, "gamma_step"),
        (LABELS, {"mode": "ravi", "gamma_step": 1e-3}, "gamma_step"),
        (LABELS, {"inner": 0}, "inner"),
        (LABELS, {"projection": "other"}, "projection"),
        (LABELS, {"sampling": "other"}, "sampling"),
    ],
)
def test_bad_settings_are_named(labels: object, options: dict[str, object], argument: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        LagrangianEngine(labels, **options)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_weights_and_wrong_scores_for_the_epoch_are_refused() -> None:
    loss_fn = make()
    with pytest.raises(aimfor.InputError, match="weights"):
        loss_fn(torch.zeros(8), LABELS, index=torch.arange(8), weights=torch.ones(8))
    with pytest.raises(aimfor.InputError, match="whole data set"):
        loss_fn.engine.end_epoch(torch.zeros(3))
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(aimfor.InputError) as caught:
            loss_fn.engine.end_epoch(torch.tensor([0.0] * 7 + [bad]))
        assert caught.value.argument == "scores"
    assert len(loss_fn.engine.history) == 0
    with pytest.raises(aimfor.InputError, match="optimizer"):
        loss_fn.engine.param_group(lr=0.1)


def test_resuming_with_another_data_set_is_refused_and_no_state_touched() -> None:
    saved = stirred().state_dict()
    for other, match in (
        (LABELS[:7], "got the state of 8 examples, expected 7 examples"),
        (torch.cat((LABELS, LABELS[:1])), "got the state of 8 examples, expected 9 examples"),
        (LABELS.roll(1), "other labels"),
    ):
        fresh = aimfor.MetricLoss(aimfor.FBeta(1.0), LagrangianEngine(other)).double()
        before = copy.deepcopy(fresh.state_dict())
        with pytest.raises(aimfor.InputError, match=match):
            fresh.load_state_dict(saved)
        assert all(torch.equal(before[key], value) for key, value in fresh.state_dict().items())
    with pytest.raises(aimfor.InputError, match="mode"):
        make(mode="venkatesh").load_state_dict(saved)


def test_metrics_without_the_form_are_refused_at_construction() -> None:
    with pytest.raises(aimfor.UnsupportedPairError, match="HasConstraints"):
        aimfor.MetricLoss("auroc", LagrangianEngine(LABELS))
    with pytest.raises(aimfor.UnsupportedPairError, match="3 groups"):
        aimfor.MetricLoss("f1", LagrangianEngine(torch.tensor([0, 1, 2])))


def test_loss_pickles_copies_and_scales_with_what_is_around_it() -> None:
    loss_fn = stirred()
    scores = torch.randn(8, dtype=torch.float64, requires_grad=True)
    twins = [copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))]
    (once,) = torch.autograd.grad(loss_fn(scores, LABELS, index=torch.arange(8)), scores)
    for twin in twins:
        (thousand,) = torch.autograd.grad(1000.0 * twin(scores, LABELS, index=torch.arange(8)), scores)
        torch.testing.assert_close(thousand, 1000.0 * once)


def test_full_projection_keeps_every_step_feasible_and_costs_one_each() -> None:
    for options in ({"primal": "own"}, {"primal": "optimizer"}, {"projection": "batch"}, {"projection": "sampled"}):
        loss_fn = make(mode="ravi-full", sample=2, **options)
        optimizer = torch.optim.SGD(loss_fn.parameters(), lr=0.1)
        for index in torch.arange(8).split(2):
            optimizer.zero_grad()
            loss_fn(torch.randn(2, dtype=torch.float64, requires_grad=True), LABELS[index], index=index).backward()
            optimizer.step()
            duals = loss_fn.engine.duals[0]
            if options.get("primal") != "optimizer" and options.get("projection") != "batch":
                assert bool((duals.tau <= duals.epsilon).all())
        loss_fn.end_epoch()
        assert bool((duals.tau <= duals.epsilon).all())
        assert int(loss_fn.engine.projections) == 5


def test_threshold_of_the_metric_moves_the_scores() -> None:
    moved = aimfor.MetricLoss(aimfor.FBeta(1.0, threshold=0.5), LagrangianEngine(LABELS)).double().eval()
    scores = torch.randn(8, dtype=torch.float64)
    assert torch.equal(moved(scores, LABELS), make().eval()(scores - 0.5, LABELS))


def test_the_counts_of_a_batch_are_told() -> None:
    index = torch.tensor([0, 1, 2, 4, 5])
    output = make().detailed(torch.zeros(5, dtype=torch.float64, requires_grad=True), LABELS[index], index=index)
    assert (output.stats["positives"], output.stats["negatives"]) == (2, 3)


@pytest.mark.parametrize(("values", "listed"), [(6, "5, 6, expected"), (7, "5, 6, …, expected")])
def test_groups_that_do_not_start_at_zero_are_listed(values: int, listed: str) -> None:
    with pytest.raises(aimfor.InputError, match=listed):
        LagrangianEngine(torch.arange(1, values + 1))


@pytest.mark.parametrize("group", [0, 1])
def test_a_stratified_batch_of_one_class_is_finite(group: int) -> None:
    index = (group == LABELS).nonzero().reshape(-1)
    scores = torch.zeros(len(index), dtype=torch.float64, requires_grad=True)
    loss = make(sampling="stratified")(scores, LABELS[index], index=index)
    assert bool(torch.isfinite(torch.autograd.grad(loss, scores)[0]).all())


@pytest.mark.parametrize("name", SURROGATES)
def test_slopes_of_what_a_negative_costs_are_those_of_its_formula(name: str) -> None:
    """The curved ones are taken at max(ε, 1): below 1 a change of ε changes nothing."""
    costs = {
        "hinge": lambda g, e: torch.relu(e + g),
        "squared_hinge": lambda g, e: torch.relu(e + g) ** 2 / e,
        "squared": lambda g, e: (e + g) ** 2 / e,
        "logistic": lambda g, e: e * torch.log2(1 + torch.exp(g / e)),
    }
    g, epsilon = torch.meshgrid(
        torch.linspace(-6.1, 6.1, 13, dtype=torch.float64),
        torch.tensor([0.2, 0.99, 1.01, 2.5], dtype=torch.float64),
        indexing="ij",
    )
    g, epsilon = g.clone().requires_grad_(), epsilon.clone().requires_grad_()
    expected = costs[name](g, epsilon if name == "hinge" else epsilon.clamp_min(1.0))
    slopes = torch.autograd.grad(expected.sum(), (g, epsilon))
    found = SURROGATES[name](g.detach(), epsilon.detach())
    torch.testing.assert_close(found, (expected.detach(), *slopes), rtol=1e-12, atol=1e-12)
