"""``aimfor decide``: a threshold from files, a page and JSON about it, and one line for whatever is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from aimfor.cli.decide import page as decision_page
from aimfor.cli.main import app

BASE = ["--target", "y", "--score", "s", "--maximize", "recall"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def scores(name: str, n: int, seed: int, shift: float = 2.0) -> str:
    rng = np.random.default_rng(seed)
    y, sex = rng.random(n) < 0.3, np.where(rng.random(n) < 0.5, "female", "<male>")
    s = rng.normal(size=n) + shift * y
    lines = [f"{a:.6f},{'yes' if b else 'no'},{c}" for a, b, c in zip(s, y, sex, strict=True)]
    Path(name).write_text("\n".join(["s,y,sex", *lines]) + "\n")
    return name


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["decide", *words])
    return result.exit_code, result.stdout, result.stderr


def test_a_threshold_with_its_promise_a_page_and_json() -> None:
    code, out, _ = run(scores("cal.csv", 2500, 0), *BASE, "--subject-to", "precision >= 0.8", "--learn",
                       scores("learn.csv", 2000, 1), "--json")  # fmt: skip
    assert code == 0
    document = json.loads(out)
    assert document == json.loads(Path("decisions/cal/decision.json").read_text())
    cut = document["decision"]["threshold"]
    table = np.genfromtxt("cal.csv", delimiter=",", dtype=str, skip_header=1)
    above, y = table[:, 0].astype(float) > cut, table[:, 1] == "yes"
    assert stats.binom.sf((above & y).sum() - 1, above.sum(), 0.8) <= 0.05
    assert document["certificate"]["verdict"] == "met"
    assert document["decision"]["guarantee"]["rows"] == 2500
    costs = {line["constraint"]: line["objective"] for line in document["prices"]}
    assert costs["precision >= 0.7"] > document["certificate"]["objective_value"] > costs["precision >= 0.9"]
    page = Path("decisions/cal/decision.html").read_text()
    assert f"{cut:.10g}" in page
    assert "<svg" in page
    assert not re.search(r"""(?:src|href)=["']https?:""", page)  # works offline


def test_the_promise_is_said_once_and_what_it_rests_on_in_a_line() -> None:
    code, out, _ = run(scores("cal.csv", 2500, 0), *BASE, "--subject-to", "precision >= 0.8")
    document = json.loads(Path("decisions/cal/decision.json").read_text())
    (found,), price = document["certificate"]["findings"], document["decision"]["guarantee"]["price"]
    assert (code, out.count("confidence."), "precision >= 0.8" in out, len(out.splitlines())) == (0, 1, False, 4)
    said = (
        f"precision is {found['value']:.4f} on these rows, confidence bounds {found['low']:.4f} to {found['high']:.4f}"
    )
    for fact in ("1750 independent calibration rows", f"{price['without']:.4g} without", said):
        assert fact in out.splitlines()[2]


def test_groups_by_name_and_thresholds_of_their_own() -> None:
    code, out, _ = run(scores("cal.csv", 3000, 0), "--target", "y", "--score", "s", "--maximize", "accuracy", "--group",
                       "sex", "--subject-to", "gap(fpr, sex) <= 0.06", "--subject-to", "recall[sex=female] >= 0.5",
                       "--out", "here")  # fmt: skip
    assert code == 0, out
    assert re.search(r"^Use s > [-.\d]+ for sex = female\.$", out, re.MULTILINE)
    assert re.search(r"^Use s > [-.\d]+ for sex = <male>\.$", out, re.MULTILINE)
    page = Path("here/decision.html").read_text()
    for text in (out, page):  # the file's own words, not the places at which they are stored
        assert "recall[sex=female]" in text
        assert "sex=0" not in text
    assert "<male>" not in page  # user text is escaped
    assert "&lt;male&gt;" in page


def test_nothing_can_be_guaranteed_is_exit_code_1_and_a_sentence() -> None:
    code, out, _ = run(scores("cal.csv", 150, 3, 1.2), *BASE, "--subject-to", "precision >= 0.95")
    assert code == 1
    assert out.startswith("No threshold can be promised. Not shown with 95 % confidence: at least 95 of 100 flagged")
    assert out.splitlines()[1] == "'yes' is taken as the positive class (choose with --positive)"
    assert out.splitlines()[2].startswith("No threshold is clearly inside the bounds, so more rows")
    assert "Today one could guarantee precision >= 0.5" in out.splitlines()[2]
    assert json.loads(Path("decisions/cal/decision.json").read_text())["decision"]["threshold"] is None


