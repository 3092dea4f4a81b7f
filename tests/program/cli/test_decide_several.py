"""``aimfor decide`` for several classes: a floor each, abstention, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from aimfor.cli.main import app

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
    assert f"fraud, where a is above {document['decisions']['fraud']['threshold']:.10g}" in out
    for place, (name, floor) in enumerate((("fraud", 0.9), ("theft", 0.8))):
        above = s[:, place] > document["decisions"][name]["threshold"]
        assert stats.binom.sf((y[above] == name).sum() - 1, above.sum(), floor) <= 0.025


def check(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *words])
    return result.exit_code, result.output


def test_floors_have_a_page_with_a_part_for_each_class_and_are_watched_together() -> None:
    table("rows.csv", 1500, 0)
    floors = ["--subject-to", "precision[label=fraud] >= 0.9", "--subject-to", "precision[label=theft] >= 0.8"]
    code, out, err = run("rows.csv", "--target", "y", *SCORES, "--maximize", "recall", *floors)
    assert code == 0, err
    assert "page: decisions/rows/decision.html" in out
    document = json.loads(Path("decisions/rows/decision.json").read_text())
    page = Path("decisions/rows/decision.html").read_text()
    assert page.count("<svg") == 2
    assert "fraud, where a is above" in page
    assert "theft, where b is above" in page
    for name in ("fraud", "theft"):
        reached = [line["objective"] or 0.0 for line in document["parts"][name]["prices"]]
        assert len(reached) >= 5
        assert reached[0] > reached[-1]  # from ten points looser to ten tighter

    s, y = table("new.csv", 4000, 5)
    code, out = check("decisions/rows", "new.csv")
    assert "4000 new rows, 4000 in all" in out
    assert code in (0, 3), out
    line = json.loads(Path("decisions/rows/check.jsonl").read_text().splitlines()[-1])
    for place, name in enumerate(("fraud", "theft")):
        above = s[:, place] > document["decisions"][name]["threshold"]
        tp, fp, fn, _ = line["counts"]["table"][place]
        assert (tp, fp, fn) == ((y[above] == name).sum(), (y[above] != name).sum(), (y[~above] == name).sum())
    rows = Path("new.csv").read_text().replace("theft", "rest")
    Path("worse.csv").write_text(rows)
    code, out = check("decisions/rows", "worse.csv")
    assert code == 1, out
    assert "8000 in all" in out


def test_a_class_without_a_threshold_is_not_watched_and_none_at_all_is_refused() -> None:
    table("rows.csv", 1500, 0)
    floors = ["--subject-to", "precision[label=fraud] >= 0.9", "--subject-to", "precision[label=theft] >= 0.9999"]
    code, out, _ = run("rows.csv", "--target", "y", *SCORES, "--maximize", "recall", *floors)
    assert (code, "theft: No threshold" in out) == (1, True)
    table("new.csv", 300, 5)
    _, out = check("decisions/rows", "new.csv")
    assert "300 new rows, 300 in all" in out
    assert "precision[label=fraud] >= 0.9" in out
    assert "theft" not in out
    code, _, _ = run("rows.csv", "--target", "y", *SCORES, "--maximize", "recall", *floors[2:])
    assert code == 1
    assert "none" in Path("decisions/rows-2/decision.html").read_text()  # the first decision is where it was
    code, out = check("decisions/rows-2", "new.csv", "--log", "other.jsonl")
    assert (code, "nothing to watch" in out) == (2, True)


def test_abstention_has_a_page_and_is_watched() -> None:
    table("rows.csv", 1500, 0)
    code, out, err = run("rows.csv", "--target", "y", *ALL, "--abstain", "0.04")
    assert code == 0, err
    document = json.loads(Path("decisions/rows/decision.json").read_text())
    (error,) = document["certificate"]["findings"]
    assert f"error is {error['value']:.4f} on these rows, confidence bounds {error['low']:.4f} to" in out
    page = Path("decisions/rows/decision.html").read_text()
    assert "ahead of the next by more than" in page
    assert [line["constraint"] for line in document["prices"]][-1] == "error <= 0.16"
    covered = [line["objective"] for line in document["prices"] if line["objective"] is not None]
    assert covered == sorted(covered)
    assert max(covered) > document["coverage"]
    s, y = table("new.csv", 2000, 5)
    code, out = check("decisions/rows", "new.csv")
    assert code in (0, 3), out
    ordered = np.sort(s, 1)
    sure = ordered[:, 2] - ordered[:, 1] > document["decision"]["threshold"]
    right = np.array(["fraud", "theft", "rest"])[s.argmax(1)] == y
    line = json.loads(Path("decisions/rows/check.jsonl").read_text())
    assert line["counts"]["table"] == [(right & sure).sum(), (~right & sure).sum(), (right & ~sure).sum(),
                                       (~right & ~sure).sum()]  # fmt: skip
    Path("strange.csv").write_text("a,b,c,y\n1,2,3,arson\n")
    code, out = check("decisions/rows", "strange.csv")
    assert (code, "none for 'arson'" in out) == (2, True)


@pytest.mark.parametrize(
    "damage", ['{"kind": "decisions"}', '{"kind": "abstention", "target": "y", "scores": {}, "error": "much"}']
)
def test_a_damaged_document_is_one_line(damage: str) -> None:
    Path("decision.json").write_text(damage)
    table("new.csv", 30, 5)
    code, out = check("decision.json", "new.csv")
    assert (code, len(out.strip().splitlines())) == (2, 1), out


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
        ([*SCORES, "--score", "a", "--abstain", "0.1"], "one of the two"),
        (["--maximize", "recall", "--subject-to", "precision >= 0.9"], "the column of the scores"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_written(words: list[str], expected: str) -> None:
    table("rows.csv", 200, 0)
    code, _, err = run("rows.csv", "--target", "y", *words)
    assert (code, len(err.strip().splitlines())) == (2, 1), err
    assert expected in err
    assert not Path("decisions").exists()
