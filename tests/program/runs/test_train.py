"""Training end to end: folder contents, prediction, images, classes, and Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.settings import Settings, settings
from aimfor.errors import Interrupted
from aimfor.learners.networks.models import build, scores_of
from aimfor.runs import driver
from aimfor.runs.finished import load_run
from aimfor.runs.prepared import prepare
from aimfor.targets.objective import Objective


def run(*words: object) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + result.stderr
    return result


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=(300, 2)), rng.choice(["Rome", "Bern"], 300)
    chance = 1 / (1 + np.exp(1.5 - 2 * x[:, 0] - (city == "Rome")))
    labels = np.where(rng.random(300) < chance, "yes", "no")
    path = tmp_path_factory.mktemp("table") / "people.csv"
    rows = [f"{a},{b},{c},{d}" for (a, b), c, d in zip(x, city, labels, strict=True)]
    path.write_text("\n".join(["a,b,city,label", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(table: Path) -> Path:
    out = table.parent / "run"
    run(
        "train",
        table,
        "--target",
        "label",
        "--metric",
        "f1",
        "--members",
        "linear",
        "--holdout",
        0.2,
        "--out",
        out,
        "-q",
    )
    return out


def test_run_folder_has_everything_and_nothing_pickled(trained: Path) -> None:
    wanted = {"members", "committee.json", "config.json", "files.json", "threshold.json", "metrics.json"}
    assert {path.name for path in trained.iterdir()} == wanted | {"log.jsonl", "README.md", "report.html"}
    assert {path.suffix for path in (trained / "members").iterdir()} == {".safetensors"}


def test_stated_test_metric_is_scikit_learns(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    metrics = json.loads((trained / "metrics.json").read_text())
    ready = prepare(Settings(**config["settings"]), ensemble=True)
    done = load_run(trained)
    scores = done.scores(ready.source).double().numpy()[ready.parts.test]
    truth = ready.ids.numpy()[ready.parts.test]
    assert metrics["test"]["metric"] == pytest.approx(f1_score(truth, scores > done.threshold))
    assert set(ready.parts.test) & set(ready.parts.train) == set()


def test_predict_gives_scores_probabilities_and_decisions_at_the_stored_threshold(table: Path, trained: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("predict", trained, table).stdout)))
    threshold = json.loads((trained / "threshold.json").read_text())["threshold"]
    assert len(rows) == 300
    assert {row["decision"] for row in rows} == {"yes", "no"}
    for row in rows:
        assert (row["decision"] == "yes") == (float(row["score"]) > threshold)
        assert 0 <= float(row["probability"]) <= 1
    truth = [line.rsplit(",", 1)[1] == "yes" for line in table.read_text().splitlines()[1:]]
    assert roc_auc_score(truth, [float(row["score"]) for row in rows]) > 0.8
    out = trained.parent / "decisions.csv"
    run("predict", trained, table, "--out", out)
    assert len(out.read_text().splitlines()) == 301


def test_predict_refuses_a_table_without_a_column(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a,b,town\n1,2,Rome\n")
    result = CliRunner().invoke(app, ["predict", str(trained), str(tmp_path / "new.csv")])
    assert result.exit_code == 2
    assert "without the column 'city'" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("metric", ["AUROC", "F1", "roc_auc", "average_precision"])
def test_metrics_are_known_however_they_are_spelled(table: Path, tmp_path: Path, metric: str) -> None:
    words = ["--members", "linear", "--out", tmp_path / "run", "-q"]
    run("train", table, "--target", "label", "--metric", metric, *words)
    assert len(run("predict", tmp_path / "run", table).stdout.splitlines()) == 301


def test_columns_are_what_the_user_says(table: Path, tmp_path: Path) -> None:
    words = ["--members", "linear", "--out", tmp_path / "run"]
    requested = ["--column", "a=ignore", "--column", "b=category"]
    result = run("train", table, "--target", "label", "--metric", "auroc", *requested, *words)
    assert "column 'a' left out: as asked" in result.stderr
    stored = json.loads((tmp_path / "run" / "config.json").read_text())["encoder"]["columns"]
    assert {one["name"]: one["kind"] for one in stored} == {"b": "category", "city": "category"}
    for wish, line in (("a", "NAME=KIND"), ("nowhere=number", "a column of the table"), ("a=letters", "one of number")):
        refused = CliRunner().invoke(
            app, ["train", str(table), "--target", "label", "--metric", "auroc", "--column", wish]
        )
        assert refused.exit_code == 2
        assert line in refused.stderr


def test_a_score_does_not_depend_on_the_other_rows_and_wild_values_are_held() -> None:
    torch.manual_seed(0)
    for name in ("mlp", "linear"):
        model = build(name, (40,), 1)
        x = torch.randn(700, 40)
        together = scores_of(model, x, 1)
        for rows in (slice(0, 1), slice(3, 10), slice(699, 700), slice(255, 258)):
            assert torch.equal(scores_of(model, x[rows], 1), together[rows])
        torch.testing.assert_close(together, model.eval()(x).detach().reshape(-1))
        wild = x.clone()
        wild[0, 0], wild[1, 0] = 10.0, 1e30
        wild[1, 1:] = wild[0, 1:]
        found = scores_of(model, wild, 1)
        assert found[0] == found[1]


@pytest.mark.parametrize("model", ["mlp", "my_models:net"])
def test_networks_of_ones_own_are_for_a_loop_of_ones_own(model: str, table: Path) -> None:
    result = CliRunner().invoke(app, ["train", str(table), "--target", "label", "--metric", "f1", "--model", model])
    assert result.exit_code == 2
    assert f"--model: got '{model}', expected efficientnet-lite0 or timm/NAME" in result.stderr
    assert "aimfor.MetricLoss" in result.stderr


@pytest.mark.parametrize("words", [["--seed", "1"], ["digits"], ["--fast"]])
def test_a_run_goes_on_as_it_was_begun(words: list[str], trained: Path) -> None:
    result = CliRunner().invoke(app, ["train", *words, "--resume", str(trained)])
    assert result.exit_code == 2
    assert "the option beside --resume" in result.stderr


def test_one_network_of_an_earlier_version_is_one_line(trained: Path, tmp_path: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "recipe": {"name": "auto"}, "aimfor": "0.1.0"}))
    for words in (["predict", tmp_path, "digits"], ["train", "--resume", tmp_path]):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 2
        assert "one network by aimfor 0.1.0" in result.stderr


def test_classes_and_multi_class_metric(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("train", "iris", "--metric", "auroc_ovr", "--members", "linear", "--out", out, "-q")
    rows = list(csv.DictReader(io.StringIO(run("predict", out, "iris").stdout)))
    assert {row["decision"] for row in rows} == {"setosa", "versicolor", "virginica"}
    assert (out / "report.html").exists()


def test_image_folder_with_no_option_but_the_metric(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, level, count in (("dark", 60, 24), ("light", 180, 12)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(count):
            pixels = np.clip(rng.normal(level, 40, (10, 10, 3)), 0, 255).astype(np.uint8)
            image.fromarray(pixels).save(tmp_path / "set" / name / f"{i}.png")
    run("train", tmp_path / "set", "--metric", "auroc", "--out", tmp_path / "run", "-q")
    rows = list(csv.DictReader(io.StringIO(run("predict", tmp_path / "run", tmp_path / "set").stdout)))
    assert len(rows) == 36
    assert rows[0]["row"] == os.path.join("dark", "0.png")


def test_ctrl_c_saves_and_the_run_can_go_on(table: Path, tmp_path: Path) -> None:
    given = settings(data=str(table), target="label", metric="auroc", members=("linear",))
    folder, ready = driver.start(given, tmp_path / "run")
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        driver.finish(folder, ready, lambda event: os.kill(os.getpid(), signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is before
    assert list((folder / "cells").iterdir())
    assert not (folder / "metrics.json").exists()
    again = driver.finish(folder, driver.reopen(folder))
    whole = driver.finish(*driver.start(given, tmp_path / "whole"))
    assert repr(again.test) == repr(whole.test)  # NaN is not itself


def test_tuned_threshold_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, y = rng.normal(size=40).round(1), rng.random(40) < 0.3
        y[:2] = [True, False]
        threshold, value = Objective.of("f1").tuned(torch.from_numpy(scores), torch.from_numpy(y))
        best = max(f1_score(y, scores > t, zero_division=0.0) for t in np.append(np.unique(scores) - 0.05, 9))
        assert value == pytest.approx(best)
        assert f1_score(y, scores > threshold) == pytest.approx(best)


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, aimfor.cli.main; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(Path(driver.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
