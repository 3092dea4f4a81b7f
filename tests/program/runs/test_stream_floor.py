"""A floor on a stream: thresholds are tested on rows that took part in nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.data.settings import Settings
from aimfor.errors import InputError
from aimfor.rates import precision, recall
from aimfor.runs.finished import load_ensemble
from aimfor.runs.survey import prepare


def write(folder: Path, n: int = 1_500, copies: int = 1) -> Path:
    folder.mkdir()
    for number in range(4):
        rng = np.random.default_rng(number)
        x = np.repeat(rng.standard_normal((n // copies, 2)), copies, axis=0)
        y = (x.sum(1) + 0.5 * rng.standard_normal(len(x)) > 1).astype(np.int8)
        columns = {"a": x[:, 0], "b": x[:, 1], "who": np.arange(len(x)) % 40 + 40 * number, "y": y}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=300)
    return folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("floors") / "parts")


def settings(parts: Path, metric: str = "recall@precision=0.8", **more: object) -> Settings:
    return Settings(data=str(parts), metric=metric, target="y", fast=True, **more)  # type: ignore[arg-type]


def test_the_threshold_is_the_one_that_decide_guarantees_on_the_rows_kept_aside(parts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", str(parts), "--target", "y", "--metric", "recall@precision=0.8", "--fast", "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    metrics = json.loads((out / "metrics.json").read_text())
    rows = metrics["rows"]
    assert sum(rows.values()) == 6_000
    assert 0.4 < rows["aside"] / (rows["aside"] + rows["validation"]) < 0.6
    assert "precision >= 0.8" in metrics["threshold_text"]
    assert json.loads((out / "threshold.json").read_text())["guaranteed"] is True
    assert "without a guarantee" not in CliRunner().invoke(app, ["predict", str(out), str(parts)]).stderr

    ready = prepare(settings(parts), tmp_path / "staged")
    assert ready.aside is not None
    ensemble = load_ensemble(out)
    told = [ensemble.scores(part[0]) for part in (ready.aside, ready.validation)]
    problem = aimfor.maximize(recall, subject_to=[precision >= 0.8])
    found = problem.decide(told[0], ready.aside[1], guarantee=0.95, learn=(told[1], ready.validation[1]))
    assert metrics["threshold"] == found.threshold
    kept = told[0] > found.threshold
    assert ready.aside[1][kept].double().mean() > 0.8  # the test leaves a margin

    page = CliRunner().invoke(app, ["report", str(out)])
    assert page.exit_code == 0, page.output
    assert f"{rows['aside']} kept aside" in (out / "report.html").read_text()


def test_a_floor_out_of_reach_is_said_and_the_run_ends_well(parts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", str(parts), "--target", "y", "--metric", "recall@precision=0.9999", "--fast", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "-q"])
    assert result.exit_code == 4
    assert "aimfor: finished, but the threshold is the best for the floor on validation rows" in result.stderr
    metrics = json.loads((out / "metrics.json").read_text())
    assert "on validation rows and comes without a guarantee" in metrics["threshold_text"]
    decided = CliRunner().invoke(app, ["predict", str(out), str(parts)])
    assert decided.exit_code == 0
    assert "warning: decisions are made at a threshold without a guarantee of recall@precision=0.9999" in decided.stderr


@pytest.mark.parametrize("by", [None, "who"])
def test_equal_rows_and_those_of_one_group_are_in_one_half(by: str | None, tmp_path: Path) -> None:
    ready = prepare(settings(write(tmp_path / "parts", copies=3), cluster=by), tmp_path / "staged")
    assert ready.aside is not None
    columns = slice(None) if by is None else slice(2, 3)
    there, here = ({tuple(row) for row in part[0][:, columns].tolist()} for part in (ready.aside, ready.validation))
    assert len(there) > 5
    assert len(here) > 5
    assert not there & here


def test_other_metrics_keep_nothing_aside(parts: Path, tmp_path: Path) -> None:
    assert prepare(settings(parts, "ap"), tmp_path / "a").aside is None


def test_a_half_without_a_class_is_named(tmp_path: Path) -> None:
    place = write(tmp_path / "parts", 300)
    for file in place.glob("*.parquet"):
        table = pq.read_table(file)
        rare = np.zeros(table.num_rows, np.int8)
        rare[:6] = 1
        pq.write_table(table.set_column(3, "y", pa.array(rare)), file)
    said = set()
    for seed in range(12):
        try:
            prepare(settings(place, seed=seed), tmp_path / "staged")
        except InputError as error:
            said.add(str(error))
    assert any("a half of the validation rows" in one for one in said), said
