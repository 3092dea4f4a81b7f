"""What the target says about levels: by hand, without a row's own target, the same for a row wherever it stands."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor

from aimfor.data.columns import TableEncoder, columns_of
from aimfor.data.columns.coders import MISSING, UNSEEN
from aimfor.learners.ensemble import Ensemble, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.levels import Levels, Prior
from aimfor.learners.ensemble.members import Rows
from aimfor.targets.objective import Objective


def shops(
    n: int = 3000, levels: int = 150, seed: int = 0, effect: float = 1.5
) -> tuple[dict[str, list[object]], Tensor]:
    rng = np.random.default_rng(seed)
    own, which, x = (
        effect * np.random.default_rng(9).normal(size=levels),
        rng.integers(0, levels, n),
        rng.normal(size=n),
    )
    y = rng.random(n) < 1 / (1 + np.exp(-(own[which] + x)))
    return {"x": x.tolist(), "shop": [f"s{one}" for one in which]}, torch.from_numpy(y).long()


def test_a_level_s_statistic_is_its_shrunk_log_odds() -> None:
    level = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2])
    y = torch.tensor([1, 1, 1, 0, 0, 0, 0, 1])
    target, mass = y[:, None].double(), torch.ones(8).double()
    counts, sums = torch.tensor([3.0, 4.0, 1.0]).double(), torch.tensor([[3.0], [0.0], [1.0]]).double()
    whole = Prior(target, mass, counts, sums, classes=True)
    m = float(whole.rows[0])
    assert 1.0 <= m < 10.0
    expected = [np.log((s + m / 2) / (n - s + m / 2)) for n, s in zip([3, 4, 1], [3, 0, 1], strict=True)]
    np.testing.assert_allclose(whole(counts, sums)[:, 0].numpy(), expected, rtol=1e-12)
    levels, _ = Levels.fit(Rows(level[:, None].float(), y), (0,), 1)
    np.testing.assert_allclose(levels(level[:, None].float())[[0, 3, 7], 0].numpy(), expected, rtol=1e-6)


def counted(n: int, effect: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    frame, y = shops(n, 100, seed, effect)
    codes = torch.tensor([int(str(one)[1:]) for one in frame["shop"]])
    return torch.bincount(codes).double(), torch.bincount(codes, y.double())[:, None], y[:, None].double()


def test_a_level_is_shrunk_by_the_rows_that_the_spread_between_levels_asks_for() -> None:
    """p (1 − p) over the variance of the levels' rates, which four hundred times as many rows tell."""
    counts, sums, target = counted(1_000_000, 1.5, seed=1)
    rates = sums[:, 0] / counts
    p = float(target.mean())
    counts, sums, target = counted(20_000, 1.5)
    found = Prior(target, torch.ones(len(target)).double(), counts, sums, classes=True)
    assert float(found.rows[0]) == pytest.approx(p * (1 - p) / float(rates.var(correction=0)), rel=0.15)
    counts, sums, target = counted(20_000, 0.0)
    assert float(Prior(target, torch.ones(len(target)).double(), counts, sums, classes=True).rows[0]) > 300


def test_a_row_s_own_target_does_not_reach_its_statistic() -> None:
    frame, y = shops()
    x = torch.tensor([float(str(one)[1:]) for one in frame["shop"]])[:, None]
    changed = y.clone()
    changed[5] = 1 - changed[5]
    clusters = torch.arange(len(y)) // 3
    before, after = (Levels.fit(Rows(x, one, clusters=clusters), (0,), 1)[1].x[:, 0] for one in (y, changed))
    moved = (before - after).abs()
    # All move a little by the mean of all rows; those of the level that are in other clusters move by the row itself.
    same = (x[:, 0] == x[5, 0]) & (clusters != clusters[5])
    assert float(moved[5]) < 0.01
    assert float(moved[same].max()) > 0.1


def test_levels_of_pure_noise_leave_the_estimate_at_chance() -> None:
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.integers(0, 400, (1500, 1))).float()
    y = torch.from_numpy(rng.integers(0, 2, 1500))
    found = fit_ensemble(x, y, Objective.of("auroc"), levels=(0,), kinds=("linear", "trees"), folds=3)
    assert found.cross_validated == pytest.approx(0.5, abs=0.04)


