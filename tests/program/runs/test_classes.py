"""Three classes through the program: metrics, decisions, report, and the hint where a metric knows two alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sklearn import metrics as sk
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.settings import Settings
from aimfor.runs.finished import load_run
from aimfor.runs.prepared import prepare

SHORT = ["--members", "linear", "--holdout", "0.2", "-q"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of a metric, made once."""

    @cache
    def run(metric: str) -> Path:
        out = tmp_path_factory.mktemp("classes") / "run"
        result = CliRunner().invoke(app, ["train", "iris", "--metric", metric, *SHORT, "--out", str(out)])
        assert result.exit_code == 0, result.output + result.stderr
        return out

    return run


def held_out(folder: Path) -> tuple[Any, Any]:
    """Labels and decisions of the test rows, by the way of `predict`."""
    ready = prepare(Settings(**json.loads((folder / "config.json").read_text())["settings"]), ensemble=True)
    scores = load_run(folder).scores(ready.source)[ready.parts.test]
    return ready.ids.numpy()[ready.parts.test], scores.argmax(1).numpy()


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("f1_macro", lambda y, d: sk.f1_score(y, d, average="macro")),
        ("f1_micro", lambda y, d: sk.f1_score(y, d, average="micro")),
        ("accuracy", sk.accuracy_score),
        ("balanced_accuracy", sk.balanced_accuracy_score),
    ],
)
def test_metrics_of_three_classes_are_scikit_learns(metric: str, wanted: Any, trained: Callable[[str], Path]) -> None:
    test = json.loads((trained(metric) / "metrics.json").read_text())["test"]
    truth, decided = held_out(trained(metric))
    assert test["metric"] == pytest.approx(wanted(truth, decided))
    assert test["confusion"] == sk.confusion_matrix(truth, decided).tolist()
    assert test["metric"] > test["baseline"]


@pytest.mark.usefixtures("drawn")
def test_report_of_three_classes_in_a_browser(open_page: Callable[..., Any], tmp_path: Path) -> None:
    words = ["train", "iris", "--metric", "f1_macro", *SHORT, "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, words).exit_code == 0
    truth, decided = held_out(tmp_path / "run")
    for width in (420, 1300):
        page = open_page(tmp_path / "run" / "report.html", width=width)
        shown = [
            [int(c) for c in row.locator("td").all_inner_texts()] for row in page.locator("#confusion tr").all()[1:]
        ]
        assert shown == sk.confusion_matrix(truth, decided).tolist()
        rows = [row.locator("td").all_inner_texts() for row in page.locator("#per-class tr").all()[1:]]
        assert [row[0] for row in rows] == ["setosa", "versicolor", "virginica"]
        for row, values in zip(
            rows, zip(*sk.precision_recall_fscore_support(truth, decided), strict=True), strict=True
        ):
            assert [row[3], row[4], row[5], row[1]] == [*(f"{value:.4f}" for value in values[:3]), str(values[3])]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#threshold").count() == 0
        assert page.problems == []


def test_a_metric_of_two_classes_names_what_to_do_with_three(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", "iris", "--metric", "f1", "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "--positive VALUE" in result.stderr
    assert "f1_macro" in result.stderr


def test_accuracy_with_a_positive_class_is_of_two_classes(tmp_path: Path) -> None:
    words = ["train", "iris", "--metric", "accuracy", "--positive", "setosa", *SHORT, "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, words).exit_code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["positives"] == 10
    assert "confusion" not in metrics["test"]


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy"])
def test_predictions_of_three_classes_are_evaluated(
    metric: str, trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["predict", str(trained(metric)), "iris", "--evaluate"])
    assert result.exit_code == 0, result.output + result.stderr
    assert f"{metric} on 150 labelled rows: 0." in result.stderr
