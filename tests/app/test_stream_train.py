"""`aimfor train` on a stream: a run that was killed ends as if it had not been; two processes; rows in, rows out."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
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


def test_killed_again_and_again_it_ends_the_same(run: Path, data: Path, tmp_path: Path) -> None:
    folder, chance = tmp_path / "killed", random.Random(0)
    words = [sys.executable, "-m", "aimfor", "train", "-q", "--checkpoint-seconds", "0"]
    first = [*words, str(data), *COMMON, "--metric", "auroc", "--out", str(folder)]
    kills = 0
    while not (folder / "metrics.json").exists():
        begun = (folder / "config.json").exists()
        process = subprocess.Popen([*words, "--resume", str(folder)] if begun else first)
        deadline = time.monotonic() + 900
        while not (folder / "checkpoint.safetensors").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        stamp = (folder / "checkpoint.safetensors").stat().st_mtime_ns if process.poll() is None else 0
        while kills < 2 and process.poll() is None:
            if (folder / "checkpoint.safetensors").stat().st_mtime_ns != stamp:
                time.sleep(chance.random() * 0.2)
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.01)
        process.wait(timeout=900)
    assert kills >= 1
    ours, theirs = (load_file(one / "model.safetensors") for one in (folder, run))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (folder / "threshold.json").read_text() == (run / "threshold.json").read_text()


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


def torchrun(words: list[str]) -> tuple[int, str]:
    """Exit code and what was said. A session of its own, so that nothing of it outlives the test."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "aimfor"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, *words], stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            said = process.communicate(timeout=900)[1]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


def test_two_processes_train_one_network(run: Path, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    code, said = torchrun(["train", str(data), *COMMON, "--metric", "auroc", "--out", str(folder)])
    assert code == 0, said
    ours, alone = (json.loads((one / "metrics.json").read_text()) for one in (folder, run))
    assert ours["rows"] == alone["rows"]
    assert ours["test"]["metric"] == pytest.approx(alone["test"]["metric"], abs=0.01)
    assert (folder / "config.json").read_text() == (run / "config.json").read_text()
    assert said.count("one network") == 1


def test_an_error_of_two_processes_is_said_once(data: Path, tmp_path: Path) -> None:
    code, said = torchrun(["train", str(data), "--target", "why", "--metric", "auroc", "--out", str(tmp_path / "two")])
    assert code != 0
    assert said.count("aimfor: target: got 'why'") == 1
