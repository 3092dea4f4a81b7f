"""``aimfor decide`` for several classes: a floor each, abstention, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from aimfor.app.cli.main import app

SCORES = ["--score-of", "fraud=a", "--score-of", "theft=b"]
ALL = [*SCORES, "--score-of", "rest=c"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.choice(["fraud", "theft", "rest"], n, p=[0.2, 0.3, 0.5])
    s = rng.normal(size=(n, 3)) + 3.0 * (y[:, None] == ["fraud", "theft", "rest"])
    lines = [f"{a!r},{b!r},{c!r},{label}" for (a, b, c), label in zip(s.tolist(), y, strict=True)]
    Path(name).write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    return s, y


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["decide", *words])
    return result.exit_code, result.stdout, result.stderr


def test_a_floor_for_each_class() -> None:
    s, y = table("rows.csv", 3000, 0)
    table("other.csv", 3000, 1)
    floors = ["--subject-to", "precision[label=fraud] >= 0.9", "--subject-to", "precision[label='theft'] >= 0.8"]
    code, out, err = run("rows.csv", "--target", "y", *SCORES, "--maximize", "recall", *floors, "--learn", "other.csv")
    assert code == 0, err
    assert "fraud: precision >= 0.9: guaranteed at 97.5% confidence by 3000" in out
    document = json.loads(Path("decisions/rows/decision.json").read_text())
    for place, (name, floor) in enumerate((("fraud", 0.9), ("theft", 0.8))):
        above = s[:, place] > document["decisions"][name]["threshold"]
        assert stats.binom.sf((y[above] == name).sum() - 1, above.sum(), floor) <= 0.025


def test_decide_or_hand_to_a_person() -> None:
    s, y = table("rows.csv", 3000, 0)
    code, out, err = run("rows.csv", "--target", "y", *ALL, "--abstain", "0.02", "--json")
    assert code == 0, err
    document = json.loads(out)
    ordered = np.sort(s, 1)
    sure = ordered[:, 2] - ordered[:, 1] > document["decision"]["threshold"]
    right = np.array(["fraud", "theft", "rest"])[s.argmax(1)] == y
    assert 0.3 < sure.mean() < 1.0
    assert right[sure].mean() > 0.98
    table("few.csv", 100, 0)
    code, out, _ = run("few.csv", "--target", "y", *ALL, "--abstain", "0.01")
    assert (code, "No threshold" in out) == (1, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([*SCORES, "--maximize", "recall"], "at least one constraint"),
        ([*SCORES, "--subject-to", "precision[label=fraud] >= 0.9"], "--maximize"),
        ([*SCORES, "--maximize", "recall", "--subject-to", "precision >= 0.9"], "on one class"),
        ([*SCORES, "--maximize", "recall", "--subject-to", "precision[label=fruad] >= 0.9"], "'fraud'"),
        ([*SCORES, "--abstain", "0.01"], "none for 'rest'"),
        (["--abstain", "0.01"], "CLASS=COLUMN"),
        ([*ALL, "--abstain", "0.01", "--maximize", "recall"], "one of the two"),
        ([*ALL, "--abstain", "2"], "error"),
        (["--score-of", "fraud", "--abstain", "0.1"], "CLASS=COLUMN"),
        (["--score-of", "fraud=a", "--score-of", "fraud=b", "--abstain", "0.1"], "twice"),
        (["--score-of", "fraud=z", "--abstain", "0.1"], "a column of the table"),
        (["--score-of", "lost=a", "--abstain", "0.1"], "which no row"),
        ([*SCORES, "--score", "a", "--abstain", "0.1"], "one of them"),
        (["--maximize", "recall", "--subject-to", "precision >= 0.9"], "the column of the scores"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_written(words: list[str], expected: str) -> None:
    table("rows.csv", 200, 0)
    code, _, err = run("rows.csv", "--target", "y", *words)
    assert (code, len(err.strip().splitlines())) == (2, 1), err
    assert expected in err
    assert not Path("decisions").exists()
