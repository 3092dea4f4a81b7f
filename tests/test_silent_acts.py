"""What the program once did without a word: copies across a split, labels in two spellings, formulas, escapes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aimfor.cli.decide.scores import read_columns
from aimfor.cli.main import app
from aimfor.data import checkpoint
from aimfor.data.columns.cells import from_array
from aimfor.data.columns.schema import decide
from aimfor.data.settings import Settings
from aimfor.data.tables import read_table
from aimfor.errors import InputError
from aimfor.runs import driver
from aimfor.runs.compare.cells import key_of
from aimfor.runs.predict import write_rows
from aimfor.runs.prepared import prepare
from aimfor.targets.classes import fit_labels


def table(path: Path, rows: list[tuple[object, ...]], header: str = "a,b,c,y") -> str:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


def draws(n: int = 400, seed: int = 0) -> list[tuple[object, ...]]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 3)).round(6)
    return [(*row, "yes" if hit else "no") for row, hit in zip(x, draw.random(n) < 0.3, strict=True)]


def prepared(data: str, metric: str = "auroc", **more: object) -> object:
    return prepare(Settings(data=data, target="y", metric=metric, **more), ensemble=True)


def test_copies_stay_in_one_part_and_are_counted(tmp_path: Path) -> None:
    rows = draws()
    found = prepared(table(tmp_path / "t.csv", rows + rows[:150]), holdout=0.2)
    assert "150 of 550 rows are copies of other rows: equal rows stay together in test rows and folds" in found.notes
    test = set(found.parts.test.tolist())
    assert all((row in test) == (row + 400 in test) for row in range(150))
    assert 80 < len(test) < 140


def test_a_table_without_copies_is_split_as_ever(tmp_path: Path) -> None:
    found = prepared(table(tmp_path / "t.csv", draws()))
    assert found.source.whole is None
    assert not [note for note in found.notes if "cop" in note]


def test_an_identifier_does_not_hide_copies(tmp_path: Path) -> None:
    rows = [(f"id{place}", *row) for place, row in enumerate([*draws(), *draws()])]
    found = prepared(table(tmp_path / "t.csv", rows, "name,a,b,c,y"))
    assert any(note.startswith("400 of 800 rows are copies") for note in found.notes)


def test_copies_of_too_few_rows_are_said_and_left(tmp_path: Path) -> None:
    rows = draws()
    rare = next(row for row in rows if row[-1] == "yes")
    others = [row for row in rows if row[-1] == "no"]
    found = prepared(table(tmp_path / "t.csv", [*others, *[rare] * 40]))
    said = [note for note in found.notes if "copies of other rows, also in different parts of the split" in note]
    assert [note.split()[0] for note in said] == ["39"]
    assert found.source.whole is None


@pytest.mark.parametrize("positive", [None, "Yes"])
def test_labels_that_differ_in_capitals_only_are_refused(positive: str | None) -> None:
    labels = np.array(["Yes", "yes", "YES", "no"] * 10, dtype=object)
    with pytest.raises(InputError, match=r"capitals only \('YES', 'Yes', 'yes'\), expected one spelling"):
        fit_labels(labels, binary=True, positive=positive)
    assert fit_labels(labels, binary=False).classes == [
        "YES",
        "Yes",
        "no",
        "yes",
    ]  # letters may be classes of their own


FORMULAS = ["=cmd()", "+1 a", "-x", "@home", "\tx", "-1.5", "+3e5", "plain", "", "-"]


def test_texts_that_a_spreadsheet_would_run_get_an_apostrophe() -> None:
    file, raw = io.StringIO(), io.StringIO()
    write_rows(file, [FORMULAS], raw=False)
    write_rows(raw, [FORMULAS], raw=True)
    wanted = ["'=cmd()", "'+1 a", "'-x", "'@home", "'\tx", "-1.5", "+3e5", "plain", "", "'-"]
    assert next(csv.reader(io.StringIO(file.getvalue()))) == wanted
    assert next(csv.reader(io.StringIO(raw.getvalue()))) == FORMULAS


def test_no_cell_and_no_name_keeps_what_a_terminal_obeys(tmp_path: Path) -> None:
    lines = ["a,b\x1b]0;title\x07,y", *["1,\x1b[31mred\x07,\x1b[2Jyes", "2,blue\x00,no"] * 30]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf8")
    for columns in (read_table(tmp_path / "t.csv"), read_columns(tmp_path / "t.csv")):
        assert list(columns) == ["a", "b]0;title", "y"]
    assert read_table(tmp_path / "t.csv")["b]0;title"].distinct()[1] == ["[31mred", "blue"]
    assert set(read_columns(tmp_path / "t.csv")["y"]) == {"[2Jyes", "no"}
    assert prepared(str(tmp_path / "t.csv")).labels.classes == ["no", "[2Jyes"]


def trained(tmp_path: Path, *words: str) -> Path:
    data, out = table(tmp_path / "t.csv", draws()), tmp_path / "run"
    given = ["train", data, "--target", "y", "--metric", "f1", "--members", "linear", "--out", str(out), *words]
    assert CliRunner().invoke(app, given).exit_code == 0
    return out


def test_every_command_refuses_a_run_whose_files_have_changed(tmp_path: Path) -> None:
    run = trained(tmp_path)
    data = str(tmp_path / "t.csv")
    commands = (["predict", str(run), data], ["report", str(run)], ["export", str(run), "--onnx"])
    stored = json.loads((run / "threshold.json").read_text())
    member = next((run / "members").glob("*.safetensors"))
    content = member.read_bytes()

    def refused(file: Path) -> None:
        for words in commands:
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 2, words
            assert len(done.stderr.strip().splitlines()) == 1
            assert file.name in done.stderr

    (run / "threshold.json").write_text(json.dumps({**stored, "threshold": 1e308}))
    refused(run / "threshold.json")
    checkpoint.write_json(run / "threshold.json", stored)
    for damaged in (content[:-3] + bytes([content[-3] ^ 1]) + content[-2:], content[: len(content) // 2], b""):
        member.write_bytes(damaged)
        refused(member)
    member.unlink()
    refused(member)
    member.symlink_to(tmp_path / "t.csv")
    refused(member)
    member.unlink()
    member.write_bytes(content)
    assert [CliRunner().invoke(app, words).exit_code for words in commands[:2]] == [0, 0]
    (run / "files.json").unlink()  # a run of before there were any
    assert CliRunner().invoke(app, commands[0]).exit_code == 0


def test_equal_models_have_equal_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (trained(tmp_path / name) for name in "ab")
    sums = [json.loads((run / "files.json").read_text())["sha256"] for run in (first, second)]
    assert {"threshold.json", "committee.json", "members/linear-0.safetensors"} < sums[0].keys()
    assert {name for name in sums[0] if sums[0][name] != sums[1].get(name)} == {"config.json"}  # it names the data


def test_a_limit_of_memory_is_kept_or_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver.over_limit(0) == []
    monkeypatch.setattr(driver, "peak_megabytes", lambda: 889.4)
    assert driver.over_limit(400 << 20) == ["--memory 400MB was not kept: at its peak the run had 889 MB"]
    assert driver.over_limit(900 << 20) == []
    run = trained(tmp_path, "--memory", "500MB")
    assert "--memory 500MB was not kept: at its peak the run had 889 MB" in (run / "metrics.json").read_text()


def test_words_among_numbers_are_noted() -> None:
    numbers = [f"{value / 7:.3f}" for value in range(86)]
    column = from_array("a", np.array([*numbers, *["?!"] * 14], dtype=object))
    assert decide("a", column).note == (
        "87 different texts in 100 rows; 86% of its values are numbers (to read them: --column a=number)"
    )
    column = from_array("a", np.array([*["1", "2", "3"] * 20, *["none yet", "some"] * 5], dtype=object))
    assert decide("a", column).note == "86% of its values are numbers (to read them: --column a=number)"
    column = from_array("a", np.array(["red", "blue", "3"] * 20, dtype=object))
    assert decide("a", column).note == ""


def test_a_comparison_takes_one_table_and_knows_its_cells_wherever_they_ran(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    table(tmp_path / "parts" / "1.csv", draws())
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "parts"), "--target", "y", "--metric", "auroc"])
    assert done.exit_code == 2
    assert "a folder of tables, expected one table, which is read into memory" in done.stderr
    cell = {"settings": Settings(data="t.csv", metric="f1").model_dump(), "entrant": "ensemble"}
    there = {**cell, "settings": {**cell["settings"], "data": "/elsewhere/t.csv"}}
    assert key_of(cell, "content") == key_of(there, "content") != key_of(cell, "other content")
    assert key_of({**cell, "entrant": "lightgbm"}, "content") != key_of(cell, "content")
