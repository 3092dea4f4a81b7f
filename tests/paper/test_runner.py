"""The runner of experiments: cached, resumable, within budget, and never silent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from aimfor.errors import InputError
from paper import NAMES, Cell, Experiment, Options, data_folder
from paper import __main__ as cli
from paper import run as runner
from paper.experiment import find_data
from programs import finished


def make(run: Any = None, count: int = 3) -> tuple[Experiment, list[Cell]]:
    ran: list[Cell] = []

    def measure(cell: Cell, options: Options) -> dict[str, Any]:
        ran.append(cell)
        return run(cell) if run else {"square": cell["seed"] ** 2}

    def report(results: list[dict[str, Any]], folder: Path) -> None:
        (folder / "table.md").write_text(" ".join(str(entry["result"]["square"]) for entry in results))

    cells = lambda options: [{"set": "a b/c", "seed": seed} for seed in range(min(count, options.seeds))]  # noqa: E731
    return Experiment("toy", "A toy", "aimfor", cells, measure, report), ran


def test_second_run_is_answered_by_the_cache(tmp_path: Path) -> None:
    experiment, ran = make()
    first = runner.run(experiment, Options(seeds=3), tmp_path)
    assert [entry["result"]["square"] for entry in first.finished] == [0, 1, 4]
    second = runner.run(experiment, Options(seeds=3), tmp_path)
    assert len(ran) == 3
    assert second.finished == first.finished
    assert (tmp_path / "toy" / "table.md").read_text() == "0 1 4"
    assert [path.name for path in sorted((tmp_path / "toy").glob("*.json"))] == ["cells.json"]


def test_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def dies(cell: Cell) -> dict[str, Any]:
        if cell["seed"] == 2:
            raise KeyboardInterrupt
        return {"square": cell["seed"] ** 2}

    experiment, _ = make(dies)
    with pytest.raises(KeyboardInterrupt):
        runner.run(experiment, Options(seeds=3), tmp_path)
    assert len(list((tmp_path / "toy").glob("*.json"))) == 2
    experiment, ran = make()
    outcome = runner.run(experiment, Options(seeds=3), tmp_path)
    assert [cell["seed"] for cell in ran] == [2]
    assert len(outcome.finished) == 3


def test_budget_zero_starts_at_most_one_cell_and_reports_the_rest(tmp_path: Path, monkeypatch: Any) -> None:
    experiment, ran = make()
    clock = iter(range(100))
    monkeypatch.setattr(runner.time, "monotonic", lambda: float(next(clock)))
    outcome = runner.run(experiment, Options(seeds=3), tmp_path, budget=1.5)
    assert len(ran) == 1
    assert [cell["seed"] for cell in outcome.left] == [1, 2]


def test_cached_only_runs_nothing(tmp_path: Path) -> None:
    experiment, ran = make()
    outcome = runner.run(experiment, Options(seeds=3), tmp_path, cached_only=True)
    assert ran == []
    assert len(outcome.left) == 3
    assert outcome.finished == []


def test_full_size_is_another_cell(tmp_path: Path) -> None:
    experiment, ran = make()
    runner.run(experiment, Options(seeds=1), tmp_path)
    runner.run(experiment, Options(seeds=1, full=True), tmp_path)
    assert len(ran) == 2
    assert len(json.loads((tmp_path / "toy" / "cells.json").read_text())) == 2


def test_failed_cell_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    def sometimes(cell: Cell) -> dict[str, Any]:
        return {"square": 1 // cell["seed"]}

    outcome = runner.run(make(sometimes)[0], Options(seeds=3), tmp_path)
    assert len(outcome.finished) == 2
    assert outcome.failed[0][0]["seed"] == 0
    assert isinstance(outcome.failed[0][1], ZeroDivisionError)


def test_not_finite_numbers_become_null_and_tensors_are_refused(tmp_path: Path) -> None:
    outcome = runner.run(make(lambda cell: {"square": float("nan")})[0], Options(seeds=1), tmp_path)
    assert outcome.finished[0]["result"]["square"] is None
    assert "NaN" not in (tmp_path / "toy" / "cells.json").read_text()
    with pytest.raises(InputError, match="plain numbers"):
        runner.run(make(lambda cell: {"square": {1, 2}})[0], Options(seeds=1), tmp_path / "other")


def test_same_cell_twice_is_refused(tmp_path: Path) -> None:
    experiment = Experiment("toy", "", "", lambda o: [{"seed": 0}] * 2, lambda c, o: {}, lambda r, f: None)
    with pytest.raises(InputError, match="the same cell twice"):
        runner.run(experiment, Options(), tmp_path)


def test_unknown_name_lists_those_that_exist() -> None:
    with pytest.raises(InputError, match="one of"):
        runner.load("nonsense")


def test_missing_data_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="AIMFOR_DATA"):
        data_folder(Options(data=None), "cifar10")
    with pytest.raises(InputError, match="without cifar10"):
        data_folder(Options(data=tmp_path), "cifar10")
    with pytest.raises(InputError, match="not a folder"):
        find_data(tmp_path / "absent")
    monkeypatch.setenv("AIMFOR_DATA", str(tmp_path))
    assert find_data(None) == tmp_path


def test_command_lists_runs_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, _ = make()
    monkeypatch.setattr(cli, "NAMES", ("toy",))
    monkeypatch.setattr(cli, "load", lambda name: experiment if name == "toy" else runner.load(name))
    app = Typer()
    app.command()(cli.reproduce)
    call = CliRunner().invoke
    assert "A toy" in call(app, ["--list"]).output
    done = call(app, ["toy", "--out", str(tmp_path), "--seeds", "2"])
    assert done.exit_code == 0
    assert "2 of 2 cells" in done.output
    refused = call(app, ["nonsense", "--out", str(tmp_path)])
    assert refused.exit_code == 2
    assert "InputError" in refused.output


def test_each_experiment_can_be_the_first_that_is_loaded() -> None:
    """``python -m paper NAME`` loads one alone; another that came before it would hide an import in a circle."""
    code = """
        import sys
        from paper import NAMES

        for name in NAMES:
            for module in [module for module in sys.modules if module.split(".")[0] == "paper"]:
                del sys.modules[module]
            from paper.run import load

            load(name)
        print(len(NAMES))
    """
    assert int(finished(code=code).stdout) == len(NAMES)


def test_a_cell_that_stands_twice_is_refused(tmp_path: Path) -> None:
    experiment, _ = make()
    runner.run(experiment, Options(seeds=2), tmp_path)
    path = tmp_path / "toy" / runner.GATHERED
    cells = json.loads(path.read_text())
    path.write_text(json.dumps([*cells, cells[0]]))
    with pytest.raises(InputError, match="twice in"):
        runner.run(experiment, Options(seeds=2), tmp_path, cached_only=True)
