"""Rows of one group are never on both sides: of the test rows, of the rows kept aside for a floor, of a fold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.settings import Settings, settings
from aimfor.errors import InputError
from aimfor.integrations.sklearn import MetricClassifier
from aimfor.runs.ensemble import fit_prepared
from aimfor.runs.prepared import prepare
from aimfor.targets.folds import split


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty patients of four visits each; a patient's label is the same at every visit."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(60), 4)
    label = (rng.random(60) < 0.4)[patient]
    x, sex = rng.normal(size=240) + label, rng.choice(["f", "m"], 240)
    frame = {"x": x, "patient": [f"p{i}" for i in patient], "sex": sex}
    path = tmp_path_factory.mktemp("groups") / "visits.csv"
    pd.DataFrame({**frame, "label": label.astype(int)}).sample(frac=1, random_state=0).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("metric", ["ap", "recall@precision=0.5"])
def test_parts_and_folds_of_a_run_share_no_group(visits: Path, metric: str) -> None:
    more = {"members": ("linear",), "holdout": 0.2}
    given = settings(data=str(visits), target="label", metric=metric, cluster="patient", **more)
    ready = prepare(given, ensemble=True)
    whole = ready.source.whole
    assert whole is not None
    assert "rows of one 'patient' stay together in test rows and folds (60 clusters)" in ready.notes
    parts = [ready.parts.train, ready.parts.validation, ready.parts.test]
    assert sorted(np.concatenate(parts)) == list(range(240))
    groups = [set(whole[part]) for part in parts]
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
    assert [len(part) for part in parts] == ([192, 0, 48] if metric == "ap" else [96, 96, 48])
    record = fit_prepared(given, ready).out_of_fold
    assert record is not None
    folds_of = {}
    for row, fold in zip(record.rows.tolist(), record.folds.tolist(), strict=True):
        folds_of.setdefault(whole[ready.parts.train[row]], set()).add(fold)
    assert {len(found) for found in folds_of.values()} == {1}
    assert len({fold for found in folds_of.values() for fold in found}) == 3


def test_the_rivals_of_a_comparison_have_the_same_test_rows(visits: Path) -> None:
    given = settings(data=str(visits), target="label", metric="ap", cluster="patient", holdout=0.2)
    np.testing.assert_array_equal(prepare(given).parts.test, prepare(given, ensemble=True).parts.test)


def test_a_floor_is_promised_for_new_clusters_of_those_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(700), 3)
    label = rng.random(2100) < rng.beta(2, 2, 700)[patient]
    frame = {"x": rng.normal(size=2100) + 3 * label, "patient": [f"p{i}" for i in patient], "label": label.astype(int)}
    pd.DataFrame(frame).to_csv(tmp_path / "v.csv", index=False)
    words = {
        "data": str(tmp_path / "v.csv"),
        "target": "label",
        "metric": "recall@precision=0.7",
        "members": ("linear",),
    }
    said = []
    for cluster in ("patient", None):
        given = settings(**words, cluster=cluster)
        said.append(fit_prepared(given, prepare(given, ensemble=True)).threshold)
    assert [one.guaranteed for one in said] == [True, True]
    assert ["independent clusters" in one.text for one in said] == [True, False]


def test_groups_only_break_rates_down(visits: Path) -> None:
    ready = prepare(settings(data=str(visits), target="label", metric="ap", group="sex"), ensemble=True)
    assert ready.source.whole is None or len(set(ready.source.whole)) > 2  # equal rows stay together, sexes do not
    assert set(ready.source.groups) == {"f", "m"}  # type: ignore[arg-type]
    plain = prepare(settings(data=str(visits), target="label", metric="ap"), ensemble=True)
    np.testing.assert_array_equal(ready.parts.test, plain.parts.test)


def test_the_classifier_keeps_groups_whole() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([f"g{i}" for i in range(40)], 5)
    y = rng.random(200) < 0.4
    x = rng.normal(size=(200, 2)) + y[:, None]
    model = MetricClassifier("auroc", members=("linear",), random_state=0).fit(x, y, groups=groups)
    record = model.ensemble_.out_of_fold
    assert record is not None
    assert {len(set(record.folds.numpy()[groups == one])) for one in set(groups)} == {1}
    with pytest.raises(InputError, match="groups"):
        MetricClassifier("auroc", members=("linear",)).fit(x, y, groups=groups[:-1])
    with pytest.raises(InputError, match="model='ensemble'"):
        MetricClassifier("auroc", model="linear").fit(x, y, groups=groups)


def test_groups_that_cannot_be_split_are_named(visits: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = np.array([f"g{i}" for i in rng.integers(0, 30, 300)], dtype=object)
    in_one = (whole == "g3").astype(np.int64)
    with pytest.raises(InputError, match="without a class"):
        split(in_one, 0, whole=whole)
    with pytest.raises(InputError, match="given test part and outside"):
        split(rng.integers(0, 2, 300), 0, rng.random(300) < 0.3, whole=whole)
    words = ["train", str(visits), "--target", "label", "--metric", "ap", "--cluster", "pateint", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "o")])
    assert done.exit_code == 2
    assert "patient" in done.stderr
    assert not (tmp_path / "o").exists()


def test_one_cluster_for_all_rows_is_refused_in_one_line(visits: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(visits).assign(clinic="c1")
    frame.to_csv(tmp_path / "one.csv", index=False)
    words = ["train", str(tmp_path / "one.csv"), "--target", "label", "--metric", "ap", "--cluster", "clinic"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "o")])
    assert done.exit_code == 2
    assert "--cluster: got 'clinic' with one cluster for all rows, expected many clusters" in done.stderr
    assert not (tmp_path / "o").exists()


def test_groups_need_decisions_of_two_classes(visits: Path, tmp_path: Path) -> None:
    words = ["train", str(visits), "--target", "sex", "--out", str(tmp_path / "o"), "--metric"]
    done = CliRunner().invoke(app, [*words, "f1_macro", "--group", "label"])
    assert done.exit_code == 2
    assert "--group: got the option for a metric of several classes, expected a metric of two classes" in done.stderr
    done = CliRunner().invoke(app, [*words, "auroc", "--group", "patient"])
    assert "--group: got 'patient' with 60 values, expected a column with at most 50" in done.stderr
    assert "--cluster patient" in done.stderr
    assert not (tmp_path / "o").exists()


def test_settings_of_earlier_runs_are_read() -> None:
    stored = Settings.stored({"data": "t", "metric": "f1", "split_by": "town", "group": "sex", "workers": 2})
    assert (stored.cluster, stored.group, stored.jobs) == ("town", "sex", 2)
    stored = Settings.stored({"data": "t", "metric": "iou", "masks": "m", "group": "^[^/]+"})
    assert (stored.cluster, stored.group, stored.jobs) == ("^[^/]+", None, 0)
    assert Settings.stored(stored.model_dump()) == stored
