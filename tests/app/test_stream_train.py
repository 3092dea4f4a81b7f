"""`aimfor train` on a stream: a run that was killed ends as if it had not been; two processes; rows in, rows out."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from aimfor.app.cli.main import app

COMMON = ["--target", "y", "--epochs", "3", "--hidden", "16", "--batch-size", "128", "--learning-rate", "0.01"]


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


@pytest.mark.parametrize("kind", ["committee"])
def test_killed_and_resumed_it_ends_the_same(kind: str) -> None:
    """`python tools/kill_runs.py` does twenty of each kind; the seed here is another one."""
    tool = Path(__file__).parents[2] / "tools" / "kill_runs.py"
    words = [sys.executable, str(tool), "--times", "1", "--seed", "5", "--kind", kind]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": equal") == 1


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


def test_the_metric_as_the_loss_of_the_second_half(data: Path, tmp_path: Path) -> None:
    words = [
        "train",
        str(data),
        *COMMON,
        "--metric",
        "auroc",
        "--recipe",
        "ce_then_metric",
        "--out",
        str(tmp_path / "r"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    history = json.loads((tmp_path / "r" / "metrics.json").read_text())["history"]
    assert [event["title"] for event in history] == ["cross-entropy", "the metric", "the metric"]


def test_a_csv_that_is_too_large_for_the_limit_is_read_as_a_stream(tmp_path: Path) -> None:
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
        (["--split-by", "town"], "--split-by"),
        (["--recipe", "head"], "--recipe"),
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


def test_torchrun_starts_a_lost_run_again_from_its_folder(data: Path, tmp_path: Path) -> None:
    """One process ends itself in the middle of the first start; the second goes on and finishes."""
    folder, once = tmp_path / "two", tmp_path / "once.py"
    once.write_text(
        "import os, sys\n"
        "from aimfor.__main__ import main\n"
        "from aimfor.app.stream import fit\n"
        "look = fit.StreamFit._look\n"
        "def dies(self, epoch, progress):\n"
        "    look(self, epoch, progress)\n"
        "    if epoch == 1 and self.ranks.rank == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "        os.kill(os.getpid(), 9)\n"
        "fit.StreamFit._look = dies\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", str(once), "train", str(data), *COMMON, "--checkpoint-seconds", "0"]
    command += ["--metric", "auroc", "--out", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            said = process.communicate(timeout=900)[1]
        finally:
            with contextlib.suppress(ProcessLookupError):  # nothing of it outlives the test
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    epochs = [json.loads(line)["epoch"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert epochs == [1.0, 2.0, 3.0]
    assert json.loads((folder / "metrics.json").read_text())["test"]["metric"] > 0.85
