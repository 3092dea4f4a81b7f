"""Prediction: one score for one row, rows named by an id, known labels judged, odd rows named with their number."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, precision_score, roc_auc_score
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.errors import InputError, OddRowsWarning


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def frame(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    zips = rng.choice(["02139", "10001", "A7", "True", "1.50", "2020-01-01"], n)
    came = x + 2 * (when > pd.Timestamp("2021-01-01")) + (zips == "02139") + 0.5 * rng.normal(size=n) > 1.5
    return pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(n)],
            "x": x,
            "when": when.strftime("%d/%m/%Y"),
            "zip": zips,
            "flag": rng.random(n) < 0.5,
            "came": came,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("visits")
    frame().to_csv(folder / "visits.csv", index=False)
    words = ["--positive", "true", "--members", "linear", "--out", folder / "run", "-q"]
    result = invoke("train", folder / "visits.csv", "--target", "came", "--metric", "auroc", *words)
    assert result.exit_code == 0, result.output
    return folder


def scores(result: Any) -> list[str]:
    assert result.exit_code == 0, result.output
    return [row["score"] for row in csv.DictReader(io.StringIO(result.stdout))]


def test_one_row_has_one_score_in_every_file_of_every_size(folder: Path, tmp_path: Path) -> None:
    whole = frame()
    wanted = scores(invoke("predict", folder / "run", folder / "visits.csv"))
    typed = whole.assign(when=pd.to_datetime(whole["when"], format="%d/%m/%Y"))
    for level in whole["zip"].unique():  # each in a file of its own, where types would be found differently
        rows = np.flatnonzero(whole["zip"] == level)[:5]
        whole.iloc[rows].to_csv(tmp_path / "few.csv", index=False)
        whole.iloc[rows[::-1]].to_csv(tmp_path / "few.csv.gz", index=False)
        typed.iloc[rows].to_parquet(tmp_path / "few.parquet")
        whole.iloc[rows].to_feather(tmp_path / "few.arrow")
        expected = [wanted[i] for i in rows]
        assert scores(invoke("predict", folder / "run", tmp_path / "few.csv")) == expected
        assert scores(invoke("predict", folder / "run", tmp_path / "few.csv.gz")) == expected[::-1]
        assert scores(invoke("predict", folder / "run", tmp_path / "few.parquet")) == expected
        assert scores(invoke("predict", folder / "run", tmp_path / "few.arrow")) == expected
        model = aimfor.load(folder / "run")
        assert [repr(float(one)) for one in model.scores(pd.read_csv(tmp_path / "few.csv"))] == expected
        assert [repr(float(model.scores(typed.iloc[[i]])[0])) for i in rows] == expected


def test_a_loaded_run_predicts_as_the_command_does(folder: Path) -> None:
    model = aimfor.load(str(folder / "run"))
    rows = list(csv.DictReader(io.StringIO(invoke("predict", folder / "run", folder / "visits.csv").stdout)))
    assert model.classes == ["False", "True"]
    assert model.metric == "auroc"
    assert model.predict(frame()).tolist() == [row["decision"] for row in rows]
    chances = model.predict_proba(frame().drop(columns="came"))
    np.testing.assert_allclose(chances[:, 1], [float(row["probability"]) for row in rows], rtol=1e-5)
    np.testing.assert_allclose(chances.sum(1), 1)
    assert "metric='auroc'" in repr(model)
    np.testing.assert_array_equal(model.scores(folder / "visits.csv"), model.scores(frame()))
    with pytest.raises(InputError, match="path of a run folder"):
        aimfor.load(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="without the column 'when'"):
        model.predict(frame().drop(columns="when"))
    with pytest.raises(InputError, match="expected a data frame"):
        model.predict(None)


def test_rows_are_named_by_the_id_column(folder: Path) -> None:
    result = invoke("predict", folder / "run", folder / "visits.csv", "--id", "customer")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["customer"] for row in rows[:2]] == ["c000", "c001"]
    refused = invoke("predict", folder / "run", folder / "visits.csv", "--id", "custmer")
    assert refused.exit_code == 2
    assert "Did you mean 'customer'?" in refused.stderr


def test_labels_that_are_there_are_judged_as_scikit_learn_judges(folder: Path, tmp_path: Path) -> None:
    known = frame()
    known["came"] = known["came"].map({True: "TRUE", False: "false"})  # spelled otherwise than in training
    known.loc[5:9, "came"] = ""
    known.to_csv(tmp_path / "new.csv", index=False)
    result = invoke("predict", folder / "run", tmp_path / "new.csv", "--evaluate")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    keep = known["came"] != ""
    truth = (known["came"] == "TRUE")[keep].to_numpy()
    value = np.array([float(row["score"]) for row in rows])[keep.to_numpy()]
    decided = np.array([row["decision"] == "True" for row in rows])[keep.to_numpy()]
    assert f"auroc on 295 labelled rows: {roc_auc_score(truth, value):.4f}" in result.stderr
    assert f"precision {precision_score(truth, decided):.4f}" in result.stderr
    assert f"F1 {f1_score(truth, decided):.4f}" in result.stderr
    words = ["predict", folder / "run", tmp_path / "new.csv", "--json"]
    told, kept = invoke(*words), invoke(*words, "--out", tmp_path / "out.csv")
    found = json.loads(told.stdout)
    assert found == json.loads(kept.stdout)
    assert (found["metric"], found["rows"], found["value"]) == (
        "auroc",
        295,
        pytest.approx(roc_auc_score(truth, value)),
    )
    assert found["rates"]["F1"] == pytest.approx(f1_score(truth, decided))
    assert (tmp_path / "out.csv").read_text() == result.stdout
    known.drop(columns="came").to_csv(tmp_path / "bare.csv", index=False)
    refused = invoke("predict", folder / "run", tmp_path / "bare.csv", "--evaluate")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "without the target 'came'" in refused.stderr
    known.assign(came="perhaps").to_csv(tmp_path / "odd.csv", index=False)
    refused = invoke("predict", folder / "run", tmp_path / "odd.csv", "--evaluate")
    assert "the label 'perhaps'" in refused.stderr


def test_odd_rows_are_counted_and_named(folder: Path, tmp_path: Path) -> None:
    odd = frame(6)
    odd.loc[:2, "zip"] = "99999"
    odd.loc[4, "x"] = 1e9
    odd.loc[5, "when"] = "01/01/2090"
    odd.to_csv(tmp_path / "odd.csv", index=False)
    result = invoke("predict", folder / "run", tmp_path / "odd.csv")
    assert result.exit_code == 0
    assert "warning: column 'zip': 3 of 6 rows hold a level not seen in training (such as '99999')" in result.stderr
    assert "column 'x': 1 of 6 rows are far outside" in result.stderr
    assert "column 'when': 1 of 6 rows are far from the training dates (such as '2090-01-01" in result.stderr
    with pytest.warns(OddRowsWarning) as caught:
        aimfor.load(folder / "run").predict(odd)
    assert sorted(str(one.message).split("'")[1] for one in caught) == ["when", "x", "zip"]
    assert "warning" not in invoke("predict", folder / "run", folder / "visits.csv").stderr


def test_a_word_among_learned_numbers_is_refused_with_the_column(folder: Path, tmp_path: Path) -> None:
    frame(3).assign(x=["1", "many", "2"]).to_csv(tmp_path / "bad.csv", index=False)
    refused = invoke("predict", folder / "run", tmp_path / "bad.csv")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "text ('many') in the column 'x'" in refused.stderr


def test_a_run_of_an_older_version_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    old = shutil.copytree(folder / "run", tmp_path / "old")
    config = json.loads((old / "config.json").read_text())
    config["encoder"] = {"kind": "table", "notes": [], "columns": [{"name": "x", "fill": 0, "mean": 0, "scale": 1}]}
    (old / "config.json").write_text(json.dumps(config))
    refused = invoke("predict", old, folder / "visits.csv")
    assert refused.exit_code == 2
    assert "Train it again" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["masks", "labels"])
@pytest.mark.parametrize("option", [["--evaluate"], ["--json"], ["--id", "name"]])
def test_options_that_mean_nothing_for_a_run_are_refused(tmp_path: Path, kind: str, option: list[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"kind": kind}))
    result = CliRunner().invoke(app, ["predict", str(tmp_path), "photos", "--out", str(tmp_path / "out"), *option])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert option[0] in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t.csv", "--members", "features_linear"], "linear, trees, network"),
        (["photos", "--members", "tree", "--model", "efficientnet-lite0"], "linear, head, trees, network"),
    ],
)
def test_members_are_named_as_the_user_knows_them(words: list[str], expected: str) -> None:
    result = CliRunner().invoke(app, ["train", *words, "--metric", "ap"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"'{words[2]}'" in result.stderr
    assert expected in result.stderr


@pytest.mark.filterwarnings("error")
def test_labels_of_one_class_leave_the_metric_undefined_in_words(folder: Path, tmp_path: Path) -> None:
    frame().query("not came").head(1).to_csv(tmp_path / "one.csv", index=False)
    result = invoke("predict", folder / "run", tmp_path / "one.csv", "--evaluate")
    assert result.exit_code == 0, result.output
    assert "auroc on 1 labelled rows: undefined" in result.stderr
    assert "nan" not in result.stderr
    assert json.loads(invoke("predict", folder / "run", tmp_path / "one.csv", "--json").stdout)["value"] is None


def test_the_path_of_the_report_is_whole_on_a_narrow_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame(120).to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / ("a-long-name-" * 6) / "run"
    monkeypatch.setenv("COLUMNS", "60")
    words = ["--members", "linear", "--out", out]
    result = invoke("train", tmp_path / "t.csv", "--target", "came", "--metric", "auroc", *words)
    assert result.exit_code == 0, result.output
    shown = "".join(line.split()[-1] if line.split() else "" for line in result.output.splitlines())
    assert str(out / "report.html") in shown
