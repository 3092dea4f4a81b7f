"""``aimfor plan``: rounds of rows to label, the decision their labels allow, and what is refused in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from aimfor.__main__ import main

FLOOR = "precision >= 0.8"


@pytest.fixture(autouse=True)
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Labels of the rows of scores.csv, which nobody has seen yet."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.random(5000) < 0.15
    s = rng.normal(size=5000) + 2.6 * y
    Path("scores.csv").write_text("id,s\n" + "".join(f"r{i},{one!r}\n" for i, one in enumerate(s.tolist())))
    return y


def plan(*more: str, floor: str = FLOOR, budget: str = "200", data: str = "scores.csv") -> int:
    return main(["plan", data, "--score", "s", "--subject-to", floor, "--budget", budget, "--out", "here", *more])


def fill(y: np.ndarray, most: int | None = None) -> None:
    """What a person does: the column label, row by row."""
    lines = list(csv.DictReader(Path("here/to_label.csv").read_text().splitlines()))
    for line in lines[:most]:
        line["label"] = str(int(y[int(line["row"]) - 1]))
    with Path("here/to_label.csv").open("w") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def decide(*more: str) -> int:
    return main(["decide", "here/to_label.csv", "--target", "label", "--score", "s", "--out", "decided", *more])


def test_rounds_lead_to_a_threshold_that_keeps_its_floor(truth: np.ndarray) -> None:
    codes, above = [], []
    for _ in range(4):
        assert plan() == 0
        fill(truth)
        codes.append(decide())
        document = json.loads(Path("decided/decision.json").read_text())
        cut = document["decision"]["threshold"]
        s = np.array([float(line.split(",")[1]) for line in Path("scores.csv").read_text().splitlines()[1:]])
        above.append(0 if cut is None else int((s > cut).sum()))
        if cut is not None:
            assert truth[s > cut].mean() >= 0.8
            assert f"{above[-1]} of the 5000 rows" in document["decision"]["guarantee"]["sentence"]
    assert codes[-1] == 0
    assert above == sorted(above)
    sheet = list(csv.DictReader(Path("here/to_label.csv").read_text().splitlines()))
    assert len(sheet) == 200 + 2 * 200
    assert {line["round"] for line in sheet} == {"0", "1", "2", "3"}
    assert len({line["row"] for line in sheet}) == len(sheet)
    assert document["verdict"].startswith(
        f"Use {document['decision']['threshold']:.10g}. At least 80 of 100 flagged cases"
    )
    page = Path("decided/decision.html").read_text()
    assert "<svg" in page
    assert document["verdict"] in page
    assert main(["check", "decided", "here/to_label.csv"]) in (0, 1, 3)


@pytest.mark.parametrize("bound", ["recall >= 0.7", "npv >= 0.97", "fpr <= 0.08"])
def test_other_rates_are_planned_for_as_well(bound: str, truth: np.ndarray) -> None:
    for _ in range(3):
        assert plan(floor=bound, budget="400") == 0
        fill(truth)
    assert decide() == 0
    document = json.loads(Path("decided/decision.json").read_text())
    s = np.array([float(line.split(",")[1]) for line in Path("scores.csv").read_text().splitlines()[1:]])
    above = s > document["decision"]["threshold"]
    found = {"recall": above[truth].mean(), "npv": 1 - truth[~above].mean(), "fpr": above[~truth].mean()}
    name, limit = bound.split()[0], float(bound.split()[2])
    assert found[name] <= limit if name == "fpr" else found[name] >= limit
    assert 0.01 < above.mean() < 0.9


def test_a_plan_repeats_by_its_seed() -> None:
    assert plan() == 0
    first = Path("here/to_label.csv").read_text()
    Path("here/to_label.csv").unlink()
    Path("here/plan.json").unlink()
    assert plan() == 0
    assert Path("here/to_label.csv").read_text() == first


def refused(code: int, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = capsys.readouterr().err
    assert (code, len(said.splitlines())) == (2, 1), said
    assert word in said


@pytest.mark.parametrize(
    ("floor", "word"),
    [
        ("precision >= 0", "above 0 and below 1"),
        ("precision >= 1", "above 0 and below 1"),
        ("precision >= 1.2", "1.2"),
        ("precision >= 90", "90"),
        ("90", "expression with a rate"),
        ("fpr <= 1", "above 0 and below 1"),
        ("accuracy >= 0.9", "a floor on precision, recall, npv"),
        ("recall[sex=1] >= 0.9", "of all rows"),
        ("precision <= 0.9", "a floor on precision, recall, npv"),
    ],
)
def test_other_floors_are_one_line_and_nothing_is_written(
    floor: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(plan(floor=floor), word, capsys)
    assert not Path("here").exists()


def test_a_budget_beyond_the_rows_and_other_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    refused(plan(budget="5001"), "at most the 5000 rows", capsys)
    refused(plan(budget="0"), ">= 1", capsys)
    refused(plan("--confidence", "95"), "confidence", capsys)
    refused(plan(data="nowhere.csv"), "nowhere.csv", capsys)
    Path("bad.csv").write_text("s\n1\n\nnan\n2\n")
    refused(plan(data="bad.csv"), "without a score", capsys)
    assert not Path("here").exists()


def test_a_plan_over_an_unfinished_one_and_other_rows_and_edited_ones(
    truth: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan() == 0
    capsys.readouterr()
    refused(plan(), "60 of 60 rows without a label", capsys)
    fill(truth, most=40)
    before = Path("here/to_label.csv").read_text()
    refused(plan(), "20 of 60 rows without a label", capsys)
    refused(decide(), "20 of 60 rows without a label", capsys)
    assert Path("here/to_label.csv").read_text() == before
    fill(truth)
    whole = Path("here/to_label.csv").read_text()
    lines = whole.splitlines()
    for changed in (lines[:-1], [*lines, lines[-1]], [lines[0], lines[2], lines[1], *lines[3:]],
                    [lines[0], "9999," + lines[1].split(",", 1)[1], *lines[2:]]):  # fmt: skip
        Path("here/to_label.csv").write_text("\n".join(changed) + "\n")
        refused(decide(), "not those that were drawn", capsys)
        refused(plan(), "not those that were drawn", capsys)
    Path("here/to_label.csv").write_text(whole.replace(",1\n", ",maybe\n", 1))
    refused(decide(), "'maybe'", capsys)
    Path("here/to_label.csv").write_text(whole)
    refused(plan(floor="precision >= 0.9"), "another question", capsys)
    refused(decide("--subject-to", "precision >= 0.9"), "as planned", capsys)
    refused(decide("--minimize", "fpr"), "minimize", capsys)
    assert not Path("decided").exists()
    assert decide("--subject-to", FLOOR) in (0, 1)  # the pilot may know all rows at the top