def test_many_levels_keep_their_signal_and_a_row_its_score() -> None:
    frame, y = shops()
    encoder = TableEncoder.fit(columns_of(frame))
    assert len(encoder.levels) == 1
    x = torch.from_numpy(encoder.transform(columns_of(frame)))
    how = {"kinds": ("linear",), "folds": 3}
    with_levels = fit_ensemble(x, y, Objective.of("auroc"), levels=encoder.levels, **how)
    keep = [place for place in range(x.shape[1]) if place not in encoder.levels]
    without = fit_ensemble(x[:, keep], y, Objective.of("auroc"), **how)
    fresh_frame, fresh_y = shops(4000, seed=3)
    fresh = torch.from_numpy(
        TableEncoder.restore(json.loads(json.dumps(encoder.state))).transform(columns_of(fresh_frame))
    )
    value = Objective.of("auroc").value
    scores = with_levels.scores(fresh)
    assert value(scores, fresh_y) > value(without.scores(fresh[:, keep]), fresh_y) + 0.05
    assert torch.equal(scores[:7], with_levels.scores(fresh[:7]))
    again = Ensemble.restore(with_levels.facts, dict(with_levels.parts()).__getitem__)
    assert torch.equal(again.scores(fresh), scores)


def test_cells_are_not_shared_between_tables_with_and_without_levels() -> None:
    frame, y = shops(600, 80)
    x = torch.tensor([float(str(one)[1:]) for one in frame["shop"]])[:, None]
    store, objective = MemoryStore(), Objective.of("auroc")
    first = fit_ensemble(x, y, objective, kinds=("linear",), folds=2, store=store)
    second = fit_ensemble(x, y, objective, kinds=("linear",), folds=2, store=store, levels=(0,))
    assert not torch.equal(first.scores(x), second.scores(x))


def test_new_missing_and_hashed_levels_are_defined() -> None:
    names = [f"s{place % 60}" for place in range(600)]
    encoder = TableEncoder.fit(columns_of({"x": list(range(600)), "shop": names}))
    (place,) = encoder.levels
    new = encoder.transform(columns_of({"x": [1, 2, 3], "shop": ["s7", "never", None]}))[:, place]
    assert new[1:].tolist() == [UNSEEN, MISSING]
    assert 0 <= new[0] < 60
    few = TableEncoder.fit(columns_of({"x": list(range(600)), "shop": [f"s{one % 50}" for one in range(600)]}))
    assert few.levels == ()
    many = [f"s{one}" for one in range(6000)] * 2
    encoder = TableEncoder.fit(columns_of({"x": list(range(12000)), "shop": many}), requested={"shop": "category"})
    codes = encoder.transform(columns_of({"x": list(range(12000)), "shop": many}))[:, encoder.levels[0]]
    assert codes.max() < 2**23
    assert len(np.unique(codes)) > 5990
    np.testing.assert_array_equal(codes[:6000], codes[6000:])


def test_a_million_levels_have_statistics_and_a_row_its_own_is_not_told() -> None:
    rng = np.random.default_rng(0)
    level = torch.from_numpy(rng.permutation(1_200_000) % 1_000_000)[:, None].float()
    y = torch.from_numpy(rng.integers(0, 2, 1_200_000))
    levels, trained = Levels.fit(Rows(level, y), (0,), 1)
    assert len(levels.tables[0][0]) == 1_000_000
    statistics = trained.x[:, 0]
    assert bool(statistics.isfinite().all())
    assert abs(float(torch.corrcoef(torch.stack((statistics, y.float())))[0, 1])) < 0.01
    assert levels(torch.tensor([[2_000_000.0]])).tolist() == [[0.0]]


@pytest.mark.parametrize("classes", [3, 30])
def test_several_classes_have_a_statistic_each(classes: int) -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 70, 2000)
    y = torch.from_numpy((level + rng.integers(0, 2, 2000)) % classes)
    x = torch.from_numpy(np.stack([rng.normal(size=2000), level], 1)).float()
    levels, trained = Levels.fit(Rows(x, y), (1,), classes)
    assert trained.x.shape == (2000, 1 + min(classes, 20))
    assert levels(x).shape == trained.x.shape


def test_lists_have_the_mean_grade_of_a_level() -> None:
    level = torch.arange(300) % 3
    rows = Rows(level[:, None].float(), level, lists=torch.arange(300) // 10)
    levels, trained = Levels.fit(rows, (0,), 1)
    torch.testing.assert_close(levels(rows.x)[:3, 0], torch.tensor([-1.0, 0.0, 1.0]), rtol=0, atol=0.02)
    torch.testing.assert_close(trained.x[:, 0], levels(rows.x)[:, 0], rtol=0, atol=0.02)
