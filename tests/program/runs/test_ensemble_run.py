"""`aimfor train` on a table: an ensemble, its folder, prediction elsewhere, and stops that lose nothing finished."""

from __future__ import annotations

import csv
import io
import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, log_loss
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.settings import Settings, settings
from aimfor.errors import InputError, Interrupted
from aimfor.failpoints import VARIABLE
from aimfor.learners.ensemble import MemoryStore, fit_ensemble
from aimfor.learners.ensemble.members import Job
from aimfor.learners.ensemble.members.linear import Linear
from aimfor.runs import driver
from aimfor.runs.ensemble import fit_prepared
from aimfor.runs.finished import load_ensemble, load_run
from aimfor.runs.prepared import prepare
from aimfor.targets import folds
from aimfor.targets.folds import make_folds
from aimfor.targets.objective import Objective
from programs import Program, finished


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=(240, 2)), rng.choice(["Rome", "Bern"], 240)
    chance = 1 / (1 + np.exp(1.5 - 2 * x[:, 0] - (city == "Rome")))
    labels = np.where(rng.random(240) < chance, "yes", "no")
    path = tmp_path_factory.mktemp("table") / "people.csv"
    rows = [f"{a},{b},{c},{d}" for (a, b), c, d in zip(x, city, labels, strict=True)]
    path.write_text("\n".join(["a,b,city,label", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(table: Path) -> Path:
    out = table.parent / "run"
    words = ["train", table, "--target", "label", "--metric", "f1", "--members", "linear,trees", "--out", out, "-q"]
    result = invoke(*words)
    assert result.exit_code == 0, result.output + result.stderr
    assert "members" in result.stderr
    return out


def test_a_member_that_fails_is_named_in_terminal_and_report_and_all_that_fail_end_in_one_line(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Linear, job: Job) -> None:
        raise ArithmeticError("the matrix is singular")

    monkeypatch.setattr(Linear, "fit", fails)
    line = "linear left out: it failed in fold 1: ArithmeticError: the matrix is singular"
    words = ["train", table, "--target", "label", "--metric", "f1", "--members"]
    done = invoke(*words, "linear,trees", "--out", tmp_path / "one")
    assert done.exit_code == 0
    assert f"note: {line}" in done.stderr
    assert line in (tmp_path / "one" / "report.html").read_text()
    done = invoke(*words, "linear", "--out", tmp_path / "none")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"aimfor: --members: got none that learned: {line}, expected")
    assert not (tmp_path / "none" / "report.html").exists()


def test_the_folder_is_text_and_tensors_and_keeps_no_cells(trained: Path) -> None:
    names = {path.name for path in trained.iterdir()}
    assert names == {
        "members", "committee.json", "config.json", "files.json", "threshold.json", "metrics.json", "log.jsonl",
        "README.md", "report.html",
    }  # fmt: skip
    assert {path.suffix for path in (trained / "members").iterdir()} <= {".txt", ".safetensors"}
    metrics = json.loads((trained / "metrics.json").read_text())
    assert sum(one["weight"] for one in metrics["ensemble"]["members"]) == pytest.approx(1.0)
    assert metrics["rows"] == {"train": 240, "validation": 0, "test": 0}
    assert "Members of the ensemble" in (trained / "report.html").read_text()
    log = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    assert [one["done"] for one in log] == list(range(1, 10))  # three folds of three members
    assert log[-1]["left"] == 0


def test_stated_numbers_are_those_of_the_saved_ensemble(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    metrics = json.loads((trained / "metrics.json").read_text())
    ready = prepare(Settings(**config["settings"]), ensemble=True)
    assert len(ready.parts.train) == 240
    assert metrics["part"] == "held-out rows"
    fitted = fit_prepared(ready.settings, ready)
    found = fitted.out_of_fold.judged
    assert found is not None
    decided = (found.scores > found.thresholds).numpy()
    assert metrics["test"]["metric"] == pytest.approx(f1_score(ready.ids.numpy(), decided))
    assert metrics["expected"]["metric"] == pytest.approx(metrics["test"]["metric"], abs=1e-12)
    low, high = metrics["expected"]["interval"]
    assert low < metrics["expected"]["metric"] < high
    rows = torch.tensor([3, 77])  # as importance scores them: by the models that left them out
    folds = fitted.out_of_fold.folds[rows]
    alone = fitted.scores_out_of_fold(ready.x[rows], folds)
    torch.testing.assert_close(alone, fitted.out_of_fold.scores[rows], rtol=0, atol=1e-9)


@pytest.mark.parametrize("way", ["--holdout", "--test"])
def test_test_rows_on_request_take_no_part_in_anything(way: str, table: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *lines[1:61]]) + "\n")
    value = "0.25" if way == "--holdout" else tmp_path / "new.csv"
    words = ["--target", "label", "--metric", "f1", "--members", "linear", "--out", tmp_path / "run", "-q"]
    assert invoke("train", table, *words, way, value).exit_code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["part"] == "test rows"
    ready = prepare(Settings(**json.loads((tmp_path / "run" / "config.json").read_text())["settings"]), ensemble=True)
    assert len(ready.parts.test) == 60
    assert set(ready.parts.test).isdisjoint(ready.parts.train)
    done = load_run(tmp_path / "run")
    scores, truth = done.scores(ready.source).numpy()[ready.parts.test], ready.ids.numpy()[ready.parts.test]
    assert metrics["test"]["metric"] == pytest.approx(f1_score(truth, scores > done.threshold))
    assert metrics["expected"]["metric"] != metrics["test"]["metric"]
    if way == "--test":
        np.testing.assert_array_equal(ready.parts.test, np.arange(240, 300))


@pytest.mark.parametrize(
    ("rows", "message"),
    [("a,city,label\n1,Rome,yes\n", "without the column 'b'"), ("a,b,city\n1,2,Rome\n", "'label'"), ("", "no file")],
)
def test_a_test_file_that_cannot_test_is_refused(rows: str, message: str, table: Path, tmp_path: Path) -> None:
    if rows:
        (tmp_path / "new.csv").write_text(rows)
    words = ["--target", "label", "--metric", "f1", "--test", tmp_path / "new.csv", "--out", tmp_path / "run"]
    result = invoke("train", table, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_new_process_predicts_the_same(table: Path, trained: Path) -> None:
    here = invoke("predict", trained, table).stdout
    assert here == finished("predict", trained, table).stdout
    rows = list(csv.DictReader(io.StringIO(here)))
    threshold = json.loads((trained / "threshold.json").read_text())["threshold"]
    for row in rows:
        assert (row["decision"] == "yes") == (float(row["score"]) > threshold)
        odds = 1 / (1 + np.exp(-float(row["score"])))
        assert float(row["probability"]) == pytest.approx(odds, rel=1e-4)


def test_damaged_members_are_named(trained: Path, tmp_path: Path) -> None:
    import shutil

    for file, text in (("linear-0.safetensors", "damaged"), ("extra_trees-0.txt", "missing or damaged")):
        copy = tmp_path / file
        shutil.copytree(trained, copy)
        path = copy / "members" / file
        if path.exists():  # a member without weight has no file
            path.write_bytes(path.read_bytes()[:-7])
            with pytest.raises(InputError, match=text):
                load_ensemble(copy)
    line = invoke("export", trained)
    assert line.exit_code == 2
    assert "Add --onnx" in line.stderr


def test_sigkill_between_cells_and_resume_end_bit_for_bit_alike(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds, "SMALL_FOLDS", 2)
    options = [str(table), "--target", "label", "--metric", "auroc", "--members", "linear,network", "-q"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    point = {VARIABLE: "wrote cells/network-*=SIGKILL"}
    program = Program("train", *options, "--out", killed, folds=2, environment=point)
    assert program.wait() == -signal.SIGKILL
    assert not (killed / "metrics.json").exists()
    assert len(list(killed.glob("cells/*.safetensors"))) == 3
    assert invoke("train", *options, "--out", whole).exit_code == 0
    finished("train", "--resume", killed, folds=2)
    assert (killed / "threshold.json").read_bytes() == (whole / "threshold.json").read_bytes()
    first, second = load_ensemble(whole), load_ensemble(killed)
    x = torch.randn(50, load_run(whole).encoder.shape[0])
    assert torch.equal(first.scores(x), second.scores(x))
    assert [seat.share for seat in first.weighted_members] == [seat.share for seat in second.weighted_members]


def test_a_stop_keeps_finished_cells_and_ends_with_the_step(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(data=str(table), target="label", metric="auroc")
    folder, ready = driver.start(given, tmp_path / "run")
    members: list[str] = []
    monkeypatch.setenv(VARIABLE, "wrote cells/network-*=SIGTERM")
    with pytest.raises(Interrupted):
        driver.finish(folder, ready, lambda progress: members.append(progress.doing))
    assert sum("network" in one for one in members) <= 1
    assert len(list((folder / "cells").iterdir())) == 10  # nine of linear and trees, one of the network
    assert not (folder / "metrics.json").exists()


def test_a_floor_is_tested_on_rows_kept_aside(table: Path, tmp_path: Path) -> None:
    given = settings(data=str(table), target="label", metric="recall@precision=0.5", members=("linear",))
    folder, ready = driver.start(given, tmp_path / "run")
    metrics = driver.finish(folder, ready)
    assert metrics.rows == {"train": 144, "validation": 96, "test": 0}  # 57 positives are few for the test
    assert "precision >= 0.5" in metrics.threshold_text
    given = given.model_copy(update={"metric": "recall@precision=0.999"})
    folder, ready = driver.start(given, tmp_path / "high")
    metrics = driver.finish(folder, ready)
    assert "without a guarantee" in metrics.threshold_text
    assert any("without a guarantee" in note for note in metrics.notes)


@pytest.mark.parametrize("said", ["got one score", "No threshold: precision >= 0.9"])
def test_a_floor_that_scores_come_nowhere_near_still_ends_in_a_run(said: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3_000, 3)) if said.startswith("got") else rng.standard_normal((600, 1))
    y = rng.random(len(x)) < 0.1
    np.savez(tmp_path / "noise.npz", X=x, y=y.astype(int))
    given = settings(data=str(tmp_path / "noise.npz"), target="y", metric="recall@precision=0.9", members=("linear",))
    folder, ready = driver.start(given, tmp_path / "run")
    metrics = driver.finish(folder, ready)
    assert f"comes without a guarantee: {said}" in metrics.threshold_text.replace("scores: ", "")
    assert invoke("predict", folder, tmp_path / "noise.npz").exit_code == 0


def test_fast_is_one_member_on_one_split(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = invoke("train", table, "--target", "label", "--metric", "auroc", "--fast", "--out", out, "-q")
    assert result.exit_code == 0, result.output + result.stderr
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["ensemble"]["folds"] == 1
    assert {one["name"] for one in metrics["ensemble"]["members"]} == {"trees"}


def test_out_of_time_members_are_left_out_and_named(table: Path, tmp_path: Path) -> None:
    words = ["train", table, "--target", "label", "--metric", "auroc", "--budget", 0, "--out", tmp_path / "run", "-q"]
    assert invoke(*words).exit_code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert [one["name"] for one in metrics["ensemble"]["members"]] == ["linear"]
    assert any("time limit was reached" in note for note in metrics["notes"])


def test_several_classes(tmp_path: Path) -> None:
    words = ["train", "iris", "--metric", "auroc_ovr", "--members", "linear", "--out", tmp_path / "run", "-q"]
    assert invoke(*words).exit_code == 0
    rows = list(csv.DictReader(io.StringIO(invoke("predict", tmp_path / "run", "iris").stdout)))
    assert {row["decision"] for row in rows} == {"setosa", "versicolor", "virginica"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--members", "forest"], "--members: got 'forest'"),
        (["--members", ","], "--members: got none"),
        (["--members", "linear", "--fast"], "--fast: got the option together with --members"),
        (["--fast", "--budget", "1"], "--fast: got the option together with --budget"),
        (["--budget", "-1"], "--budget-minutes: got -1.0"),
    ],
)
def test_bad_options_end_in_one_line_and_leave_no_folder(
    table: Path, tmp_path: Path, words: list[str], text: str
) -> None:
    out = tmp_path / "run"
    result = invoke("train", table, "--target", "label", "--metric", "auroc", "--out", out, *words)
    assert result.exit_code == 2
    assert text in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_an_unseen_category_and_a_rare_class_are_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds, "SMALL_FOLDS", 10)
    rng = np.random.default_rng(1)
    rows = [f"{rng.normal()},{'x' if i % 7 else 'y'},{int(i < 4)}" for i in range(120)]
    data = tmp_path / "rare.csv"
    data.write_text("\n".join(["a,b,label", *rows]) + "\n")
    words = ["train", data, "--target", "label", "--metric", "auroc", "--members", "linear", "--out", tmp_path / "run"]
    assert invoke(*words, "-q").exit_code == 0
    notes = json.loads((tmp_path / "run" / "metrics.json").read_text())["notes"]
    assert "4 folds instead of 10: the rarest class has 4 rows" in notes
    (tmp_path / "new.csv").write_text("a,b\n0.5,never seen\n")
    assert invoke("predict", tmp_path / "run", tmp_path / "new.csv").exit_code == 0


def test_every_member_has_a_learning_curve_a_fold(trained: Path) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    for member in metrics["ensemble"]["members"]:
        curves = member["curves"]
        assert len(curves["folds"]) == 3
        assert max(map(len, curves["folds"])) == len(curves["ticks"])
        assert curves["chosen"] in curves["ticks"]
        assert (curves["unit"] == "rounds") == ("trees" in member["name"])
        assert curves["value"] == "log loss"
        assert all(0 < value < 2 for fold in curves["folds"] for value in fold)
    page = (trained / "report.html").read_text()
    assert "Learning curves" in page
    assert "boosted trees stops at" in page


def test_the_curve_of_a_fold_is_the_log_loss_of_its_held_out_rows() -> None:
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0.3).long()
    store = MemoryStore()
    found = fit_ensemble(x, y, Objective.of("auroc"), kinds=("linear",), folds=3, store=store)
    curves = found.weighted_members[0].curves
    assert curves is not None
    for fold, judges in enumerate(make_folds(y, 0, folds=3).held):
        said = store.kept[f"linear-{fold}"][0]["held_scores"]
        wanted = [log_loss(y[judges], scores.clamp(-30, 30).sigmoid()) for scores in said]
        assert curves["folds"][fold] == pytest.approx(wanted, rel=1e-6)
    assert curves["chosen"] == curves["ticks"][found.weighted_members[0].checkpoint]
