"""`aimfor train` on a stream: a run that was killed ends as if it had not been; rows in, rows out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.runs.process import locked
from programs import tool

COMMON = ["--target", "y", "--members", "linear,trees"]


def write(folder: Path, files: int = 4, n: int = 1_500) -> Path:
    folder.mkdir()
    for number in range(files):
        rng = np.random.default_rng(number)
        x = rng.standard_normal((n, 3))
        y = (x.sum(1) + rng.standard_normal(n) > 1).astype(np.int8)
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("stream") / "parts")


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    """A run that nothing disturbed."""
    folder = data.parent / "run"
    result = CliRunner().invoke(app, ["train", str(data), *COMMON, "--metric", "auroc", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def test_it_learns_and_says_what_was_read(run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["metric"] > 0.85
    assert sum(metrics["rows"].values()) == 6_000
    assert not (run / "rows").exists()
    assert {"report.html", "README.md"} <= {path.name for path in run.iterdir()}


def test_killed_and_resumed_it_ends_the_same() -> None:
    """`python tools/kill_runs.py` does twenty of each kind; the seed here is another one."""
    said = tool("kill_runs.py", "--times", 1, "--seed", 5, "--kind", "ensemble", "--rows", 300)
    assert said.count(": equal") == 1


def test_a_run_that_is_at_work_takes_no_second_one(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "config.json").write_bytes((run / "config.json").read_bytes())
    with locked(copy):
        refused = CliRunner().invoke(app, ["train", "--resume", str(copy)])
    assert refused.exit_code == 2
    assert "where another run is working" in refused.output
    assert [path.name for path in copy.iterdir()] == ["config.json"]


def test_predict_streams_in_and_out(run: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    result = CliRunner().invoke(app, ["predict", str(run), str(data), "--out", str(out)])
    assert result.exit_code == 0, result.output
    with out.open() as file:
        lines = list(csv.DictReader(file))
    assert [line["row"] for line in lines] == [str(number) for number in range(6_000)]
    whole = pa.concat_tables([pq.read_table(file) for file in sorted(data.glob("*.parquet"))])
    from pyarrow import csv as arrow_csv

    arrow_csv.write_csv(whole.drop_columns(["y"]), tmp_path / "one.csv")
    again = CliRunner().invoke(app, ["predict", str(run), str(tmp_path / "one.csv"), "--rows", "50"])
    assert again.stdout.splitlines()[1:] == out.read_text().splitlines()[1:51]


def test_a_limit_too_small_for_any_row_group_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    x = rng.standard_normal(n)
    lines = [f"{a!r},{'x' * 200},{int(a + b > 0)}" for a, b in zip(x.tolist(), rng.standard_normal(n), strict=True)]
    (tmp_path / "t.csv").write_text("a,filler,y\n" + "\n".join(lines) + "\n")
    words = ["train", str(tmp_path / "t.csv"), "--metric", "auroc", *COMMON, "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*words, "--memory", "1MB"])
    assert result.exit_code == 2
    assert "--memory: got 1 MB" in result.stderr
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--memory", "lots"], "--memory"),
        (["--memory", "-1GB"], "--memory"),
        (["--memory", "100MB"], "at least"),
        (["--cluster", "town"], "--cluster"),
        (["--positive", "5"], "positive"),
    ],
)
def test_bad_input_is_one_line(words: list[str], text: str, data: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["train", str(data), *COMMON, "--metric", "f1", "--out", str(tmp_path / "r"), *words]
    )
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert text in result.stderr
    assert not (tmp_path / "r" / "config.json").exists()
