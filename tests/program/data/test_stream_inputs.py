"""From the command line: every kind of table that is read as a stream, and one line for each that cannot be."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import Result
from pyarrow import csv as arrow_csv
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import chunks
from aimfor.data.columns import columns_of
from aimfor.data.settings import Settings
from aimfor.errors import InputError
from aimfor.learners.ensemble.members import Job, Rows
from aimfor.learners.ensemble.members.trees import FittedTrees, Trees, boosted
from aimfor.runs.stream import StreamedTrees, members_of
from aimfor.runs.survey import TEST, TRAIN, VALIDATION, HashSplit, prepare

QUICK = ["--fast"]


def rows(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    city = rng.choice(["Bern", "Rome", "Oslo"], n)
    y = (x[:, 0] + (city == "Rome") + 0.5 * rng.standard_normal(n) > 0.5).astype(np.int8)
    return {"a": x[:, 0], "b": x[:, 1], "city": city, "y": y}


def write(folder: Path, files: int = 3, n: int = 500) -> Path:
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(pa.table(rows(n, number)), folder / f"{number}.parquet", row_group_size=100)
    return folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("inputs") / "parts")


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def train(data: Path, out: Path, *words: object, metric: str = "auroc") -> dict[str, Any]:
    result = call("train", data, "--target", "y", "--metric", metric, "--out", out, *words)
    assert result.exit_code == 0, result.output
    return dict(json.loads((out / "metrics.json").read_text()))


def refused(text: str, *words: object, out: Path | None = None) -> None:
    """One line with the text, exit code 2, and no run left behind."""
    result = call(*words, *([] if out is None else ["--out", out]))
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert text in result.stderr
    assert out is None or not out.exists()


def scores(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line["score"] for line in csv.DictReader(result.stdout.splitlines())]


# ------------------------------------------------------------ what can be read


def test_csv_files_train_and_their_rows_score_as_those_of_parquet_files_do(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for file in sorted(parts.glob("*.parquet")):
        arrow_csv.write_csv(pq.read_table(file), tmp_path / "text" / f"{file.stem}.csv")
    (tmp_path / "text" / "README.txt").write_text("about these rows")
    ours = train(tmp_path / "text", tmp_path / "run", *QUICK)
    assert sum(ours["rows"].values()) == 1_500
    assert ours["test"]["metric"] > 0.6
    assert not (tmp_path / "run" / "rows").exists()
    assert scores(call("predict", tmp_path / "run", tmp_path / "text")) == scores(
        call("predict", tmp_path / "run", parts)
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_partitions_are_columns_in_training_and_prediction(kind: str, tmp_path: Path) -> None:
    for number, year in enumerate((2023, 2024)):
        folder = tmp_path / "parts" / f"year={year}"
        folder.mkdir(parents=True)
        table = pa.table(rows(600, number))
        late = pa.array(np.full(600, number, np.int8))  # the year alone decides
        table = table.set_column(table.column_names.index("y"), "y", late)
        if kind == "csv":
            arrow_csv.write_csv(table, folder / "a.csv")
        else:
            pq.write_table(table, folder / "a.parquet", row_group_size=100)
    (tmp_path / "parts" / "_SUCCESS").touch()
    found = train(tmp_path / "parts", tmp_path / "run", "--fast")
    assert found["test"]["metric"] == 1.0
    result = call("predict", tmp_path / "run", tmp_path / "parts")
    decided = [line["decision"] for line in csv.DictReader(result.stdout.splitlines())]
    assert decided == ["0"] * 600 + ["1"] * 600


def test_a_file_larger_than_the_limit_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BASE", 0)
    monkeypatch.setattr("aimfor.runs.stream.BASE", 0)
    monkeypatch.setattr("aimfor.data.chunks.GROUP_ROWS", 2_000)
    arrow_csv.write_csv(pa.table(rows(30_000, 0)), tmp_path / "t.csv")
    needed = 3 * (tmp_path / "t.csv").stat().st_size / 2**20
    found = train(tmp_path / "t.csv", tmp_path / "run", *QUICK, "--memory", f"{needed - 1:.1f}MB")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["kind"] == "stream"
    assert sum(found["rows"].values()) == 30_000
    assert found["rows"]["test"] < 0.15 * 30_000  # fewer are held out than there would be with more memory
    whole = call("train", tmp_path / "t.csv", "--target", "y", "--metric", "auroc", *QUICK, "--memory", "1GB",
                 "--out", tmp_path / "whole")  # fmt: skip
    assert whole.exit_code == 0, whole.output
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["kind"] == "table"


def test_cluster_keeps_rows_together_and_group_breaks_rates_down(parts: Path, tmp_path: Path) -> None:
    many = write(tmp_path / "many", files=2, n=1_000)
    for file in many.glob("*.parquet"):
        table = pq.read_table(file)
        person = pa.array(np.random.default_rng(0).integers(0, 60, table.num_rows))
        pq.write_table(table.append_column("person", person), file, row_group_size=200)
    found = train(many, tmp_path / "run", "--fast", "--cluster", "person", "--group", "city")
    assert {row["group"] for row in found["test"]["groups"]} == {"Bern", "Rome", "Oslo"}
    assert sum(row["n"] for row in found["test"]["groups"]) == found["rows"]["test"]
    whole = pa.concat_tables([pq.read_table(file) for file in sorted(many.glob("*.parquet"))])
    _, part, _ = HashSplit("y", 0.2, 0, "person").parts(columns_of(whole))
    assert found["rows"]["test"] == int((part == TEST).sum())
    persons = [set(whole["person"].to_numpy()[part == one].tolist()) for one in (TRAIN, VALIDATION, TEST)]
    assert not persons[0] & persons[1] | persons[0] & persons[2] | persons[1] & persons[2]
    assert all(persons)


def test_trees_of_all_rows_and_members_of_a_sample_predict_and_report(parts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    found = train(parts, folder, metric="f1")
    assert [one["name"] for one in found["ensemble"]["members"]] == [
        *("trees", "linear", "network"),
    ]
    assert sum(one["weight"] for one in found["ensemble"]["members"]) == pytest.approx(1.0)
    assert found["test"]["metric"] > 0.75
    assert call("report", folder).exit_code == 0
    assert "boosted trees" in (folder / "report.html").read_text()
    result = call("predict", folder, parts, "--evaluate", "--id", "city")
    lines = list(csv.reader(result.stdout.splitlines()))
    assert lines[0] == ["city", "score", "probability", "decision"]
    assert {line[0] for line in lines[1:]} == {"Bern", "Rome", "Oslo"}
    assert len(lines) == 1_501
    assert "f1 on 1500 labelled rows" in result.stderr
    found = json.loads(call("predict", folder, parts, "--json").stdout)
    assert (found["metric"], found["rows"], 0.75 < found["value"] < 1) == ("f1", 1_500, True)
    pytest.importorskip("onnxruntime")
    exported = call("export", folder, "--onnx")  # which compares what the file says with the ensemble
    assert exported.exit_code == 0, exported.output
    # A block at a time, a file at a time, from CSV: the same scores.
    arrow_csv.write_csv(pq.read_table(parts / "1.parquet").drop_columns(["y"]), tmp_path / "one.csv")
    alone = scores(call("predict", folder, tmp_path / "one.csv"))
    assert alone == [line[1] for line in lines[501:1_001]]


def test_trees_from_a_stream_are_those_of_lightgbm_on_the_same_rows(parts: Path, tmp_path: Path) -> None:
    settings = Settings(data=str(parts), metric="auroc", target="y", fast=True)
    ready = prepare(settings, tmp_path / "staged")
    (streamed,), notes = members_of(ready)
    assert notes == []
    rows = Rows(*ready.validation)
    fitted = streamed.fit(Job(rows, rows, ready.objective, 1, 0))
    assert isinstance(fitted, FittedTrees)

    units = [ready.reader.read(unit) for unit in sorted(ready.reader.train)]
    x, y = (torch.cat(part).numpy() for part in zip(*units, strict=True))
    sample = lightgbm.Dataset(ready.sample[0].numpy(), params={"verbose": -1, "min_data_in_leaf": 10})
    train_set = lightgbm.Dataset(x.astype(np.float64), y, reference=sample, params={"verbose": -1})
    member = Trees(fitted.rounds[0], learning_rate=0.1)
    held = lightgbm.Dataset(ready.validation[0].numpy(), ready.validation[1].numpy(), reference=train_set)
    text, _ = boosted(member.all_settings(1, 0), train_set, held, fitted.rounds[0], lambda: False)
    other = type(fitted)(text(fitted.rounds[0]), fitted.rounds, 1)
    assert torch.equal(fitted.scores(ready.test[0]), other.scores(ready.test[0]))


def test_a_limit_too_small_for_all_rows_grows_trees_from_a_stated_share(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aimfor.runs.stream.rows_that_fit", lambda reader, held_out, memory: 400)
    refused_small = call("train", parts, "--target", "y", "--metric", "auroc", "--fast", "--out", tmp_path / "small")
    assert refused_small.exit_code == 2
    monkeypatch.setattr("aimfor.runs.stream._FEWEST", 100)
    found = train(parts, tmp_path / "run", "--fast")
    share = round(100 * 400 / found["rows"]["train"])
    assert f"trees were grown from {share} % of the training rows, the same share of each row group" in found["notes"]


def test_accuracy_of_three_classes_and_one_that_comes_in_the_last_file(parts: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "late")
    late = rows(500, 9)
    late["y"] = np.where(late["a"] > 0, 7, late["y"]).astype(np.int8)
    pq.write_table(pa.table(late), folder / "9.parquet", row_group_size=100)
    found = train(folder, tmp_path / "run", *QUICK, metric="accuracy")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["labels"]["classes"] == ["0", "1", "7"]
    assert len(found["test"]["per_class"]) == 3
    refused("3 classes", "train", folder, "--target", "y", "--metric", "f1", *QUICK, out=tmp_path / "two")


def test_rows_without_a_target_are_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "parts")
    table = pa.table({**rows(500, 9), "y": pa.array([None] * 40 + [0, 1] * 230, pa.int8())})
    pq.write_table(table, folder / "9.parquet", row_group_size=100)
    found = train(folder, tmp_path / "run", *QUICK)
    assert "40 rows without a target were left out" in found["notes"]
    assert sum(found["rows"].values()) == 1_960


# ------------------------------------------------------------ what cannot


def start(data: Path) -> list[object]:
    return ["train", data, "--target", "y", "--metric", "auroc", *QUICK]


def test_files_of_other_columns_or_types(tmp_path: Path) -> None:
    folder = write(tmp_path / "parts")
    pq.write_table(pa.table({**rows(50, 9), "a": [str(i) for i in range(50)]}), folder / "9.parquet")
    refused("9.parquet, where the column 'a' is string", *start(folder), out=tmp_path / "run")
    text = tmp_path / "text"
    text.mkdir()
    arrow_csv.write_csv(pa.table(rows(50, 0)), text / "0.csv")
    arrow_csv.write_csv(pa.table(rows(50, 1)).drop_columns(["b"]), text / "1.csv")
    refused("1.csv.parquet, where the column 'b' is missing", *start(text), out=tmp_path / "run")
    arrow_csv.write_csv(pa.table(rows(50, 0)), folder / "x.csv")
    refused("expected files of one kind", *start(folder), out=tmp_path / "run")


def test_a_damaged_file_in_the_middle(tmp_path: Path) -> None:
    folder = write(tmp_path / "parts")
    whole = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])
    refused("1.parquet, row group 0, which cannot be read", *start(folder), out=tmp_path / "run")
    (folder / "1.parquet").write_bytes(b"")
    refused("1.parquet, which cannot be read", *start(folder), out=tmp_path / "run")
    text = tmp_path / "text"
    text.mkdir()
    (text / "0.csv").write_text("a,y\n1,0\n2\n")
    refused("0.csv, which cannot be read", *start(text), out=tmp_path / "run")
    (text / "0.csv").write_text("a,y\n")
    refused("0.csv with 0 rows", *start(text), out=tmp_path / "run")


def test_a_stream_that_changes_between_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if only two rows change places; what was trained is not kept as finished, and cannot be gone on with."""
    folder, out = write(tmp_path / "parts"), tmp_path / "run"
    fit = StreamedTrees.fit

    def change(member: StreamedTrees, job: Job) -> FittedTrees:
        table = pq.read_table(folder / "1.parquet")
        pq.write_table(table.take([1, 0, *range(2, table.num_rows)]), folder / "1.parquet", row_group_size=100)
        return fit(member, job)

    monkeypatch.setattr(StreamedTrees, "fit", change)
    result = call(*start(folder), "--out", out)
    assert result.exit_code == 2
    assert "has changed since training began" in result.stderr
    assert not (out / "metrics.json").exists()
    assert not (out / "committee.json").exists()
    monkeypatch.undo()
    refused("whose data has changed since", "train", "--resume", out)


