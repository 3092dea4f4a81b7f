"""``aimfor decide --cluster``, and the notes about rows that belong together where nobody has said so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aimfor.__main__ import main

ASKED = ["--target", "y", "--score", "s", "--maximize", "recall", "--subject-to", "precision >= 0.6", "--out", "here"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(clusters: int, size: int, within: float, order: str = "file", column: bool = True) -> None:
    rng = np.random.default_rng(0)
    n = clusters * size
    first = np.repeat(np.arange(clusters) * size, size)
    source = np.where(rng.random(n) < within, first, np.arange(n))
    y = (rng.random(n) < 0.4)[source]
    s = rng.normal(size=n) + 1.5 * y
    lines = [f"{a:.6f},{int(b)},{place // size},{place}" for place, (a, b) in enumerate(zip(s, y, strict=True))]
    if order == "shuffled":
        lines = [lines[place] for place in rng.permutation(n)]
    if order == "sorted":
        lines = [lines[place] for place in np.argsort(y, kind="stable")]
    if not column:
        lines = [",".join(line.split(",")[:2]) for line in lines]
    Path("rows.csv").write_text("\n".join(["s,y,doc,row" if column else "s,y", *lines]) + "\n")


def noted() -> list[str]:
    assert main(["decide", "rows.csv", *ASKED]) == 0
    notes: list[str] = json.loads(Path("here/decision.json").read_text())["notes"]
    return [note for note in notes if "positive class" not in note]


def test_clusters_are_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    write(800, 5, 0.6)
    assert main(["decide", "rows.csv", *ASKED, "--cluster", "doc"]) == 0
    assert "independent clusters (2800 rows)" in capsys.readouterr().out
    assert json.loads(Path("here/decision.json").read_text())["cluster"] == "doc"


def test_a_column_by_which_rows_agree_is_named_in_any_order_of_the_file() -> None:
    for order in ("file", "shuffled", "sorted"):
        write(600, 5, 0.6, order)
        (note,) = noted()
        assert note.startswith("rows with the same doc agree more than chance allows (600 values")
        assert note.endswith("--cluster doc")


def test_measurements_are_no_clusters() -> None:
    """A share of right sentences, whose whole ones are the label, agrees with it more than any document does."""
    write(600, 5, 0.6)
    head, *lines = Path("rows.csv").read_text().splitlines()
    shares = [1.0 if line.split(",")[1] == "1" else place % 20 / 20 for place, line in enumerate(lines)]
    fine = [f"{line},{share:g}" for line, share in zip(lines, shares, strict=True)]
    Path("rows.csv").write_text("\n".join([f"{head},share", *fine]) + "\n")
    (note,) = noted()
    assert note.endswith("--cluster doc")


def test_independent_rows_are_not_suspected_whatever_their_ids_and_order() -> None:
    for order in ("file", "shuffled", "sorted"):
        write(600, 5, 0.0, order)
        assert noted() == []


def test_neighbours_that_agree_are_noticed_without_a_column() -> None:
    write(600, 5, 0.7, column=False)
    (note,) = noted()
    assert note.startswith("neighbouring rows of the file agree")
    write(600, 5, 0.7, "sorted", column=False)  # nothing is known then
    assert noted() == []


def test_a_cluster_of_one_row_each_is_said_and_counted_by_rows() -> None:
    write(800, 5, 0.0)
    assert main(["decide", "rows.csv", *ASKED]) == 0
    alone = json.loads(Path("here/decision.json").read_text())["decision"]
    assert main(["decide", "rows.csv", *ASKED, "--cluster", "row"]) == 0
    document = json.loads(Path("here/decision.json").read_text())
    assert document["decision"] == alone
    assert "every row has a row of its own: rows are counted one by one" in document["notes"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda line: line.rsplit(",", 2)[0] + ",7,1", "one cluster for all"),
        (lambda line: line.rsplit(",", 2)[0] + ",,1", "without a cluster"),
    ],
    ids=["one cluster", "missing"],
)
def test_bad_clusters_are_one_line_and_nothing_is_written(
    change: object, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(100, 5, 0.0)
    head, *lines = Path("rows.csv").read_text().splitlines()
    Path("rows.csv").write_text("\n".join([head, *map(change, lines)]) + "\n")  # type: ignore[call-overload]
    assert main(["decide", "rows.csv", *ASKED, "--cluster", "doc"]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert word in said
    assert main(["decide", "rows.csv", *ASKED, "--cluster", "dok"]) == 2
    assert "Did you mean 'doc'?" in capsys.readouterr().err
    assert not Path("here").exists()
