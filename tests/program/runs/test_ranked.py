"""`--query`: ranked lists through train, predict, report and compare, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import ndcg_score
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.data.settings import settings
from aimfor.errors import InputError
from aimfor.runs import driver
from aimfor.runs.ensemble import EnsembleTask
from aimfor.runs.prepared import prepare
from aimfor.targets.folds import split_lists


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def lines(count: int = 40, seed: int = 0) -> list[str]:
    """Queries of 2 to 9 rows with grades 0–2 that the column ``a`` orders."""
    rng = np.random.default_rng(seed)
    found = ["qid,a,b,city,grade"]
    for query in range(count):
        for _ in range(rng.integers(2, 10)):
            a, b = rng.normal(size=2)
            grade = int(np.clip(round(a + 0.4 * rng.normal()), 0, 2))
            found.append(f"q{query},{a:.5f},{b:.5f},{rng.choice(['Rome', 'Bern'])},{grade}")
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lists") / "search.csv"
    path.write_text("\n".join(lines()) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(table: Path) -> Path:
    out = table.parent / "run"
    words = ["--target", "grade", "--metric", "ndcg@10", "--query", "qid", "--members", "linear,trees", "--out", out]
    result = invoke("train", table, *words, "--holdout", 0.2)
    assert result.exit_code == 0, result.output + result.stderr
    assert "on test rows" in result.stderr
    return out


def test_test_queries_are_whole_and_the_metric_is_scikit_learns(table: Path, trained: Path) -> None:
    given = settings(data=str(table), target="grade", metric="ndcg@10", query="qid", holdout=0.2)
    ready = prepare(given, ensemble=True)
    assert ready.lists is not None
    sides = [set(ready.lists[rows].tolist()) for rows in (ready.parts.train, ready.parts.test)]
    assert not sides[0] & sides[1]
    assert len(sides[1]) == pytest.approx(8, abs=2)
    assert len(ready.parts.validation) == 0
    assert "qid" not in ready.source.columns

    metrics = json.loads((trained / "metrics.json").read_text())
    scored = invoke("predict", trained, table)
    assert scored.exit_code == 0, scored.output
    rows = list(csv.DictReader(io.StringIO(scored.stdout)))
    truth = list(csv.DictReader(io.StringIO(table.read_text())))
    names = {str(truth[row]["qid"]) for row in ready.parts.test}
    values = []
    for name in names:
        own = [place for place, row in enumerate(truth) if row["qid"] == name]
        grades = [int(truth[place]["grade"]) for place in own]
        if max(grades) > 0:
            values.append(ndcg_score([grades], [[float(rows[place]["score"]) for place in own]], k=10))
    assert metrics["test"]["metric"] == pytest.approx(np.mean(values), abs=1e-9)
    assert metrics["test"]["metric"] > metrics["test"]["baseline"] + 0.05
    assert metrics["test"]["queries"]["counted"] == len(values)
    assert sum(metrics["test"]["queries"]["histogram"]) == len(values)


def test_places_follow_the_scores_of_each_query(table: Path, trained: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(invoke("predict", trained, table, "--id", "city").stdout)))
    assert list(rows[0]) == ["city", "query", "score", "place"]
    for name in {row["query"] for row in rows}:
        own = sorted((row for row in rows if row["query"] == name), key=lambda row: int(row["place"]))
        assert [int(row["place"]) for row in own] == list(range(1, len(own) + 1))
        scores = [float(row["score"]) for row in own]
        assert scores == sorted(scores, reverse=True)


def test_predict_judges_new_queries_and_needs_the_query_column(tmp_path: Path, trained: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("\n".join(lines(30, seed=5)) + "\n")
    result = invoke("predict", trained, new, "--evaluate", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.stderr
    assert "ndcg@10 on" in result.stderr
    assert "MAP (grades above 0)" in result.stderr
    assert "NDCG@5" in result.stderr
    found = json.loads(invoke("predict", trained, new, "--json").stdout)
    relevant = {row["qid"] for row in csv.DictReader(new.read_text().splitlines()) if row["grade"] != "0"}
    assert (found["metric"], found["queries"], "NDCG@5" in found["beside"]) == ("ndcg@10", len(relevant), True)
    new.write_text(new.read_text().replace("qid,", "id,", 1))
    assert "--query: got 'qid'" in " ".join(invoke("predict", trained, new).stderr.split())
    new.write_text(new.read_text().replace("id,", "qid,", 1).replace("q3,", ",", 1))
    assert "without one" in invoke("predict", trained, new).stderr


def test_the_folder_holds_no_pickle_and_loads_in_python(table: Path, trained: Path) -> None:
    kinds = {path.suffix for path in trained.rglob("*") if path.is_file()}
    assert kinds == {".json", ".jsonl", ".md", ".html", ".txt", ".safetensors"}
    model = aimfor.load(trained)
    scores = model.scores(str(table))
    rows = list(csv.DictReader(io.StringIO(invoke("predict", trained, table).stdout)))
    assert scores.tolist() == [float(row["score"]) for row in rows]
    with pytest.raises(InputError, match="ranked lists"):
        model.predict(str(table))
    with pytest.raises(InputError, match="ranked lists"):
        model.predict_proba(str(table))
    card = (trained / "README.md").read_text()
    assert "tabular-ranking" in card
    assert "put the rows of one `qid` in order" in card


def test_export_refuses_a_ensemble_of_lists(trained: Path) -> None:
    result = invoke("export", trained, "--onnx")
    assert result.exit_code == 2
    assert "an ensemble of ranked lists" in result.stderr


def test_the_report_shows_queries_and_no_threshold(trained: Path) -> None:
    page = (trained / "report.html").read_text()
    assert "Query by query" in page
    assert "queries count" in page
    assert 'id="queries"' in page
    assert "NDCG@5" in page
    assert "Which columns matter" in page
    assert 'id="slider"' not in page
    importance = json.loads((trained / "metrics.json").read_text())["importance"]["columns"]
    assert importance[0]["column"] == "a"


def test_compare_sets_the_ensemble_against_lambdarank_and_pointwise(table: Path, tmp_path: Path) -> None:
    words = ["--target", "grade", "--metric", "ndcg@10", "--query", "qid", "--members", "linear", "--seeds", "2"]
    result = invoke("compare", table, *words, "--jobs", "1", "--out", tmp_path, "-q")
    assert result.exit_code == 0, result.output
    part = json.loads((tmp_path / "comparison.json").read_text())["parts"][0]
    names = [row["name"] for row in part["table"]]
    ours = ["ensemble", "ensemble/ranked_linear", "ensemble/ranked_ridge"]
    assert names[:6] == [*ours, "lambdarank", "pointwise_trees", "pointwise_linear"]
    assert all(0.5 < row["test"] <= 1.0 for row in part["table"])
    assert "Query by query" in (tmp_path / "report.html").read_text()


def test_parquet_and_a_run_that_goes_on_see_the_same_lists(table: Path, tmp_path: Path) -> None:
    from pyarrow import csv as arrow
    from pyarrow import parquet

    parquet.write_table(arrow.read_csv(table), tmp_path / "search.parquet")
    given = [
        settings(data=str(path), target="grade", metric="ndcg@10", query="qid")
        for path in (table, tmp_path / "search.parquet")
    ]
    first, second = (prepare(one, ensemble=True) for one in given)
    assert first.fingerprint == second.fingerprint
    folder, task = driver.start(given[1], tmp_path / "run")
    again = driver.reopen(folder)
    assert isinstance(task, EnsembleTask)
    assert isinstance(again, EnsembleTask)
    ready = task.prepared
    assert again.prepared.lists is not None
    assert ready.lists is not None
    assert again.prepared.lists.tolist() == ready.lists.tolist()
    assert again.prepared.parts.test.tolist() == ready.parts.test.tolist()


def test_rows_set_aside_for_testing_must_be_whole_queries() -> None:
    lists, grades = np.arange(40) // 4, (np.arange(40) % 4 == 0).astype(np.int64)
    found = split_lists(lists, grades, 0, lists >= 8, validation=True)
    assert found.test.tolist() == list(range(32, 40))
    assert not set(lists[found.train]) & set(lists[found.validation])
    with pytest.raises(InputError, match="both in training and in test"):
        split_lists(lists, grades, 0, np.arange(40) >= 38, validation=False)


def changed(text: str, how: str) -> str:
    rows = [line.split(",") for line in text.splitlines()]
    for number, row in enumerate(rows[1:]):
        if how == "one row per query":
            row[0] = f"u{number}"
        if how == "one query":
            row[0] = "only"
        if how == "all zero":
            row[4] = "0"
        if how == "words":
            row[4] = "good" if number % 2 else "bad"
        if how == "fractions":
            row[4] = "0.5" if number % 2 else "1"
        if how == "few":
            row[4] = "1" if number in (0, 30) else "0"
        if how == "no query":
            row[0] = ""
    return "\n".join(",".join(row) for row in rows) + "\n"


@pytest.mark.parametrize(
    ("how", "extra", "message"),
    [
        ("as it is", ["--query", "quid"], "Did you mean 'qid'?"),
        ("as it is", ["--query", "grade"], "which is the target"),
        ("as it is", ["--query", "qid", "--metric", "auroc"], "which is not of ranked lists"),
        ("as it is", ["--query", "qid", "--epochs", "3"], "--epochs: got the option for ranked lists"),
        ("as it is", ["--query", "qid", "--positive", "1"], "--positive: got the option for ranked lists"),
        ("one row per query", ["--query", "qid"], "one row in every query"),
        ("one query", ["--query", "qid"], "the one value 'only'"),
        ("all zero", ["--query", "qid"], "no row is relevant to its query"),
        ("words", ["--query", "qid"], "grades as whole numbers"),
        ("fractions", ["--query", "qid"], "grades as whole numbers"),
        ("few", ["--query", "qid"], "queries whose rows differ in grade"),
        ("no query", ["--query", "qid"], "a column without a single value"),
    ],
)
def test_bad_lists_are_one_sentence_and_leave_no_folder(
    table: Path, tmp_path: Path, how: str, extra: list[str], message: str
) -> None:
    data = tmp_path / "bad.csv"
    data.write_text(changed(table.read_text(), how))
    metric = [] if "--metric" in extra else ["--metric", "ndcg@10"]
    result = invoke("train", data, "--target", "grade", *metric, *extra, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()


def test_grades_count_as_relevant_under_average_precision(table: Path) -> None:
    ready = prepare(settings(data=str(table), target="grade", metric="map", query="qid"), ensemble=True)
    assert set(ready.ids.tolist()) == {0, 1}
    assert any("every grade above 0 counts as relevant" in note for note in ready.notes)
