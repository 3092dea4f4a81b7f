"""Training end to end: folder contents, prediction, own models, images, classes, export, and Ctrl-C."""

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

from aimfor.app.cli.main import app
from aimfor.app.run import training
from aimfor.app.run.finished import load_run
from aimfor.app.run.folder import prepare
from aimfor.fitting import fit as loop
from aimfor.fitting import last_layer
from aimfor.fitting.config import Settings, find_recipe, recipes, settings
from aimfor.fitting.fit import Fit, Interrupted
from aimfor.fitting.models import build, scores_of
from aimfor.fitting.objective import Objective
from aimfor.refit import HeadFitter


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
    run("train", table, "--target", "label", "--metric", "f1", "--epochs", 6, "--out", out, "-q")
    return out


def test_run_folder_has_everything_and_nothing_pickled(trained: Path) -> None:
    names = {path.name for path in trained.iterdir()} - {"checkpoint.safetensors"}
    wanted = {
        "model.safetensors",
        "config.json",
        "threshold.json",
        "metrics.json",
        "log.jsonl",
        "README.md",
        "report.html",
    }
    assert names == wanted
    log = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    metrics = json.loads((trained / "metrics.json").read_text())
    assert log == metrics["history"]
    assert {event["title"] for event in log} >= {"cross-entropy", "cross-entropy (balanced)"}
    assert {event["title"] for event in log} >= {"metric", "head"}
    rivals = [event["validation"] for event in log if event["title"].startswith("cross-entropy")]
    assert max(rivals) <= metrics["validation"] <= max(event["validation"] for event in log)


def test_stated_test_metric_is_scikit_learns(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    metrics = json.loads((trained / "metrics.json").read_text())
    ready = prepare(Settings(**config["settings"]))
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


def test_exported_network_gives_the_same_scores_for_any_number_of_rows(trained: Path, tmp_path: Path) -> None:
    path = run("export", trained, "--out", tmp_path / "net.pt2").stdout.strip()
    done = load_run(trained)
    x = torch.randn(5, *done.encoder.shape)
    program = torch.export.load(path).module()
    torch.testing.assert_close(program(x), done.model(x))


def test_default_recipe_never_loses_to_the_rivals_on_validation(table: Path) -> None:
    ready = prepare(settings(data=str(table), target="label", metric="auroc", epochs=4))
    fit = Fit(ready.task, ready.settings, find_recipe("auto")).run()
    rivals = [event["validation"] for event in fit.state.history if event["title"].startswith("cross-entropy")]
    assert fit.state.best["value"] >= max(rivals)


@pytest.mark.parametrize("metric", ["auroc", "f1"])
@pytest.mark.parametrize(("share", "stages"), [(0.94, 2), (0.95, 4)])
def test_a_stage_that_has_to_convince_gives_back_what_it_only_won_by_luck(
    table: Path, monkeypatch: pytest.MonkeyPatch, metric: str, share: float, stages: int
) -> None:
    """Without conviction the default is its first two stages, with it the best of all four by value alone."""
    monkeypatch.setattr(last_layer, "HeadFitter", HeadFitter)  # with one penalty it wins nothing to be given back
    given = settings(data=str(table), target="label", metric=metric, epochs=4, seed=3)
    ready, auto = prepare(given), find_recipe("auto")
    plain = auto.model_copy(
        update={"stages": tuple(stage.model_copy(update={"convincing": False}) for stage in auto.stages[:stages])}
    )
    expected = Fit(ready.task, ready.settings, plain).run()
    asked: list[tuple[float, float]] = []

    def answer(value: Any, ours: torch.Tensor, theirs: torch.Tensor, labels: torch.Tensor) -> float:
        every = torch.arange(len(labels))
        asked.append((value(ours, every), value(theirs, every)))
        return share

    monkeypatch.setattr(loop, "share_won", answer)
    fit = Fit(ready.task, ready.settings, auto).run()
    assert fit.state.best == expected.state.best
    assert all(torch.equal(fit.best[name], value) for name, value in expected.best.items())
    assert asked
    assert all(ours >= theirs for ours, theirs in asked)  # each at its own threshold
    assert asked[0][1] == pytest.approx(max(e["validation"] for e in fit.state.history if "cross" in e["title"]))
    assert any("not clearly" in note for note in fit.state.notes) == (stages == 2)


@pytest.mark.parametrize("name", sorted(recipes()))
def test_every_recipe_runs(table: Path, name: str) -> None:
    ready = prepare(settings(data=str(table), target="label", metric="f1", epochs=1, model="linear"))
    fit = Fit(ready.task, ready.settings, find_recipe(name)).run()
    assert 0 <= fit.state.best["value"] <= 1


@pytest.mark.parametrize("metric", ["AUROC", "F1", "roc_auc", "average_precision"])
def test_metrics_are_known_however_they_are_spelled(table: Path, tmp_path: Path, metric: str) -> None:
    words = ["--epochs", 1, "--model", "linear", "--recipe", "cross_entropy", "--out", tmp_path / "run", "-q"]
    run("train", table, "--target", "label", "--metric", metric, *words)
    assert len(run("predict", tmp_path / "run", table).stdout.splitlines()) == 301


def test_columns_are_what_the_user_says(table: Path, tmp_path: Path) -> None:
    words = ["--epochs", 1, "--model", "linear", "--recipe", "cross_entropy", "--out", tmp_path / "run"]
    wishes = ["--column", "a=ignore", "--column", "b=category"]
    result = run("train", table, "--target", "label", "--metric", "auroc", *wishes, *words)
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


def test_own_recipe_file_and_own_model(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('[mine]\nstages = [{ loss = "focal", epochs = 0.5 }]\n')
    (tmp_path / "my_models.py").write_text(
        "import torch\ndef net(shape, outputs):\n    return torch.nn.Linear(shape[0], outputs)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["--recipe", "mine.toml", "--model", "my_models:net", "--epochs", "2", "-q", "--out", "out"]
    run("train", table, "--target", "label", "--metric", "auroc", *words)
    assert json.loads(Path("out/metrics.json").read_text())["parameters"] == 6


def test_classes_and_multi_class_metric(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("train", "iris", "--metric", "auroc_ovr", "--epochs", 15, "--recipe", "cross_entropy", "--out", out, "-q")
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
    run("train", tmp_path / "set", "--metric", "auroc", "--epochs", 2, "--out", tmp_path / "run", "-q")
    rows = list(csv.DictReader(io.StringIO(run("predict", tmp_path / "run", tmp_path / "set").stdout)))
    assert len(rows) == 36
    assert rows[0]["row"] == os.path.join("dark", "0.png")


def test_ctrl_c_saves_and_the_run_can_go_on(table: Path, tmp_path: Path) -> None:
    given = settings(data=str(table), target="label", metric="auroc", epochs=3)
    plan = find_recipe("cross_entropy")
    folder, ready = training.start(given, plan, tmp_path / "run")
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        training.finish(folder, ready, plan, lambda event: os.kill(os.getpid(), signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is before
    assert (folder / "checkpoint.safetensors").exists()
    assert not (folder / "metrics.json").exists()
    ready, plan = training.reopen(folder)
    metrics = training.finish(folder, ready, plan)
    assert len(metrics["history"]) == 3


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
    code = "import sys, aimfor.app.cli.main; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(Path(training.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
