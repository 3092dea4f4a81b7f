"""Rivals in `compare` get a table as their own users would give it to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from aimfor.data.settings import settings
from aimfor.runs.compare.rivals import LEARN, RawTable, raw_table, run_rival
from aimfor.runs.compare.verdicts import cheapest_first
from aimfor.runs.prepared import prepare


def people(seed: int, n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, city = rng.normal(size=n), rng.choice(["Rome", "Bern"], n)
    chance = 1 / (1 + np.exp(1 - 2 * x - (city == "Rome")))
    return pd.DataFrame({"x": x, "city": city, "label": np.where(rng.random(n) < chance, "yes", "no")})


def test_rivals_know_the_levels_of_the_rows_they_may_learn_from(tmp_path: Path) -> None:
    frame = people(0)
    frame.loc[3, "city"], frame.loc[5, "x"], frame.loc[7, "city"] = "Oslo", None, None
    frame.to_csv(tmp_path / "t.csv", index=False)
    ready = prepare(settings(data=str(tmp_path / "t.csv"), target="label", metric="ap", holdout=0.2))
    learned = np.setdiff1d(np.arange(240), [3])
    table = raw_table(ready, learned)
    assert table.sizes == (2,)
    assert table.levels[3, 0] == table.levels[7, 0] == -1
    assert set(table.levels[learned[learned != 7], 0]) == {0, 1}
    assert np.isnan(table.numbers[5, 0])
    assert np.isfinite(np.delete(table.numbers, 5, 0)).all()
    assert np.isnan(table.native[[3, 7], 0]).all()


@pytest.mark.parametrize("name", ["lightgbm", "gradient_boosting", "logistic_regression"])
def test_a_rival_uses_levels_and_meets_new_and_missing_ones(name: str) -> None:
    """Sixty levels without an order, which numbers in one column could not tell apart."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 60, (3000, 1))
    effect = rng.normal(size=60) * 3
    y = (rng.random(3000) < 1 / (1 + np.exp(-effect[levels[:, 0]]))).astype(int)
    table = RawTable(np.zeros((3000, 1)), levels, (60,))
    model = LEARN[name](table.take(np.arange(2000)), y[:2000], 0)
    assert roc_auc_score(y[2000:], model(table.take(np.arange(2000, 3000)))[:, 1]) > 0.85
    unknown = model(RawTable(np.zeros((1, 1)), np.array([[-1]]), (60,)))
    assert np.isfinite(unknown).all()


def test_value_and_threshold_are_those_of_folds_of_all_training_rows(tmp_path: Path) -> None:
    """Against scikit-learn's own folds and logistic regression on the scaled column."""
    people(0).drop(columns="city").to_csv(tmp_path / "t.csv", index=False)
    ready = prepare(settings(data=str(tmp_path / "t.csv"), target="label", metric="auroc", holdout=0.2))
    scores, value, _ = run_rival("logistic_regression", ready)
    learned = np.sort(np.concatenate([ready.parts.train, ready.parts.validation]))
    x, y = ready.x.double().numpy()[learned], ready.ids.numpy()[learned]
    said = np.zeros(len(y))
    for train, held in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        center, scale = x[train].mean(0), x[train].std(0)
        model = LogisticRegression(max_iter=1000).fit((x[train] - center) / scale, y[train])
        said[held] = model.decision_function((x[held] - center) / scale)
    assert value == pytest.approx(roc_auc_score(y, said), abs=1e-9)
    whole = LogisticRegression(max_iter=1000).fit((x - x.mean(0)) / x.std(0), y)
    expected = whole.decision_function((ready.test[0].double().numpy() - x.mean(0)) / x.std(0))
    assert torch.allclose(scores, torch.from_numpy(expected), atol=1e-6)


def test_who_is_told_from_the_best_is_not_among_the_equal() -> None:
    test = {"best": [0.9, 0.91, 0.92], "equal": [0.91, 0.9, 0.91], "worse": [0.5, 0.51, 0.52], "none": [np.nan] * 3}
    known = {name: (name, seconds) for name, seconds in zip(test, (3.0, 2.0, 1.0, 0.5), strict=True)}
    assert [one["name"] for one in cheapest_first(test, known, 0.25)] == ["equal", "best"]


def test_three_splits_do_not_recommend_who_is_far_behind_on_each() -> None:
    """Among ten, three splits show little after an adjustment; nobody wants .65 for .99 because it is cheap."""
    level = [0.985, 0.99, 0.98]
    test = {"best": [0.99, 0.985, 0.99], "cheap": [0.55, 0.65, 0.75], **{f"level {i}": level for i in range(8)}}
    names = [row["name"] for row in cheapest_first(test, {name: (name, 1.0) for name in test}, 0.25)]
    assert "cheap" not in names
    assert len(names) == 9
