"""Compare: pairing, caching, choice on validation, and verdicts that follow from the numbers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.settings import settings
from aimfor.errors import InputError
from aimfor.failpoints import VARIABLE
from aimfor.runs.compare import entrants
from aimfor.runs.compare import plan as module
from aimfor.runs.compare.plan import (
    BEST_OF_ALL,
    BEST_RIVAL,
    Plan,
    add_choices,
    make_plan,
    run_plans,
    summarize,
    verdicts,
)
from aimfor.runs.process import locked

ENTRANTS = ["ensemble", "lightgbm", "gradient_boosting", "logistic_regression"]
ENTRANTS += ["cross_entropy", "balanced_cross_entropy"]


@pytest.fixture(autouse=True)
def _learn_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of two passes: who wins is not asked here."""
    monkeypatch.setattr(entrants, "EPOCHS", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small comparison, run once through the command line."""
    out = tmp_path_factory.mktemp("compare")
    words = ["compare", "breast_cancer", "--metric", "auroc", "--metric", "f1", "--seeds", "2", "--members", "linear"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entrants, "EPOCHS", 2)
        result = CliRunner().invoke(app, [*words, "--jobs", "1", "--out", str(out)])
    assert result.exit_code == 0, result.output
    (out / "output.txt").write_text(result.stdout)
    return out


def test_output_ends_with_a_verdict_and_the_path_of_the_report(folder: Path) -> None:
    text = (folder / "output.txt").read_text()
    assert text.lstrip().startswith("Ensemble (what train makes): ")  # the verdict, before any number of a table
    assert "best rival, by validation" in text
    assert "→ " in text
    assert f"Report: {folder / 'report.html'}" in text
    assert (folder / "report.html").stat().st_size < 1_500_000


def test_cells_are_paired_and_used_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings(data="breast_cancer", metric="auroc", members=("linear",))
    plan = make_plan(given, 2)

    def never(cell: Any) -> Any:
        raise AssertionError("a stored cell was run again")

    monkeypatch.setattr(module, "run_cell", never)
    (results,) = run_plans([plan], folder, "local:1")
    assert set(results) == set(ENTRANTS)
    for by_seed in results.values():
        assert sorted(by_seed) == [0, 1]
    positives = {(seed, one["test"]["positives"], one["rows"][2]) for r in results.values() for seed, one in r.items()}
    assert len(positives) == 2  # one test part per seed, the same for everyone
    monkeypatch.undo()
    other = make_plan(given.model_copy(update={"members": ("trees",)}), 2)
    assert not {key for key, _ in other.cells()} & {key for key, _ in plan.cells()}


def plan_of(*names: str) -> Plan:
    plan = make_plan(settings(data="breast_cancer", metric="auroc"), 2)
    return replace(plan, entrants=tuple(entrants.ENTRANTS[name] for name in names))


def test_choice_looks_at_validation_alone() -> None:
    plan = plan_of("cross_entropy", "lightgbm", "gradient_boosting")
    made = {
        "cross_entropy": {
            0: {"validation": 0.9, "test": {"metric": 0.1}},
            1: {"validation": 0.5, "test": {"metric": 0.9}},
        },
        "lightgbm": {0: {"validation": 0.8, "test": {"metric": 0.9}}, 1: {"validation": 0.6, "test": {"metric": 0.2}}},
        "gradient_boosting": {0: {"validation": 0.2}, 1: {"validation": 1.0, "test": {"metric": 0.3}}},
    }
    chosen = add_choices(made, plan)
    assert [chosen[BEST_RIVAL][seed]["test"]["metric"] for seed in (0, 1)] == [0.1, 0.3]
    assert chosen[BEST_OF_ALL] == chosen[BEST_RIVAL]


def test_a_cell_on_which_the_metric_was_undefined_is_never_chosen_and_does_not_stop_the_table() -> None:
    plan = plan_of("ensemble", "gradient_boosting", "cross_entropy")
    rest = {"rows": [10, 5, 5], "seconds": 1.0, "megabytes": 1.0}
    found = {seed: {"validation": 0.5, "test": {"metric": 0.5}, **rest} for seed in (0, 1)}
    undefined = {seed: {"validation": None, "test": {"metric": None}, **rest} for seed in (0, 1)}
    member = {"name": "linear", "title": "linear", "weight": 1.0, "test": 0.5, "out_of_fold": 0.5, "seconds": 1.0}
    ours = {seed: {**one, "ensemble": {"members": [member]}} for seed, one in found.items()}
    made = {"ensemble": ours, "gradient_boosting": undefined, "cross_entropy": found}
    assert add_choices(made, plan)[BEST_RIVAL] == found
    summary = summarize(made, plan)
    rows = {row["name"]: row for row in summary["table"]}
    assert "gradient boosting" not in "".join(summary["verdicts"])
    assert rows["cross_entropy"]["test"] == 0.5
    assert np.isnan(rows["gradient_boosting"]["test"])


def test_summary_numbers_are_those_of_the_cells(folder: Path) -> None:
    document = json.loads((folder / "comparison.json").read_text())
    given = settings(data="breast_cancer", metric="f1", members=("linear",))
    plan = make_plan(given, 2)
    (results,) = run_plans([plan], folder, "local:1")
    summary = summarize(results, plan)
    assert document["parts"][1]["metric"] == "f1"
    assert document["parts"][1]["table"] == summary["table"]
    row = next(row for row in summary["table"] if row["name"] == "cross_entropy")
    assert row["test"] == pytest.approx(sum(one["test"]["metric"] for one in results["cross_entropy"].values()) / 2)
    assert summary["comparisons"] == 1


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.01, 0.03, "better f1"), (-0.03, -0.01, "worse f1"), (-0.01, 0.03, "no difference in f1 you could rely on")],
)
def test_verdict_follows_the_interval(low: float, high: float, word: str) -> None:
    row = {"name": "ensemble", "title": "ensemble", "test": 0.5, "difference": (low + high) / 2, "low": low}
    row |= {"high": high, "weights": {"linear": 1.0}}
    rival = {"name": BEST_RIVAL, "title": "rival", "test": 0.5}
    summary = {"metric": "f1", "table": [row, rival], "comparisons": 1, "skipped": []}
    assert word in verdicts(summary)[0]


@pytest.mark.parametrize(("tree", "said"), [(0.6, True), (0.4, False)])
def test_sentences_about_the_ensemble_are_of_its_own_row(tree: float, said: bool) -> None:
    numbers = {"difference": 0.0, "low": -0.1, "high": 0.1, "weights": {"linear": 0.25, "boosted trees": 0.75}}
    ensemble = {"name": "ensemble", "title": "ensemble", "test": 0.5, **numbers}
    rows = [ensemble, {"name": "gradient_boosting", "title": "tree", "test": tree}, {"name": BEST_RIVAL, "test": tree}]
    text = " ".join(verdicts({"metric": "f1", "table": rows, "comparisons": 1, "skipped": []}))
    assert "Weights in the ensemble: boosted trees 0.75, linear 0.25." in text
    assert ("The highest mean on test rows is that of tree, 0.6000 (ensemble 0.5000)" in text) == said


def test_the_ensemble_meets_what_people_use_and_is_what_train_makes(tmp_path: Path) -> None:
    """What `compare` measures is what `train` makes: same split, same scores, same threshold."""
    rng = np.random.default_rng(0)
    data = tmp_path / "t.npz"
    x = rng.normal(size=(150, 3))
    np.savez(data, X=x, y=(x[:, 0] + 0.5 * rng.normal(size=150) > 0).astype(int))
    out = tmp_path / "out"
    words = ["compare", str(data), "--target", "y", "--metric", "ap", "--seeds", "2", "--jobs", "1"]
    words += ["--members", "linear"]
    result = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert result.exit_code == 0, result.output + result.stderr
    document = json.loads((out / "comparison.json").read_text())
    names = {row["name"] for row in document["parts"][0]["table"]}
    assert names >= {"ensemble", "lightgbm", "gradient_boosting", "logistic_regression", "cross_entropy"}
    assert "Weights in the ensemble: linear 1.00." in result.stdout
    assert "linear alone (weight 1.00)" in result.stdout
    by_name = {row["name"]: row for row in document["parts"][0]["table"]}
    assert by_name["ensemble/linear"]["test"] == by_name["ensemble"]["test"]  # one member: the order is the same
    assert "linear alone (weight 1.00)" in (out / "report.html").read_text()
    again = ["train", *words[1:6], *words[-2:], "--holdout", "0.2"]
    trained = CliRunner().invoke(app, [*again, "-q", "--out", str(tmp_path / "trained")])
    assert trained.exit_code == 0, trained.output + trained.stderr
    left = json.loads((tmp_path / "trained" / "metrics.json").read_text())
    cells = [json.loads(path.read_text()) for path in (out / "cells").glob("*.json")]
    (cell,) = [one for one in cells if one["entrant"] == "ensemble" and one["seed"] == 0]
    assert cell["test"]["metric"] == left["test"]["metric"]
    assert cell["threshold"] == left["threshold"]
    with locked(out):
        again = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert again.exit_code == 2
    assert "another run is working" in again.stderr


def test_one_seed_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2"):
        make_plan(settings(data="breast_cancer", metric="auroc"), 1)


@pytest.mark.usefixtures("warm_server")
def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    plan = make_plan(settings(data="wine", metric="auroc", positive="class_1", members=("linear",)), 2)
    chosen = tuple(one for one in plan.entrants if one in entrants.FOR_TABLES[1:])
    plan = replace(plan, entrants=chosen)  # patches of this test do not reach other processes
    (alone,) = run_plans([plan], tmp_path / "one", "local:1")
    (together,) = run_plans([plan], tmp_path / "two", "local:2")
    for name, by_seed in alone.items():
        for seed, one in by_seed.items():
            assert together[name][seed]["test"] == one["test"]


def test_interrupted_comparison_goes_on_and_a_complete_one_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compare", "wine", "--positive", "class_1", "--metric", "auroc", "--seeds", "2", "--members", "linear"]
    words += ["--jobs", "1", "--out", str(tmp_path)]
    started, limit, original = [], [2], module.run_cell

    def counted(cell: Any) -> Any:
        if len(started) == limit[0]:
            raise KeyboardInterrupt
        started.append(cell)
        return original(cell)

    monkeypatch.setattr(module, "run_cell", counted)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 130
    assert "Run the same command again" in result.stderr
    assert not (tmp_path / "report.html").exists()
    assert len(list(tmp_path.glob("cells/*.json"))) == 2
    limit[0] = 12  # two seeds of six: two cells are stored, ten are left
    for _ in range(2):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert len(started) == len(list(tmp_path.glob("cells/*.json"))) == 12
        assert f"Report: {tmp_path / 'report.html'}" in result.stdout


def test_killed_comparison_leaves_no_process_behind(tmp_path: Path) -> None:
    words = ["compare", "breast_cancer", "--metric", "auroc", "--seeds", "40", "--members", "linear"]
    command = [sys.executable, "-m", "aimfor", *words, "--jobs", "2", "--out", str(tmp_path)]
    around = {**os.environ, VARIABLE: "wrote cells/*=SIGKILL"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=around)
    process.communicate(timeout=600)  # returns when the last worker has closed the pipes
    assert process.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("cells/*.json"))) == 1


@pytest.mark.parametrize(
    "words", [["--executor", "local:0"], ["--executor", "slurm"], ["--executor", "local:2", "--jobs", "2"]]
)
def test_a_wrong_executor_is_one_line(words: list[str], tmp_path: Path) -> None:
    given = ["compare", "breast_cancer", "--metric", "auroc", "--out", str(tmp_path), *words]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "--executor" in result.stderr