def test_a_class_that_the_sample_lacks_leaves_the_trees_alone(parts: Path, tmp_path: Path) -> None:
    ready = prepare(Settings(data=str(parts), metric="auroc", target="y"), tmp_path / "staged")
    one_class = replace(ready, sample=(ready.sample[0], torch.zeros_like(ready.sample[1])))
    found, notes = members_of(one_class)
    assert [member.name for member in found] == ["trees"]
    assert notes == [f"trees alone: the {len(ready.sample[1]):,} training rows in memory have none of class '1'"]
    linear = replace(one_class, settings=ready.settings.model_copy(update={"members": ("linear",)}))
    with pytest.raises(InputError, match="expected trees, which learn from all rows"):
        members_of(linear)
    few, notes = members_of(replace(ready, members=500))
    assert [member.name for member in few] == ["trees", "linear", "network"]
    assert "learned from 500 training rows, as many as are kept in memory" in notes[0]


def test_a_target_with_too_many_values_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aimfor.runs.survey.MOST_LABELS", 30)
    folder = write(tmp_path / "parts")
    refused("'a' with more than 30 different values", "train", folder, "--target", "a", "--metric", "auroc", *QUICK,
            out=tmp_path / "run")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--memory", "100MB"], "--memory: got 100 MB for row groups of up to 100 rows, expected at least"),
        (["--rows", "10"], "--rows: got the option for a table read as a stream, expected a table in memory"),
        (["--jobs", "2"], "--fast: got the option together with --jobs"),
        (["--group", "town"], "--group: got 'town'"),
        (["--group", "a"], "expected a column with at most 50. Rows that belong together: --cluster a."),
        (["--epochs", "2"], "--epochs: got the option for a table read as a stream, expected masks or neighbours"),
    ],
)
def test_options_that_cannot_be_are_one_line(words: list[str], text: str, parts: Path, tmp_path: Path) -> None:
    refused(text, *start(parts), *words, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--members", "line"], "--members: got 'line'"),
        (["--jobs", "2"], "--jobs: got the option for a table read as a stream"),
    ],
)
def test_members_that_cannot_be_are_one_line(words: list[str], text: str, parts: Path, tmp_path: Path) -> None:
    refused(text, "train", parts, "--target", "y", "--metric", "auroc", *words, out=tmp_path / "run")


def test_a_folder_of_images_with_a_list_is_no_stream(tmp_path: Path) -> None:
    from aimfor.data.chunks import is_stream

    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").touch()
    (tmp_path / "labels.csv").write_text("a\n")
    assert not is_stream(str(tmp_path))
    (tmp_path / "cat" / "1.png").unlink()
    assert is_stream(str(tmp_path))


def test_a_newer_csv_is_read_again(tmp_path: Path) -> None:
    from aimfor.data.chunks import open_table

    text, staged = tmp_path / "text", tmp_path / "staged"
    text.mkdir()
    arrow_csv.write_csv(pa.table(rows(50, 0)), text / "0.csv")
    assert open_table(str(text), staged=staged).rows == 50
    arrow_csv.write_csv(pa.table(rows(70, 0)), text / "0.csv")
    later = os.stat(staged / "0.csv.parquet").st_mtime + 5
    os.utime(text / "0.csv", (later, later))
    assert open_table(str(text), staged=staged).rows == 70
