"""RateEngine and the metrics it trains: exact values by brute force, the loss by hand, steps by the exact counts."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from torch import Tensor

import aimfor
from aimfor.errors import InputError
from aimfor.rates import precision, recall
from aimfor.rates.form import grid
from programs import Program


def sample(n: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 0.3
    return torch.randn(n, generator=generator, dtype=torch.float64) + 1.2 * y, y


@pytest.mark.parametrize("ceiling", [0.0, 0.05, 0.1, 0.5])
def test_tpr_at_fpr_is_read_off_the_roc_curve(ceiling: float) -> None:
    scores, y = sample()
    false, true, _ = roc_curve(y.numpy(), scores.numpy(), drop_intermediate=False)
    assert float(aimfor.TPRAtFPR(ceiling).value(scores, y)) == pytest.approx(true[false <= ceiling + 1e-12].max())


@pytest.mark.parametrize("points", [1, 4, 25])
def test_auprc_is_the_mean_of_precision_at_recall(points: int) -> None:
    scores, y = sample()
    parts = [float(aimfor.PrecisionAtRecall(level).value(scores, y)) for level in grid(points)]
    assert float(aimfor.AUPRC(points).value(scores, y)) == pytest.approx(float(np.mean(parts)), abs=1e-12)


def test_a_grid_of_midpoints_integrates() -> None:
    assert grid(4) == [0.125, 0.375, 0.625, 0.875]
    assert np.mean([x**2 for x in grid(200)]) == pytest.approx(1 / 3, abs=1e-4)
    assert max(grid(10, 0.2)) < 0.2


def softplus(value: Tensor) -> Tensor:
    return torch.nn.functional.softplus(value) / np.log(2)


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("recall@precision=0.8", lambda odds: 0.8 * odds, 1.2),
        ("precision@recall=0.8", lambda odds: 1.0, 1.0),
        ("tpr@fpr=0.1", lambda odds: 1.0, 1.0),
    ],
)
def test_the_loss_is_the_lagrangian_by_hand(name: str, up: object, down: float) -> None:
    scores, y = sample(40)
    odds = float((~y).sum() / y.sum())
    cold = scores / 0.25  # the temperature of the default
    expected = down * softplus(-cold[y]).mean() + up(odds) * softplus(cold[~y]).mean()  # type: ignore[operator]
    assert float(aimfor.MetricLoss(name)(scores, y)) == pytest.approx(float(expected), rel=1e-6)


def test_gradient_equals_finite_differences() -> None:
    scores, y = sample(12)
    loss_fn = aimfor.MetricLoss(aimfor.AUPRC(3)).eval()
    assert torch.autograd.gradcheck(lambda s: loss_fn(s, y), scores.requires_grad_())


def test_multipliers_step_by_the_exact_violation() -> None:
    scores, y = sample()
    engine = aimfor.RateEngine(dual_rate=0.5, threshold_rate=0.0, every=0)
    loss_fn = aimfor.MetricLoss("tpr@fpr=0.1", engine)
    for rows in torch.arange(200).split(50):
        loss_fn(scores[rows], y[rows])
    loss_fn.end_epoch()
    rate = int(((scores >= 0) & ~y).sum()) / int((~y).sum())
    assert loss_fn.detailed(scores, y).stats["multipliers"] == [pytest.approx(1.0 - 0.5 * (0.1 - rate))]


def test_how_many_steps_the_multipliers_had_is_said_and_saved() -> None:
    scores, y = sample()
    loss_fn = aimfor.MetricLoss("tpr@fpr=0.1", aimfor.RateEngine(every=2))
    said = [loss_fn.detailed(scores, y).stats["multiplier_steps"] for _ in range(6)]
    assert said == [0, 0, 1, 1, 2, 2]  # as this call found them
    twin = aimfor.MetricLoss("tpr@fpr=0.1", aimfor.RateEngine(every=2))
    twin.load_state_dict(loss_fn.state_dict())
    assert twin.eval().detailed(scores, y).stats["multiplier_steps"] == 3
    old = {"engine._extra_state": loss_fn.engine._state[:, :8].clone()}  # type: ignore[index,union-attr,operator]
    twin.load_state_dict({**loss_fn.state_dict(), **old})
    assert twin.detailed(scores, y).stats["multiplier_steps"] == 0
    problem = aimfor.maximize(recall, subject_to=[precision >= 0.8])
    for _ in range(2):
        problem(scores, y)
        problem.end_epoch()
    same = aimfor.maximize(recall, subject_to=[precision >= 0.8])
    same.load_state_dict(problem.state_dict())
    assert problem.multiplier_steps == same.multiplier_steps == 2


def test_thresholds_settle_where_their_rates_are() -> None:
    scores, y = sample(2000)
    loss_fn = aimfor.MetricLoss(
        aimfor.AUPRC(3), aimfor.RateEngine("sigmoid", 0.1, dual_rate=0.1, threshold_rate=0.3, every=1)
    )
    for _ in range(600):
        output = loss_fn.detailed(scores, y)
    thresholds = output.stats["thresholds"]
    assert thresholds == sorted(thresholds, reverse=True)
    for threshold, level in zip(thresholds, grid(3), strict=True):
        assert float((scores[y] >= threshold).double().mean()) == pytest.approx(level, abs=0.05)


def test_state_survives_a_save_and_load() -> None:
    scores, y = sample()
    one = aimfor.MetricLoss("auprc@10", aimfor.RateEngine(every=2))
    for rows in torch.arange(200).split(20):
        one(scores[rows], y[rows])
    other = aimfor.MetricLoss("auprc@10", aimfor.RateEngine(every=2))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for rows in torch.arange(200).split(25):
        assert torch.equal(one(scores[rows], y[rows]), other(scores[rows], y[rows]))


@pytest.mark.parametrize("name", ["recall@precision=0.8", "precision@recall=0.8", "tpr@fpr=0.1", "auprc@10", "auroc"])
def test_mini_batch_training_of_a_linear_model_ends_level_with_logistic_regression(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(600, generator=generator) < 0.3
    x = torch.randn(600, 5, generator=generator) + y[:, None] * torch.tensor([1.6, -1.2, 0.0, 0.8, 0.0])
    torch.manual_seed(1)
    model, loss_fn = torch.nn.Linear(5, 1), aimfor.MetricLoss(name, aimfor.RateEngine())
    model.weight.data = torch.tensor([[0.1, 0.3, 0.3, 0.1, 0.3]])
    metric = aimfor.metric_from_name(name)
    rival = LogisticRegression().fit(x.numpy(), y.numpy())
    reference = float(metric.value(torch.tensor(rival.decision_function(x.numpy())), y))
    assert float(metric.value(model(x).squeeze(1), y)) < reference - 0.1  # there is something to learn
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(12):
        for rows in torch.randperm(600, generator=generator).split(50):
            optimizer.zero_grad()
            loss_fn(model(x[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
        loss_fn.end_epoch()
    assert float(metric.value(model(x).squeeze(1), y)) > reference - 0.02


def test_a_batch_of_one_class_after_others_is_ordinary() -> None:
    scores, y = sample()
    loss_fn = aimfor.MetricLoss("recall@precision=0.8")
    loss_fn(scores, y)
    loss = loss_fn(scores[~y][:10].clone().requires_grad_(), y[~y][:10])
    assert torch.isfinite(loss)
    assert loss > 0


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
@pytest.mark.parametrize("label", [0, 1])
def test_a_first_batch_of_one_class_is_undefined_and_leaves_no_trace(label: int) -> None:
    engine = aimfor.RateEngine(every=1)
    loss_fn = aimfor.MetricLoss("recall@precision=0.8", engine)
    scores = torch.randn(10, dtype=torch.float64, requires_grad=True)
    output = loss_fn.detailed(scores, torch.full((10,), label))
    output.loss.backward()
    assert output.status == aimfor.Status.undefined_batch
    assert float(output.loss.detach()) == 0.0
    assert scores.grad is not None
    assert not scores.grad.any()
    assert not len(engine._state)
    other = aimfor.MetricLoss("recall@precision=0.8", aimfor.RateEngine(every=1))
    assert torch.equal(loss_fn(*sample()), other(*sample()))


def test_an_engine_for_logits_trains_as_the_temperature_did_on_its_own_scale() -> None:
    scores, y = sample()
    engine = aimfor.RateEngine("sigmoid", 4.0, dual_rate=0.3, threshold_rate=8.0, every=2)
    cold, plain = (aimfor.MetricLoss(aimfor.AUPRC(3), one) for one in (engine, engine.for_logits()))
    for rows in torch.arange(200).split(20):
        one, other = cold.detailed(scores[rows], y[rows]), plain.detailed(scores[rows] / 4.0, y[rows])
        assert float(one.loss) == pytest.approx(float(other.loss), rel=1e-9)
    assert one.stats["multipliers"] == pytest.approx(other.stats["multipliers"], rel=1e-9)
    assert one.stats["thresholds"] == pytest.approx([4.0 * cut for cut in other.stats["thresholds"]], rel=1e-9)
    assert min(map(abs, one.stats["thresholds"])) > 0.0


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: aimfor.RateEngine(proxy="step"),
        lambda: aimfor.RateEngine(temperature=0),
        lambda: aimfor.RateEngine(every=-1),
        lambda: aimfor.TPRAtFPR(1.0),
        lambda: aimfor.AUPRC(0),
        lambda: aimfor.metric_from_name("auprc@x"),
    ],
)
def test_bad_settings_are_named(attempt: object) -> None:
    with pytest.raises(InputError):
        attempt()  # type: ignore[operator]


def test_a_process_without_a_class_keeps_up_with_the_others(tmp_path: Path) -> None:
    """Without joined batches processes add up their counts, and one that has nothing to learn from adds none."""
    code = """
        import sys, warnings, torch, torch.distributed as dist
        import aimfor
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        rank, path = int(sys.argv[1]), sys.argv[2]
        dist.init_process_group("gloo", init_method="file://" + path + ".store", rank=rank, world_size=2)
        loss_fn = aimfor.MetricLoss("recall@precision=0.5", aimfor.RateEngine(every=1), gather=False)
        scores = torch.arange(6.0).requires_grad_()
        for step in range(3):
            y = torch.tensor([0, 0, 1, 0, 1, 1]) if rank == 0 or step == 2 else torch.zeros(6).long()
            output = loss_fn.detailed(scores, y)
            output.loss.backward()
        print(*loss_fn.engine._state.flatten().tolist())
        dist.destroy_process_group()
    """
    started = [Program(rank, tmp_path / "run", code=code) for rank in range(2)]
    assert [program.wait() for program in started] == [0, 0], [program.stderr for program in started]
    states = [program.stdout.split() for program in started]
    assert states[0] == states[1]
    assert len(set(states[0])) > 3


def test_parts_of_a_large_batch_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    (scores, targets), found = sample(), []
    for block in (1 << 17, 55):  # 5 points: all scores at once, or 11 at a time
        monkeypatch.setattr("aimfor.rates.prices.BLOCK", block)
        loss_fn, leaf = aimfor.MetricLoss("auprc@5", aimfor.RateEngine(every=1)), scores.clone().requires_grad_()
        loss = loss_fn(leaf, targets)
        loss.backward()
        found.append((loss.detach(), leaf.grad, loss_fn.engine.get_extra_state()))
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(whole, parts, rtol=1e-12, atol=1e-15)
