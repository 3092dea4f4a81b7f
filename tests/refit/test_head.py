"""HeadFitter: solved to optimality, folded back exactly, and never worse than the layer it replaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import aimfor
from aimfor.errors import InputError
from aimfor.refit.choose import best_shift, held_out


def problem(n: int = 150, d: int = 4, rate: float = 0.8, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, d, dtype=dtype) * torch.tensor([1.0, 20.0, 0.1, 3.0], dtype=dtype)[:d] + 5.0
    z = (x - 5.0) / torch.tensor([1.0, 20.0, 0.1, 3.0], dtype=dtype)[:d]
    return x, (z[:, 0] + 0.5 * z[:, 1] - z[:, 2] + torch.randn(n, dtype=dtype) > rate).long()


def balanced_standard(x: Tensor, y: Tensor) -> np.ndarray[Any, Any]:
    """Standardised so that both classes count alike, as the head does."""
    share = torch.where(y > 0, 0.5 / (y > 0).sum(), 0.5 / (y == 0).sum()).double()
    mean = share @ x
    return ((x - mean) / (share @ (x - mean).square()).sqrt()).numpy()


def only(metric: str, objective: str, ridge: float, **rest: Any) -> aimfor.HeadFitter:
    return aimfor.HeadFitter(metric, objectives=[objective], ridges=[ridge], iterations=500, tolerance=1e-9, **rest)


def test_all_pairs_fit_equals_brute_force_over_explicit_pairs() -> None:
    x, y = problem()
    fit = only("auroc", "all pairs", 0.1).fit(x, y, validation=(x, y))
    z = balanced_standard(x, y)
    differences = (z[y.numpy() == 1][:, None] - z[y.numpy() == 0][None]).reshape(-1, z.shape[1])

    def objective(w: Any) -> tuple[float, Any]:
        gap = np.maximum(0.0, 1.0 - differences @ w)
        return (gap**2).mean() + 0.05 * w @ w, -2 * (gap[:, None] * differences).mean(0) + 0.1 * w

    oracle = minimize(objective, np.zeros(z.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    centred = fit.layer(x).squeeze(1).detach()
    expected = torch.from_numpy(z @ oracle)
    torch.testing.assert_close(centred - centred.mean(), expected - expected.mean(), rtol=1e-6, atol=1e-6)
    assert fit.record.chosen.gradient < 1e-7


@pytest.mark.parametrize(("name", "weight"), [("cross-entropy", None), ("balanced cross-entropy", "balanced")])
def test_cross_entropy_fit_equals_scikit_learn(name: str, weight: str | None) -> None:
    x, y = problem()
    fit = only("auroc", name, 0.02).fit(x, y, validation=(x, y))
    z = balanced_standard(x, y)
    # scikit-learn: ‖w‖²/2 + C Σ loss, with class weights n / (2 n_c); the head: ridge ‖w‖²/2 + mean loss.
    model = LogisticRegression(C=1 / (0.02 * len(y)), class_weight=weight, tol=1e-10, max_iter=10_000).fit(z, y.numpy())
    expected = torch.from_numpy(model.decision_function(z))
    torch.testing.assert_close(fit.layer(x).squeeze(1).detach(), expected, rtol=1e-5, atol=1e-5)


def test_listwise_fit_equals_brute_force() -> None:
    x, grades = torch.randn(6, 7, 3, dtype=torch.float64), torch.randint(0, 2, (6, 7))
    where = torch.rand(6, 7) < 0.8
    where[:, 0] = True
    x[~where] = float("nan")  # what is masked may hold anything
    grades[0] = 0  # a list without relevant items teaches nothing
    fit = only("ap", "listwise softmax", 0.05).fit(x, grades, where=where, validation=(x, grades, where))
    rows = x[where]
    z_all = (x - rows.mean(0)) / rows.std(0, correction=0)

    def objective(w: Any) -> float:
        total, used = 0.0, 0
        for z, grade, keep in zip(z_all, grades, where, strict=True):
            share = grade[keep].double()
            if share.sum() > 0:
                scores = z[keep] @ torch.from_numpy(w)
                total -= float((share / share.sum()) @ torch.log_softmax(scores, 0))
                used += 1
        return total / used + 0.025 * float(w @ w)

    oracle = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
    found = (fit.layer.weight.detach().double() * rows.std(0, correction=0)).squeeze(0)
    torch.testing.assert_close(found, torch.from_numpy(oracle), rtol=1e-4, atol=1e-5)


def test_every_convex_candidate_is_solved() -> None:
    x, y = problem(400)
    fit = aimfor.HeadFitter("auroc", tolerance=1e-8).fit(x, y, validation=(x, y))
    assert len(fit.record.candidates) == 15
    assert max(c.gradient for c in fit.record.candidates if c.convex) < 1e-6


def test_units_and_origin_of_features_do_not_matter() -> None:
    x, y = problem(300)
    shift, scale = torch.tensor([1e3, -50.0, 0.0, 7.0]), torch.tensor([1e-3, 40.0, 1.0, 1e4])
    plain = only("auroc", "all pairs", 0.01).fit(x, y, validation=(x, y)).layer(x)
    moved_x = x * scale + shift
    moved = only("auroc", "all pairs", 0.01).fit(moved_x, y, validation=(moved_x, y)).layer(moved_x)
    torch.testing.assert_close((moved - moved.mean()).detach(), (plain - plain.mean()).detach(), rtol=1e-4, atol=1e-5)


def test_constant_feature_gets_no_say() -> None:
    x, y = problem(200)
    constant = torch.full((200, 1), 1e6, dtype=torch.float64)
    with_constant = torch.cat((x, constant), 1)
    a = only("auroc", "all pairs", 0.1).fit(x, y, validation=(x, y)).layer(x)
    b = only("auroc", "all pairs", 0.1).fit(with_constant, y, validation=(with_constant, y)).layer(with_constant)
    torch.testing.assert_close((a - a.mean()).detach(), (b - b.mean()).detach(), rtol=1e-6, atol=1e-6)


def test_weights_equal_repetition() -> None:
    x, y = problem(120)
    times = torch.randint(1, 4, (120,))
    repeated = only("auroc", "all pairs", 0.1).fit(
        x.repeat_interleave(times, 0), y.repeat_interleave(times), validation=(x, y)
    )
    weighted = only("auroc", "all pairs", 0.1).fit(x, y, times.double(), validation=(x, y))
    torch.testing.assert_close(weighted.layer.weight, repeated.layer.weight, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("metric", ["auroc", "f1", "ap", "recall@precision=0.7", "iou", "accuracy"])
def test_never_loses_to_the_original_layer_on_validation_data(metric: str) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = problem(200, dtype=torch.float32)
        vx, vy = problem(80, dtype=torch.float32)
        original = nn.Linear(4, 1)
        before = float(aimfor.metric_from_name(metric).value(original(vx).squeeze(1), vy))
        fit = aimfor.HeadFitter(metric, ridges=[1.0, 0.01]).fit(x, y, validation=(vx, vy), original=original)
        after = float(aimfor.metric_from_name(metric).value(fit.layer(vx).squeeze(1), vy))
        assert after == pytest.approx(fit.record.chosen.value, abs=1e-12)
        assert after >= before


def test_original_layer_wins_ties() -> None:
    x, y = problem(300)
    original = only("auroc", "all pairs", 0.01).fit(x, y, validation=(x, y)).layer
    perfect = (original(x).squeeze(1) > 0).long()
    fit = aimfor.HeadFitter("auroc").fit(x, perfect, validation=(x, perfect), original=original)
    assert fit.record.chosen.objective == "original layer"
    torch.testing.assert_close(fit.layer.weight, original.weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["auc_mu", "auroc_ovr"])
def test_multiclass_head_beats_chance_and_solves_its_problem(metric: str, dtype: torch.dtype) -> None:
    x = torch.randn(300, 6, dtype=dtype)
    y = (x[:, :3] + torch.randn(300, 3)).argmax(1)
    fit = aimfor.HeadFitter(metric).fit(x[:200], y[:200], validation=(x[200:], y[200:]))
    assert fit.layer.out_features == 3
    assert fit.record.chosen.value > 0.7
    assert fit.layer.weight.dtype == dtype
    assert max(c.gradient for c in fit.record.candidates) < 2e-5


def test_ranked_lists_are_learned() -> None:
    x = torch.randn(40, 8, 3)
    grades = (x[..., 0] + 0.3 * torch.randn(40, 8) > 1).long() + (x[..., 0] > 1.5).long()
    fit = aimfor.HeadFitter("ndcg@5").fit(x, grades, validation=0.25)
    assert fit.record.chosen.value > 0.9


def test_tuned_threshold_is_the_best_of_all_cuts() -> None:
    f1 = aimfor.FBeta(1.0)
    for seed in range(20):
        torch.manual_seed(seed)
        scores, y = torch.randn(30).mul(3).round(), torch.rand(30) < 0.3
        y[0] = True
        shift = best_shift(f1, f1.check(scores, y))
        cuts = [float(f1.value(scores - t, y)) for t in torch.arange(-20.25, 20.5, 0.5)]
        assert float(f1.value(scores + shift, y)) == pytest.approx(max(cuts), abs=1e-12)


def test_hold_out_keeps_the_classes_share_and_is_repeatable() -> None:
    y = (torch.arange(100) < 10).long()
    kept, held = held_out(y, "binary", 0.2, 0)
    assert sorted(torch.cat((kept, held)).tolist()) == list(range(100))
    assert int(y[held].sum()) == 2
    assert torch.equal(held, held_out(y, "binary", 0.2, 0)[1])
    with pytest.raises(InputError, match="leaves some on both sides"):
        held_out(y[8:12], "binary", 0.1, 0)


class Net(nn.Module):
    def __init__(self, end: nn.Module | None = None) -> None:
        super().__init__()
        self.out = nn.Linear(8, 1)  # defined first, runs last
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5))
        self.end = end or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.out(self.body(x))).squeeze(1)


def loaders() -> tuple[DataLoader[Any], DataLoader[Any], Tensor, Tensor]:
    x, y = problem(256, dtype=torch.float32)
    vx, vy = problem(128, dtype=torch.float32)
    return DataLoader(TensorDataset(x, y), 50), DataLoader(TensorDataset(vx, vy), 50), vx, vy


def test_from_model_finds_the_layer_that_runs_last_and_installs() -> None:
    train, valid, vx, vy = loaders()
    model = Net().train()
    before = model.out
    fit = aimfor.HeadFitter("auroc").from_model(model, train, validation=valid, install=True)
    assert model.training
    assert model.out is not before
    assert model.out is not fit.layer
    value = float(aimfor.AUROC().value(model.eval()(vx).detach(), vy))
    assert value == pytest.approx(fit.record.chosen.value, abs=1e-12)
    assert fit.record.original is not None
    assert value >= fit.record.original.value


def test_from_model_refuses_what_follows_the_layer_unless_named() -> None:
    train, valid, _, _ = loaders()
    with pytest.raises(InputError, match="further layers after its last linear layer 'out'"):
        aimfor.HeadFitter("auroc").from_model(Net(nn.Sigmoid()), train, validation=valid)
    fit = aimfor.HeadFitter("auroc").from_model(Net(nn.Sigmoid()), train, validation=valid, layer="out")
    assert fit.layer.in_features == 8
    with pytest.raises(InputError, match="runs no nn"):
        aimfor.HeadFitter("auroc").from_model(nn.Conv1d(4, 1, 1), [(torch.randn(2, 4, 1), torch.ones(2))])
    with pytest.raises(InputError, match="the name of an nn"):
        fit.install(Net(), "body.1")


GOOD = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("features: got shape", lambda h: h.fit(GOOD[0][:, 0], GOOD[1], validation=GOOD)),
        ("features: got a ndarray", lambda h: h.fit(GOOD[0].numpy(), GOOD[1], validation=GOOD)),
        ("features: got 1 of 4 values not finite", lambda h: h.fit(GOOD[0] / GOOD[0], GOOD[1], validation=GOOD)),
        ("targets: got shape", lambda h: h.fit(GOOD[0], GOOD[1][:3], validation=GOOD)),
        ("targets: got values", lambda h: h.fit(GOOD[0], GOOD[1] * 2, validation=GOOD)),
        ("features: got data on which", lambda h: h.fit(GOOD[0], GOOD[1] * 0, validation=GOOD)),
        ("validation: got data on which", lambda h: h.fit(*GOOD, validation=(GOOD[0], GOOD[1] * 0))),
        ("validation: got 1 parts", lambda h: h.fit(*GOOD, validation=(GOOD[0],))),
        ("validation: got 1.5", lambda h: h.fit(*GOOD, validation=1.5)),
        ("original: got Linear", lambda h: h.fit(*GOOD, validation=GOOD, original=nn.Linear(2, 1))),
        ("weights: got a negative", lambda h: h.fit(*GOOD, -torch.ones(4), validation=GOOD)),
        ("ridges: got 0", lambda h: aimfor.HeadFitter("auroc", ridges=[0])),
        ("ridges: got none", lambda h: aimfor.HeadFitter("auroc", ridges=[])),
        ("iterations: got 0", lambda h: aimfor.HeadFitter("auroc", iterations=0)),
        ("metric: got a int", lambda h: aimfor.HeadFitter(3)),
        (
            "objectives: got 'soft'",
            lambda h: aimfor.HeadFitter("auroc", objectives=["soft"]).fit(*GOOD, validation=GOOD),
        ),
        ("loader: got no batch", lambda h: h.from_model(Net(), [])),
        ("loader: got batches of type dict", lambda h: h.from_model(Net(), [{"x": 1}])),
    ],
)
def test_bad_input_is_named(match: str, call: Any) -> None:
    with pytest.raises(InputError, match=match):
        call(aimfor.HeadFitter("auroc"))


def test_a_head_can_be_fitted_where_gradients_are_off() -> None:
    x = torch.randn(200, 4)
    y = (x[:, 0] + 0.5 * torch.randn(200) > 0.5).long()
    with torch.no_grad():
        inside = aimfor.HeadFitter("auroc").fit(x[:150], y[:150], validation=(x[150:], y[150:]))
    outside = aimfor.HeadFitter("auroc").fit(x[:150], y[:150], validation=(x[150:], y[150:]))
    assert torch.equal(inside.layer.weight, outside.layer.weight)


@pytest.mark.parametrize("metric", ["f1", "iou", "balanced_accuracy"])
def test_a_metric_whose_default_remembers_batches_is_still_a_candidate(metric: str) -> None:
    x, y = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)), torch.arange(80) % 4 == 0
    found = aimfor.HeadFitter(metric, ridges=[0.1]).fit(x + y[:, None], y.long(), validation=(x[:40], y[:40].long()))
    assert "metric" in {one.objective for one in found.record.candidates}


def test_a_model_that_is_refused_keeps_its_mode() -> None:
    train, _, _, _ = loaders()
    model = Net(nn.Sigmoid()).train()
    with pytest.raises(InputError, match="further layers"):
        aimfor.HeadFitter("auroc").from_model(model, train)
    assert model.training