FLOOR = ["--subject-to", "precision >= 0.8"]
BAD = {
    "a rate misspelt": ([*BASE, "--subject-to", "precsion >= 0.8"], "Did you mean 'precision'"),
    "a column misspelt": ([*BASE, "--subject-to", "gap(fpr, sexx) <= 0.1"], "Did you mean 'sex'"),
    "a label misspelt": ([*BASE, "--subject-to", "recall[sex=femal] >= 0.1"], "Did you mean 'female'"),
    "no constraint": (BASE, "subject-to"),
    "two goals": ([*BASE, "--minimize", "fpr", *FLOOR], "maximize"),
    "contradiction": ([*BASE, "--subject-to", "recall >= 0.9", "--subject-to", "fnr >= 0.3"], "can hold together"),
    "out of reach": ([*BASE, "--subject-to", "precision >= 0.99", "--subject-to", "recall >= 0.99"], "comes near"),
    "confidence": ([*BASE, *FLOOR, "--confidence", "95"], "confidence: got 95"),
    "the same rows twice": ([*BASE, *FLOOR, "--learn", "cal.csv"], "other rows"),
    "the same rows in another file": ([*BASE, *FLOOR, "--learn", "copy.csv"], "calibration rows too"),
    "group missing from calibration": (
        [*BASE, "--subject-to", "gap(fpr, sex) <= 0.1", "--learn", "third.csv"], "'other' in third.csv only",
    ),
    "a floor that says nothing": ([*BASE, "--subject-to", "precision >= 0"], "Every decision keeps it"),
    "a ceiling that says nothing": ([*BASE, "--subject-to", "gap(fpr, sex) <= 1"], "Every decision keeps it"),
    "a floor of one": ([*BASE, "--subject-to", "worst(precision, sex) >= 1"], "No number of rows can show"),
    "a ceiling of nothing": ([*BASE, "--subject-to", "fpr <= 0"], "No number of rows can show"),
    "a floor above one": ([*BASE, "--subject-to", "precision >= 1.2"], "Write 0.012, or 1.2% in words"),
    "a floor in percent": ([*BASE, "--subject-to", "precision >= 90"], "Write 0.9, or 90% in words"),
    "a floor below nothing": ([*BASE, "--subject-to", "precision >= -0.1"], "bound of precision >=: got -0.1"),
    "a floor for one class of several": (
        ["--target", "y", "--score-of", "yes=s", "--maximize", "recall", "--subject-to", "precision[label=yes] >= 1"],
        "No number of rows can show",
    ),
    "no such file": ([*BASE, *FLOOR, "--learn", "nowhere.csv"], "does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_one_line_and_nothing_is_written(case: str) -> None:
    scores("cal.csv", 2000, 0)
    lines = Path("cal.csv").read_text().splitlines()
    Path("copy.csv").write_text("\n".join([lines[0], *lines[500:700], "0.5,yes,female"]) + "\n")
    Path("third.csv").write_text(
        "\n".join([lines[0], *(f"{i / 50},{'yes' if i % 3 else 'no'},other" for i in range(60))])
    )
    before = set(Path().rglob("*"))
    words, expected = BAD[case]
    refused(["cal.csv", *words], expected)
    assert set(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s, y: ("1.5", y), "one score"),
        (lambda s, y: (s, "yes"), "one value only"),
        (lambda s, y: ("inf" if y == "yes" else s, y), "turned into a logit"),
        (lambda s, y: ("" if y == "yes" else s, y), "without a score"),
        (lambda s, y: ("high" if y == "yes" else s, y), "numbers"),
    ],
    ids=["constant", "one class", "infinite", "missing", "text"],
)
def test_bad_scores_are_one_line(change: object, expected: str) -> None:
    scores("cal.csv", 300, 0)
    rows = [line.split(",") for line in Path("cal.csv").read_text().splitlines()]
    changed = [",".join([*change(s, y), g]) for s, y, g in rows[1:]]  # type: ignore[operator]
    Path("cal.csv").write_text("\n".join(["s,y,sex", *changed]) + "\n")
    refused(["cal.csv", *BASE, *FLOOR], expected)
    assert not Path("decisions").exists()


def test_too_few_rows_are_one_line() -> None:
    refused([scores("cal.csv", 25, 0), *BASE, *FLOOR], "25 rows, to be split, expected at least 65")
    assert not Path("decisions").exists()


def test_more_than_two_classes_are_pointed_to_scores_of_each() -> None:
    rows = "\n".join(f"{i},{'abc'[i % 3]}" for i in range(300))
    Path("cal.csv").write_text(f"s,y\n{rows}\n")
    refused(["cal.csv", *BASE, *FLOOR], "3 classes (a, b, c), expected two classes. Name the one to find")
    refused(["cal.csv", *BASE, *FLOOR], "--score-of CLASS=COLUMN")


