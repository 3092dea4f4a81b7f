"""Laws that every registered metric, and every metric × engine pair, must satisfy.

Adding a metric or an engine to the registry adds its rows here; nothing else is needed.
"""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.engine import Engine
from aimfor.metrics import ENGINES, METRICS, metric_from_name
from draws import draws
from samples import Sample, perfect, sample

NAMES = [entry.example for entry in METRICS]
#: Engines that can be made without arguments; the others have tests of their own.
READY: list[type[Engine]] = [engine for engine in ENGINES if engine.default_constructible]
PAIRS = [(name, engine) for name in NAMES for engine in READY if engine().refuses(metric_from_name(name)) is None]
SEEDS = range(draws(4, 40))

every_metric = pytest.mark.parametrize("name", NAMES)
every_pair = pytest.mark.parametrize(("name", "engine"), PAIRS, ids=lambda v: v if isinstance(v, str) else v.name)
every_seed = pytest.mark.parametrize("seed", SEEDS)


def value(name: str, s: Sample, **rest: Tensor | None) -> float:
    return float(metric_from_name(name).value(s.scores, s.targets, **rest))


def loss_and_gradient(name: str, engine: type[Engine], s: Sample, **rest: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = s.scores.clone().requires_grad_()
    loss = aimfor.MetricLoss(name, engine())(scores, s.targets, **rest)
    (gradient,) = torch.autograd.grad(loss, scores)
    return loss.detach(), gradient


def layout_of(name: str) -> str:
    return metric_from_name(name).layout


# ---------------------------------------------------------------- metrics


@every_metric
@every_seed
def test_value_lies_in_its_bounds(name: str, seed: int) -> None:
    assert metric_from_name(name).lowest <= value(name, sample(layout_of(name), seed)) <= 1.0


@every_metric
def test_perfect_scores_have_value_one(name: str) -> None:
    assert value(name, perfect(layout_of(name))) == pytest.approx(1.0, abs=1e-12)


@every_metric
@every_seed
def test_value_does_not_depend_on_the_order_of_examples(name: str, seed: int) -> None:
    s = sample(layout_of(name), seed)
    shuffled = s.rows(torch.randperm(s.scores.shape[0], generator=torch.Generator().manual_seed(seed)))
    assert value(name, shuffled, weights=shuffled.weights) == pytest.approx(
        value(name, s, weights=s.weights), abs=1e-12
    )


@every_metric
@every_seed
def test_value_does_not_depend_on_the_scale_of_scores(name: str, seed: int) -> None:
    s = sample(layout_of(name), seed)
    scaled = Sample(s.layout, 8.0 * s.scores, s.targets)
    assert value(name, scaled) == value(name, s)


@every_metric
@every_seed
def test_rankings_do_not_depend_on_a_monotone_map(name: str, seed: int) -> None:
    s = sample(layout_of(name), seed)
    mapped = Sample(s.layout, s.scores.exp() - 3.0, s.targets)
    if metric_from_name(name).order_only:
        assert value(name, mapped) == pytest.approx(value(name, s), abs=1e-12)
    else:
        assert any(
            value(name, Sample(s.layout, q.scores.exp() - 3.0, q.targets)) != value(name, q)
            for q in [sample(s.layout, i) for i in range(20)]
        )


@every_metric
@every_seed
def test_whole_weights_are_repetitions(name: str, seed: int) -> None:
    s = sample(layout_of(name), seed)
    assert s.weights is not None
    repeated = s.rows(torch.repeat_interleave(torch.arange(s.scores.shape[0]), s.weights.long()))
    assert value(name, s, weights=s.weights) == pytest.approx(value(name, repeated), abs=1e-12)


@every_metric
@every_seed
def test_masked_entries_are_removed_whatever_they_hold(name: str, seed: int) -> None:
    s = sample(layout_of(name), seed)
    keep = torch.arange(s.scores.shape[0]) % 4 != 1
    removed = s.rows(keep.nonzero().squeeze(1))
    scores, targets = s.scores.clone(), s.targets.clone()
    scores[~keep] = float("nan")
    targets[~keep] = -100
    where = keep if s.targets.ndim == 1 else keep[:, None].expand_as(s.targets)
    got = value(name, Sample(s.layout, scores, targets), where=where)
    assert got == pytest.approx(value(name, removed), abs=1e-12)


@every_metric
def test_value_is_nan_when_everything_is_masked(name: str) -> None:
    s = sample(layout_of(name))
    assert torch.isnan(torch.tensor(value(name, s, where=torch.zeros_like(s.targets, dtype=torch.bool))))


@every_metric
def test_metric_survives_pickle_and_prints_itself(name: str) -> None:
    metric = metric_from_name(name)
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert type(metric).__name__ in repr(metric)


@every_metric
def test_half_precision_is_computed_in_float32(name: str) -> None:
    s = sample(layout_of(name))
    half = Sample(s.layout, s.scores.to(torch.bfloat16), s.targets)
    assert value(name, half) == pytest.approx(value(name, Sample(s.layout, half.scores.double(), s.targets)), abs=1e-6)


@every_metric
def test_nan_scores_are_refused(name: str) -> None:
    s = sample(layout_of(name))
    scores = s.scores.clone()
    scores[0] = float("nan")
    with pytest.raises(aimfor.InputError, match="not finite"):
        value(name, Sample(s.layout, scores, s.targets))


# ---------------------------------------------------------------- metric × engine


@every_pair
@every_seed
def test_loss_is_finite_nonnegative_and_attached(name: str, engine: type[Engine], seed: int) -> None:
    loss, gradient = loss_and_gradient(name, engine, sample(layout_of(name), seed))
    assert torch.isfinite(loss)
    assert loss >= 0
    assert torch.isfinite(gradient).all()


@every_pair
@every_seed
def test_gradient_follows_the_order_of_examples(name: str, engine: type[Engine], seed: int) -> None:
    # Without ties: engines of the true metric may break ties by position, and say so.
    s = sample(layout_of(name), seed, ties=False)
    order = torch.randperm(s.scores.shape[0], generator=torch.Generator().manual_seed(seed))
    loss, gradient = loss_and_gradient(name, engine, s)
    moved_loss, moved_gradient = loss_and_gradient(name, engine, s.rows(order))
    torch.testing.assert_close(moved_loss, loss, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(moved_gradient, gradient[order], rtol=1e-7, atol=1e-10)


@every_pair
def test_gradient_scales_with_the_loss(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name))
    scores = s.scores.clone().requires_grad_()
    loss_fn = aimfor.MetricLoss(name, engine())
    (once,) = torch.autograd.grad(loss_fn(scores, s.targets), scores)
    (thousand,) = torch.autograd.grad(1000.0 * loss_fn(scores, s.targets), scores)
    torch.testing.assert_close(thousand, 1000.0 * once)


@every_pair
@every_seed
def test_masked_entries_do_not_touch_the_loss(name: str, engine: type[Engine], seed: int) -> None:
    s = sample(layout_of(name), seed, ties=False)
    keep = torch.arange(s.scores.shape[0]) % 4 != 1
    where = keep if s.targets.ndim == 1 else keep[:, None].expand_as(s.targets)
    spoiled = Sample(s.layout, s.scores.clone(), s.targets)
    spoiled.scores[~keep] = float("inf")
    loss, gradient = loss_and_gradient(name, engine, spoiled, where=where)
    removed_loss, removed_gradient = loss_and_gradient(name, engine, s.rows(keep.nonzero().squeeze(1)))
    torch.testing.assert_close(loss, removed_loss, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient[keep], removed_gradient, rtol=1e-7, atol=1e-10)
    assert not gradient[~keep].any()


@every_pair
def test_whole_weights_are_repetitions_in_the_loss(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name), ties=False)
    assert s.weights is not None
    if not engine.takes_weights:
        with pytest.raises(aimfor.InputError, match="weights"):
            loss_and_gradient(name, engine, s, weights=s.weights)
        return
    loss, _ = loss_and_gradient(name, engine, s, weights=s.weights)
    if engine.name == "smooth" and getattr(metric_from_name(name), "copies_tie", False):
        # Two copies are a tie to a soft rank. What remains true: only the proportions of the weights matter.
        doubled, _ = loss_and_gradient(name, engine, s, weights=2.0 * s.weights)
        torch.testing.assert_close(loss, doubled, rtol=1e-9, atol=1e-12)
        return
    repeated = s.rows(torch.repeat_interleave(torch.arange(s.scores.shape[0]), s.weights.long()))
    torch.testing.assert_close(loss, loss_and_gradient(name, engine, repeated)[0], rtol=1e-9, atol=1e-12)


