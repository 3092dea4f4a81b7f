"""What the program once did without a word: copies across a split, labels in two spellings, formulas, escapes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from aimfor.cli.decide.rows import read_columns
from aimfor.data.settings import Settings
from aimfor.data.tables import read_table
from aimfor.errors import InputError
from aimfor.runs.predict import TableWriter
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
    TableWriter(file, raw=False).writerows([FORMULAS])
    TableWriter(raw, raw=True).writerow(FORMULAS)
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