def watch(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check", *words])
    return result.exit_code, result.stdout, result.stderr


def test_labels_of_another_vocabulary_are_not_counted_as_negatives() -> None:
    assert run(scores("cal.csv", 2000, 0), *BASE, *FLOOR)[0] == 0
    scores("new.csv", 100, 1)
    Path("new.csv").write_text(Path("new.csv").read_text().replace(",yes,", ",1,").replace(",no,", ",0,"))
    code, _, err = watch("decisions/cal", "new.csv")
    assert code == 2
    assert "the label '0' in new.csv, expected labels of the decision, 'no' or 'yes'" in err
    assert not Path("decisions/cal/check.jsonl").exists()


def test_a_decision_is_watched_and_the_log_adds_up() -> None:
    careful = ["--subject-to", "precision >= 0.75", "--confidence", "0.9999"]
    assert run(scores("cal.csv", 2500, 0), *BASE, *careful)[0] == 0
    seen = []
    for day in range(4):
        code, out, _ = watch("decisions/cal", scores(f"day{day}.csv", 150 if day == 0 else 1500, 50 + day))
        seen.append(code)
        assert f"{150 + 1500 * day} in all" in out
    assert seen[0] == 3  # 150 rows say nothing yet
    assert seen[-1] == 0
    log = [json.loads(line) for line in Path("decisions/cal/check.jsonl").read_text().splitlines()]
    assert [line["rows"] for line in log] == [150, 1500, 1500, 1500]
    table = np.concatenate([np.genfromtxt(f"day{d}.csv", delimiter=",", dtype=str, skip_header=1) for d in range(4)])
    cut = json.loads(Path("decisions/cal/decision.json").read_text())["decision"]["threshold"]
    above, y = table[:, 0].astype(float) > cut, table[:, 1] == "yes"
    assert log[-1]["counts"]["table"] == [
        (above & y).sum(),
        (above & ~y).sum(),
        (~above & y).sum(),
        (~above & ~y).sum(),
    ]
    code, _, err = watch("decisions/cal", "day0.csv")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "counted before" in err
    assert len(Path("decisions/cal/check.jsonl").read_text().splitlines()) == 4


def test_groups_that_are_called_by_numbers_keep_their_own_names() -> None:
    scores("cal.csv", 3000, 0)
    text = Path("cal.csv").read_text().replace("female", "1").replace("<male>", "2")
    Path("cal.csv").write_text(text)
    floors = ["--subject-to", "recall[sex=1] >= 0.5", "--subject-to", "recall[sex=2] >= 0.4"]
    assert run("cal.csv", *BASE, *floors)[0] == 0
    Path("new.csv").write_text(text + "\n")
    _, out, _ = watch("decisions/cal", "new.csv")
    assert "recall[sex=1] >= 0.5" in out
    assert "recall[sex=2] >= 0.4" in out


def test_a_floor_that_no_longer_holds_is_missed() -> None:
    assert run(scores("cal.csv", 2500, 0), *BASE, "--subject-to", "precision >= 0.75")[0] == 0
    code, out, _ = watch("decisions/cal", scores("drifted.csv", 3000, 9, 0.3), "--log", "other.jsonl")
    assert code == 1
    assert "missed" in out
    assert Path("other.jsonl").exists()


def table(name: str, n: int, seed: int, shift: float = 2.0) -> str:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    x = rng.normal(size=(n, 3)) + shift * y[:, None]
    lines = [f"{a:.5f},{b:.5f},{c:.5f},{'yes' if label else 'no'}" for (a, b, c), label in zip(x, y, strict=True)]
    Path(name).write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    return name


def train(metric: str) -> None:
    words = ["train", table("rows.csv", 900, 0), "--target", "y", "--metric", metric, "--fast", "--out", "run", "-q"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr


def test_a_run_with_a_floor_is_watched_in_the_same_way() -> None:
    train("recall@precision=0.8")
    seen = [watch("run", table(f"day{day}.csv", n, 20 + day))[0] for day, n in enumerate((10, 3000))]
    assert seen == [3, 0]
    (first, second) = (json.loads(line) for line in Path("run/check.jsonl").read_text().splitlines())
    assert (first["total"], second["total"]) == (10, 3010)
    new = np.genfromtxt("day0.csv", delimiter=",", dtype=str, skip_header=1)
    code, found, _ = predicted("day0.csv")
    assert code == 0
    both = list(zip([line.split(",")[-1] for line in found.strip().splitlines()[1:]], new[:, 3], strict=True))
    pairs = [("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")]
    assert first["counts"]["table"] == [both.count(pair) for pair in pairs]
    code, out, _ = watch("run", table("drifted.csv", 3000, 40, 0.1), "--log", "drift.jsonl")
    assert (code, "missed" in out) == (1, True)
    Path("bare.csv").write_text("a,b,c\n1,2,3\n")
    code, _, err = watch("run", "bare.csv")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "without the column 'y'" in err
    assert len(Path("run/check.jsonl").read_text().splitlines()) == 2


def predicted(name: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["predict", "run", name])
    return result.exit_code, result.stdout, result.stderr


def test_a_run_without_a_floor_has_nothing_to_watch() -> None:
    train("auroc")
    code, _, err = watch("run", "rows.csv")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "a metric with a floor" in err
    assert not Path("run/check.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nowhere", "cal.csv"], "does not exist"),
        (["decisions/cal", "nowhere.csv"], "does not exist"),
        (["decisions/cal", "cal.csv", "--log", "cal.csv"], "not a log"),
        (["decisions/cal", "cal.csv", "--confidence", "2"], "confidence"),
        (["package.json", "cal.csv"], "no decision"),
    ],
)
def test_bad_input_of_check_is_one_line(words: list[str], expected: str) -> None:
    assert run(scores("cal.csv", 2500, 0), *BASE, "--subject-to", "precision >= 0.75")[0] == 0
    Path("package.json").write_text("{}")
    code, _, err = watch(*words)
    assert (code, len(err.strip().splitlines())) == (2, 1), err
    assert expected in err