@every_pair
def test_degenerate_batch_is_zero_attached_and_flagged(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name))
    scores = s.scores.clone().requires_grad_()
    nothing = torch.zeros_like(s.targets, dtype=torch.bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = aimfor.MetricLoss(name, engine()).detailed(scores, s.targets, where=nothing)
    assert output.status is aimfor.Status.undefined_batch
    assert output.loss == 0
    (gradient,) = torch.autograd.grad(output.loss, scores)
    assert not gradient.any()


@every_pair
def test_empty_batch_is_degenerate(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name)).rows(torch.zeros(0, dtype=torch.int64))
    scores = s.scores.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = aimfor.MetricLoss(name, engine()).detailed(scores, s.targets)
    assert output.status is aimfor.Status.undefined_batch
    output.loss.backward()


@every_pair
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_losses_are_float32(name: str, engine: type[Engine], dtype: torch.dtype) -> None:
    s = sample(layout_of(name))
    scores = s.scores.to(dtype).requires_grad_()
    loss = aimfor.MetricLoss(name, engine())(scores, s.targets)
    assert loss.dtype == torch.float32
    loss.backward()
    assert scores.grad is not None
    assert scores.grad.dtype == dtype


@every_pair
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_and_double_precision_stay(name: str, engine: type[Engine], dtype: torch.dtype) -> None:
    s = sample(layout_of(name))
    scores = s.scores.to(dtype).requires_grad_()
    assert aimfor.MetricLoss(name, engine())(scores, s.targets).dtype == dtype


