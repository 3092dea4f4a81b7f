"""The program from Python: the same settings, files and refusals as the command, for paths and for frames."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.errors import InputError


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    return pd.DataFrame(
        {"a": x[:, 0], "b": x[:, 1], "y": np.where(x[:, 0] + 0.3 * rng.normal(size=120) > 0, "yes", "no")}
    )


def test_a_frame_and_the_command_on_its_file_end_alike(frame: pd.DataFrame, tmp_path: Path) -> None:
    given = {"members": ["linear"], "positive": "yes", "column": ["b=ignore"]}
    run = aimfor.train(frame, target="y", metric="auroc", **given, out=tmp_path / "one")
    (data,) = (tmp_path / "data").glob("frame-*.parquet")
    words = ["train", data, "--target", "y", "--metric", "auroc", "--members", "linear", "--positive", "yes", "-q"]
    words += ["--column", "b=ignore"]
    done = CliRunner().invoke(app, [str(word) for word in [*words, "--out", tmp_path / "two"]])
    assert done.exit_code == 0, done.output
    stored = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("one", "two")]
    assert stored[0] == stored[1]
    assert run.evaluation.test.metric == json.loads((tmp_path / "two" / "metrics.json").read_text())["test"]["metric"]
    assert (run.predict(frame) == aimfor.load(tmp_path / "two").predict(frame)).all()
    assert run.predict_proba(frame).shape == (120, 2)
    assert run.report() == tmp_path / "one" / "report.html"
    assert "Expect auroc" in repr(run)
    assert "<table>" in run._repr_html_()


def test_what_the_command_refuses_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="masks"):
        aimfor.train(frame, target="y", metric="auroc", epochs=3, out=tmp_path / "run")
    with pytest.raises(InputError, match="Did you mean 'members'"):
        aimfor.train(frame, target="y", metric="auroc", member="linear", out=tmp_path / "run")
    with pytest.raises(InputError, match="a path, a built-in set or a data frame"):
        aimfor.train(3, target="y", metric="auroc", out=tmp_path / "run")
    with pytest.raises(InputError, match="one of the two"):
        aimfor.train(frame, target="y", metric="auroc", fast=True, members="linear", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_comparison_has_verdicts_and_a_report(frame: pd.DataFrame, tmp_path: Path) -> None:
    found = aimfor.compare(frame, target="y", metric="auroc", members="linear", seeds=2, out=tmp_path / "compare")
    assert found.verdicts
    assert [part["metric"] for part in found.parts] == ["auroc"]
    assert found.report() == tmp_path / "compare" / "report.html"
    assert found.verdicts[0] in repr(found)
    assert "auroc" in found._repr_html_()