def refused(words: list[str], expected: str) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert len(err.strip().splitlines()) == 1, err
    assert err.startswith("aimfor: ")
    assert expected in err


def test_a_second_decision_has_a_folder_of_its_own_and_a_log_belongs_to_one_decision() -> None:
    assert run(scores("cal.csv", 2500, 0), *BASE, *FLOOR)[0] == 0
    first = Path("decisions/cal/decision.json").read_text()
    assert run(scores("cal.csv", 2500, 7), *BASE, *FLOOR)[0] == 0
    assert Path("decisions/cal/decision.json").read_text() == first
    assert json.loads(Path("decisions/cal-2/decision.json").read_text())["problem"] == json.loads(first)["problem"]
    watch("decisions/cal", scores("new.csv", 500, 8), "--log", "one.jsonl")
    code, _, err = watch("decisions/cal-2", scores("more.csv", 500, 9), "--log", "one.jsonl")
    assert (code, "counts at other thresholds" in err) == (2, True)
    assert len(Path("one.jsonl").read_text().splitlines()) == 1


def test_standard_input_and_output() -> None:
    text = Path(scores("cal.csv", 2500, 0)).read_bytes()
    words = [*BASE, *FLOOR]
    assert run("cal.csv", *words, "--out", "filed")[0] == 0
    done = subprocess.run([sys.executable, "-m", "aimfor", "decide", "-", *words, "--out", "-"], input=text,
                          capture_output=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    piped, filed = json.loads(done.stdout), json.loads(Path("filed/decision.json").read_text())
    assert (piped.pop("data"), filed.pop("data")) == ("stdin.csv", "cal.csv")
    assert piped == filed
    assert sorted(path.name for path in Path().iterdir()) == ["cal.csv", "filed"]
    code, out, _ = run("cal.csv", *BASE, "--subject-to", "precision >= 0.99", "--out", "-")
    assert (code, json.loads(out)["decision"]["threshold"]) == (1, None)
    empty = subprocess.run([sys.executable, "-m", "aimfor", "decide", "-", *words], input=b"", capture_output=True)
    assert (empty.returncode, len(empty.stderr.splitlines()), empty.stdout) == (2, 1, b"")


def test_without_a_threshold_the_page_draws_none_and_all_numbers_have_one_denominator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[float | None] = []
    plain = decision_page.decision_curves

    def watched(
        scale: object, cuts: object, lines: object, region: object, mark: float | None, bands: object
    ) -> object:
        drawn.append(mark)
        return plain(scale, cuts, lines, region, mark, bands)

    monkeypatch.setattr(decision_page, "decision_curves", watched)
    assert run(scores("few.csv", 150, 3, 1.2), *BASE, "--subject-to", "precision >= 0.95")[0] == 1
    page = Path("decisions/few/decision.html").read_text()
    assert "threshold chosen" not in page
    assert drawn == [None]
    assert run(scores("cal.csv", 2500, 0), *BASE, *FLOOR)[0] == 0
    page, document = (Path(f"decisions/cal/decision.{kind}").read_text() for kind in ("html", "json"))
    found = json.loads(document)
    assert "threshold chosen" in page
    assert drawn[1:] == [found["decision"]["threshold"]]
    assert found["certificate"]["examples"] == found["decision"]["guarantee"]["rows"] == 1750
    positives = {round(1 / (b - a)) for a, b in _steps(found["curve"]["recall"])}
    assert max(positives) <= 0.4 * 1750  # recall on the calibration rows, not on all 2500


def _steps(values: list[float]) -> list[tuple[float, float]]:
    """Neighbours that differ, ascending."""
    return [(b, a) for a, b in pairwise(values) if a > b]