@every_pair
def test_autocast_does_not_change_the_loss(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name), dtype=torch.float32)
    loss_fn = aimfor.MetricLoss(name, engine())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = loss_fn(s.scores, s.targets)
    assert torch.equal(inside, loss_fn(s.scores, s.targets))


@every_pair
def test_loss_survives_copy_pickle_and_state_dict(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name))
    loss_fn = aimfor.MetricLoss(name, engine())
    expected = loss_fn(s.scores, s.targets)
    fresh = aimfor.MetricLoss(name, engine())
    fresh.load_state_dict(loss_fn.state_dict())
    for twin in (copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn)), fresh, loss_fn.to(torch.float64)):
        assert torch.equal(twin(s.scores, s.targets), expected)


@every_pair
def test_full_graph_compiles_to_the_same_loss_and_gradient(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name), dtype=torch.float32)
    loss_fn = aimfor.MetricLoss(name, engine())
    if loss_fn.engine.has_duals:
        pytest.skip("engines with duals break the graph on purpose")
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda scores, targets: 2.0 * loss_fn(scores * 3.0, targets), backend="aot_eager", fullgraph=True
    )
    eager_scores, compiled_scores = s.scores.clone().requires_grad_(), s.scores.clone().requires_grad_()
    eager = copy.deepcopy(loss_fn)  # with multipliers and counts of its own
    expected, got = 2.0 * eager(eager_scores * 3.0, s.targets), compiled(compiled_scores, s.targets)
    expected.backward()
    got.backward()
    assert torch.equal(got, expected)
    assert torch.equal(compiled_scores.grad, eager_scores.grad)


class _Step(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.loss = aimfor.MetricLoss(name)

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        return 2.0 * self.loss(scores * 3.0, targets)


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_exported_as_one_operator(name: str) -> None:
    s = sample(layout_of(name), dtype=torch.float32)
    module = _Step(name)
    exported = torch.export.export(module, (s.scores, s.targets))
    assert "aimfor.loss_and_gradient" in exported.graph_module.code
    assert torch.equal(exported.module()(s.scores, s.targets), _Step(name)(s.scores, s.targets))


@every_pair
def test_new_tensors_are_made_where_the_scores_are(name: str, engine: type[Engine]) -> None:
    """A default device is that of new tensors by whoever names none; nothing here may be one of those."""
    s = sample(layout_of(name))
    expected = loss_and_gradient(name, engine, s, weights=s.weights if engine.takes_weights else None)
    loss_fn, scores = aimfor.MetricLoss(name, engine()), s.scores.clone().requires_grad_()
    with torch.device("meta"):
        loss = loss_fn(scores, s.targets, weights=s.weights if engine.takes_weights else None)
        loss.backward()
        loss_fn.end_epoch()
        found = loss_fn.value(s.scores, s.targets)
    assert torch.equal(loss.detach(), expected[0])
    assert torch.equal(scores.grad, expected[1])
    assert float(found) == pytest.approx(value(name, s), abs=0, nan_ok=True)


@every_pair
def test_evaluating_does_not_change_state(name: str, engine: type[Engine]) -> None:
    s = sample(layout_of(name))
    loss_fn = aimfor.MetricLoss(name, engine()).eval()
    before = copy.deepcopy(loss_fn.state_dict())
    first = loss_fn(s.scores, s.targets)
    with torch.no_grad():
        second = loss_fn(s.scores, s.targets)
    assert torch.equal(first, second)
    after = loss_fn.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")  # one score far beyond ε is left, and said
@every_pair
def test_optimising_the_loss_improves_the_metric(name: str, engine: type[Engine]) -> None:
    """Free scores, fifty steps of a plain optimizer, no special sampler: the metric must rise."""
    s = sample(layout_of(name), seed=3, ties=False)
    scores = s.scores.clone().requires_grad_()
    loss_fn = aimfor.MetricLoss(name, engine())
    optimizer = torch.optim.Adam([scores], lr=0.2)
    for _ in range(50):
        optimizer.zero_grad()
        loss_fn(scores, s.targets).backward()
        optimizer.step()
    start, end = value(name, s), value(name, Sample(s.layout, scores.detach(), s.targets))
    assert end > start + 0.5 * (1.0 - start)


@every_pair
def test_scores_in_parts_have_the_gradient_of_the_whole_batch(name: str, engine: type[Engine]) -> None:
    """All weights of a small network, in float64, with example weights where the engine takes them."""
    s = sample(layout_of(name), seed=5, ties=False)
    rest = {"weights": s.weights} if engine.takes_weights else {}
    width = s.scores[0].numel()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(width, 6), torch.nn.Tanh(), torch.nn.Linear(6, width)).double()
    x = s.scores.reshape(-1, width)

    def gradient(scores: Tensor) -> Tensor:
        loss = aimfor.MetricLoss(name, engine())(scores.reshape(s.scores.shape), s.targets, **rest)
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])

    whole, parts = gradient(model(x)), gradient(aimfor.in_parts(model, x, rows=len(x) // 3 + 1))
    assert whole.any()
    assert (parts - whole).abs().max() < 1e-12 * whole.abs().max()
