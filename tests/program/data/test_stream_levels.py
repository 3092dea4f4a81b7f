"""A column of ever new levels: what a stream learns of it is bounded by its sample, not by the number of levels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import chunks


def write(folder: Path, each: int) -> Path:
    """Four files of 600 rows; every level has ``each`` rows, all in one file."""
    folder.mkdir()
    for number in range(4):
        rng = np.random.default_rng(number)
        a = rng.standard_normal(600)
        y = (a + 0.5 * rng.standard_normal(600) > 0.5).astype(np.int8)
        who = [f"user{600 * number + row // each}" for row in range(600)]
        pq.write_table(pa.table({"a": a, "who": who, "y": y}), folder / f"{number}.parquet", row_group_size=200)
    return folder


@pytest.mark.parametrize(("each", "kinds"), [(1, []), (40, ["category"])])
def test_most_levels_come_after_the_sample(
    each: int, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ten million levels do beside a sample of 100,000 rows, which bench_stream.py runs."""
    monkeypatch.setattr(chunks, "SAMPLE", 300)
    words = ["train", str(write(tmp_path / "rows", each)), "--target", "y", "--metric", "auroc", "--fast"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    encoder = json.loads((tmp_path / "run" / "config.json").read_text())["encoder"]
    found = [one for one in encoder["columns"] if one["name"] == "who"]
    assert [one["kind"] for one in found] == kinds
    assert all(len(one["levels"]) <= 50 and len(json.dumps(one)) < 20_000 for one in found)
    assert any("column 'who' left out" in note for note in encoder["notes"]) == (not kinds)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["metric"] > 0.8
