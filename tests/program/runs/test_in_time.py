"""Folds that follow time: nothing is learned from what came later, the model that stays has learned from all rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.settings import settings
from aimfor.errors import InputError
from aimfor.learners.ensemble import fit_ensemble
from aimfor.runs.prepared import prepare
from aimfor.targets.folds import make_time_folds, split
from aimfor.targets.objective import Objective


def table(path: Path, days: list[object], n: int = 300) -> str:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)).round(4)
    y = rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))
    rows = [f"{day},{a},{b},{int(hit)}" for day, (a, b), hit in zip(days, x, y, strict=True)]
    path.write_text("\n".join(["day,a,b,y", *rows]) + "\n")
    return str(path)


def dates(n: int = 300) -> list[object]:
    return [np.datetime64("2020-01-01") + place // 2 for place in range(n)]


def test_no_fold_learns_from_its_future_and_ties_stay_together() -> None:
    rng = np.random.default_rng(0)
    times = torch.from_numpy(rng.integers(0, 40, 500)).double()
    found = make_time_folds(times, torch.from_numpy(rng.integers(0, 2, 500)))
    assert len(found) == 5
    for fold, held in enumerate(found.held):
        assert float(times[found.train(fold)].max()) < float(times[held].min())
        assert len(found.train(fold)) == int((times < times[held].min()).sum())
    moments = [set(times[held].tolist()) for held in found.held]
    assert sum(map(len, moments)) == len(set.union(*moments))


def test_clusters_that_are_held_out_do_not_train_however_early() -> None:
    clusters = torch.arange(400) // 15
    found = make_time_folds(torch.arange(400).double(), (torch.arange(400) % 7 == 0).long(), clusters, folds=2)
    assert [len(rows) for rows in found.held] == [134, 133]
    for fold, held in enumerate(found.held):
        assert not set(clusters[found.train(fold)].tolist()) & set(clusters[held].tolist())


def test_the_model_that_stays_has_learned_from_all_rows_and_later_rows_choose_nothing() -> None:
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + 0.5 * torch.randn(400, generator=torch.Generator().manual_seed(1)) > 0.3).long()
    times = torch.arange(400).double()
    how = {"kinds": ("linear",), "times": times, "folds": 3}
    found = fit_ensemble(x, y, Objective.of("f1"), **how)
    assert [len(one.fitted) for one in found.weighted_members] == [1]
    record = found.out_of_fold
    assert record is not None
    assert record.judged is not None
    assert record.rows.tolist() == list(range(100, 400))
    assert record.rows[record.judged.index].tolist() == list(range(200, 400))
    later = y.clone()
    later[380:] = 1 - later[380:]
    other = fit_ensemble(x, later, Objective.of("f1"), **how).out_of_fold
    assert other is not None
    assert other.judged is not None
    decided, again = ((one.judged.scores > one.judged.thresholds)[:100] for one in (record, other))
    assert torch.equal(decided, again)
    assert 10 < int(decided.sum()) < 90


def test_the_latest_rows_test_and_those_before_them_are_kept_aside() -> None:
    times = np.random.default_rng(0).permutation(200).astype(float)
    ids = np.random.default_rng(1).integers(0, 2, 200)
    found = split(ids, 0, holdout=0.25, aside=0.15, times=times)
    assert [len(part) for part in (found.train, found.validation, found.test)] == [120, 30, 50]
    assert times[found.train].max() < times[found.validation].min() <= times[found.validation].max()
    assert times[found.validation].max() < times[found.test].min()


def test_a_run_in_time_says_so_and_predicts_without_the_column(tmp_path: Path) -> None:
    data = table(tmp_path / "t.csv", [*dates()[:-4], None, None, "2999-01-01", "2999-01-01"])
    words = ["train", data, "--target", "y", "--metric", "auroc", "--members", "linear", "--time", "day"]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run"), "-q"]).exit_code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    notes = " ".join(metrics["notes"])
    assert "by 'day', which is no feature" in notes
    assert "2 rows without a time were left out" in notes
    assert "2 rows have a 'day' that is yet to come" in notes
    assert "judged on folds in time: linear alone has auroc" in notes
    assert metrics["rows"]["train"] == 298
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    result = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(tmp_path / "new.csv")])
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("days", "message"),
    [
        (["2020-01-01"] * 300, "one moment for all rows"),
        ([["soon", "later", "never"][place % 3] for place in range(300)], "numbers or dates"),
    ],
)
def test_a_column_that_orders_nothing_is_refused(days: list[object], message: str, tmp_path: Path) -> None:
    given = settings(data=table(tmp_path / "t.csv", days), target="y", metric="auroc", time="day")
    with pytest.raises(InputError, match=message):
        prepare(given, ensemble=True)


def test_a_time_that_is_no_column_is_refused_with_the_nearest(tmp_path: Path) -> None:
    given = settings(data=table(tmp_path / "t.csv", dates()), target="y", metric="auroc", time="dya")
    with pytest.raises(InputError, match="Did you mean 'day'"):
        prepare(given, ensemble=True)
