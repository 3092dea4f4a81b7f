"""Two processes on one stream: one network copied or cut, trees, an error said once, and a process that is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from aimfor.app.cli.main import app
from programs import finished

WORDS = ["--target", "y", "--metric", "auroc", "--epochs", "3", "--hidden", "16", "--batch-size", "128"]
WORDS += ["--learning-rate", "0.01"]


def forked(*commands: list[object]) -> list[dict[str, Any]]:
    """Codes, words and files of each command, run by two processes."""
    script = Path(__file__).with_name("forked_ranks.py")
    words = json.dumps([[str(word) for word in command] for command in commands])
    code = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    return [json.loads(line) for line in finished(script, words, code=code).stdout.splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks") / "parts"
    folder.mkdir()
    for number in range(3):
        rng = np.random.default_rng(number)
        x = rng.standard_normal((700, 3))
        y = (x.sum(1) + rng.standard_normal(700) > 1).astype(np.int8)
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=100)
    bad = folder.parent / "bad"
    bad.mkdir()
    for file in folder.glob("*.parquet"):
        (bad / file.name).write_bytes(file.read_bytes())
    whole = (bad / "2.parquet").read_bytes()
    # Only the head of a page of the last row group, which the first process reads: number 20 of 0 … 20.
    place = pq.ParquetFile(bad / "2.parquet").metadata.row_group(6).column(0).data_page_offset
    (bad / "2.parquet").write_bytes(whole[:place] + b"\xff" * 40 + whole[place + 40 :])
    return folder


@pytest.fixture(scope="module")
def found(data: Path) -> dict[str, dict[str, Any]]:
    """All commands at once: starting Python and torch takes most of the time."""
    home = data.parent
    commands: dict[str, list[object]] = {
        "copied": ["train", data, *WORDS, "--out", home / "copied"],
        "cut": ["train", data, *WORDS, "--shard", "--checkpoint-seconds", "0", "--out", home / "cut"],
        "lost": ["kill", "train", data, *WORDS, "--shard", "--checkpoint-seconds", "0", "--out", home / "lost"],
        "found again": ["train", "--resume", home / "lost"],
        "committee": ["train", data, "--target", "y", "--metric", "f1", "--out", home / "committee"],
        "one finds damage": ["train", home / "bad", *WORDS, "--out", home / "refused"],
        "both find no target": ["train", data, "--target", "why", "--metric", "auroc", "--out", home / "refused"],
    }  # fmt: skip
    return dict(zip(commands, forked(*commands.values()), strict=True))


def metrics(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "metrics.json").read_text()))


def test_two_processes_train_the_network_of_one(found: dict[str, Any], data: Path, tmp_path: Path) -> None:
    assert found["copied"]["codes"] == [0, 0], found["copied"]["said"]
    assert found["copied"]["said"].count("one network") == 1
    result = CliRunner().invoke(app, ["train", str(data), *WORDS, "--out", str(tmp_path / "alone")])
    assert result.exit_code == 0, result.output
    ours, alone = data.parent / "copied", tmp_path / "alone"
    assert (ours / "config.json").read_text() == (alone / "config.json").read_text()
    assert metrics(ours)["rows"] == metrics(alone)["rows"]
    # Dropout draws other units in two processes than in one, and nothing else differs but the last bits.
    assert metrics(ours)["test"]["metric"] == pytest.approx(metrics(alone)["test"]["metric"], abs=0.02)


def test_a_network_that_is_cut_is_the_one_that_is_copied(found: dict[str, Any], data: Path) -> None:
    assert found["cut"]["codes"] == [0, 0], found["cut"]["said"]
    ours, theirs = (load_file(data.parent / one / "model.safetensors") for one in ("cut", "copied"))
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


def test_a_run_that_lost_a_process_goes_on_where_it_was(found: dict[str, Any], data: Path) -> None:
    """Of a network that is cut, so that the state that is saved was put together from its parts."""
    assert found["lost"]["codes"][1] == -9
    assert found["lost"]["codes"][0] == 2, found["lost"]["said"]
    assert "another process of this run has ended" in found["lost"]["said"]
    lost, calm = data.parent / "lost", data.parent / "cut"
    assert "checkpoint.safetensors" in found["lost"]["left"]
    assert "metrics.json" not in found["lost"]["left"]
    assert found["found again"]["codes"] == [0, 0], found["found again"]["said"]
    ours, theirs = (load_file(one / "model.safetensors") for one in (lost, calm))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (lost / "threshold.json").read_text() == (calm / "threshold.json").read_text()


def test_a_committee_of_two_processes(found: dict[str, Any], data: Path) -> None:
    assert found["committee"]["codes"] == [0, 0], found["committee"]["said"]
    facts = metrics(data.parent / "committee")
    assert [one["name"] for one in facts["committee"]["members"]] == ["stream_network", "trees"]
    assert facts["test"]["metric"] > 0.7


def test_what_one_process_finds_ends_both_and_is_said_once(found: dict[str, Any], data: Path) -> None:
    for name, text in (("one finds damage", "2.parquet, row group 6, which"), ("both find no target", "got 'why'")):
        assert found[name]["codes"] == [2, 2], found[name]["said"]
        lines = [line for line in found[name]["said"].splitlines() if line.startswith("aimfor:")]
        assert len(lines) == 1, found[name]["said"]
        assert text in lines[0]
        assert "Traceback" not in found[name]["said"]
    assert not (data.parent / "refused").exists()
