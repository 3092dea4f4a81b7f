"""Tables on disk: parts that rows alone decide, one encoder, errors that name the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from aimfor.data.chunks import open_table, plan, row_hashes
from aimfor.data.columns import TableEncoder, columns_of
from aimfor.errors import InputError
from aimfor.runs.survey import TEST, TRAIN, VALIDATION, HashSplit, Reader, Survey, mixed
from aimfor.targets.classes import labels_of_counts

CUT = HashSplit("y", 0.1, 0)


def rows(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    city = rng.choice(["Bern", "Rome", "Oslo"], n)
    y = (x[:, 0] + (city == "Rome") + rng.standard_normal(n) > 1).astype(np.int8)
    return {"a": x[:, 0], "b": np.where(rng.random(n) < 0.1, np.nan, x[:, 1]), "city": city, "y": y}


def write(folder: Path, files: int = 3, n: int = 500, group: int = 100) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        pq.write_table(pa.table(rows(n, number)), folder / f"{number}.parquet", row_group_size=group)
    return folder


def surveyed(path: Path, cut: HashSplit = CUT, most: int = 100_000) -> Survey:
    table, found = open_table(str(path)), Survey(most)
    for number in range(len(table.units)):
        found.add(table, number, cut)
    return found


def reader(path: Path) -> Reader:
    table, found = open_table(str(path)), surveyed(path)
    labels = labels_of_counts(found.class_counts(), binary=True)
    return Reader(table, CUT, found.encoder(CUT, None), labels, found.train, found.digests)


def test_a_share_of_every_unit_is_drawn_by_the_seed_and_keeps_its_order(tmp_path: Path) -> None:
    given = reader(write(tmp_path))
    for number in (0, 7):
        x, y = given.read(number)
        assert len(y) == given.train[number]
        some, ids = given.share(number, 0.25)
        assert len(ids) == round(0.25 * len(y))
        places = [int((x == row).all(1).nonzero()[0, 0]) for row in some]
        assert places == sorted(set(places))
        assert torch.equal(ids, y[places])
        assert torch.equal(given.share(number, 0.25)[0], some)
        assert not torch.equal(replace(given, seed=1).share(number, 0.25)[0], some)
        assert torch.equal(given.share(number, 1.0)[0], x)


def test_parts_depend_on_rows_alone(tmp_path: Path) -> None:
    write(tmp_path / "many")
    whole = pa.concat_tables([pq.read_table(file) for file in sorted((tmp_path / "many").glob("*.parquet"))])
    order = np.random.default_rng(5).permutation(whole.num_rows)
    (tmp_path / "one").mkdir()
    pq.write_table(whole.take(order), tmp_path / "one" / "all.parquet", row_group_size=333)
    many, one = surveyed(tmp_path / "many"), surveyed(tmp_path / "one")
    assert many.counts == one.counts
    for part in (VALIDATION, TEST):
        assert repr(many.held_out(part).to_pylist()) == repr(one.held_out(part).to_pylist())
    assert many.encoder(CUT, None).state == one.encoder(CUT, None).state
    share = sum(count for (part, _), count in many.counts.items() if part == VALIDATION) / whole.num_rows
    assert 0.07 < share < 0.13


def test_a_small_sample_is_said(tmp_path: Path) -> None:
    found = surveyed(write(tmp_path), most=200)
    assert len(found.keys) == 200
    assert "200 of" in found.encoder(CUT, None).notes[-1]


def test_below_the_sample_the_encoder_is_that_of_a_table_in_memory(tmp_path: Path) -> None:
    found = surveyed(write(tmp_path))
    table = open_table(str(tmp_path))
    columns = columns_of(pa.concat_tables([table.arrow(number) for number in range(15)]))
    _, part, hashes = CUT.parts(columns)
    train = np.flatnonzero(part == TRAIN)
    order = train[np.argsort(mixed(hashes[train], CUT.seed + 1), kind="stable")]
    expected = TableEncoder.fit({name: column.take(order) for name, column in columns.items()})
    assert found.encoder(CUT, None).state == expected.state


def test_rows_with_one_value_of_a_column_stay_together(tmp_path: Path) -> None:
    write(tmp_path)
    table, cut = open_table(str(tmp_path)), replace(CUT, by="city", share=0.3)
    parts: dict[str, set[int]] = {}
    for number in range(15):
        columns = table.read(number)
        city = columns["city"].texts()
        for name, part in zip(city, cut.parts(columns)[1], strict=True):
            parts.setdefault(name, set()).add(int(part))
    assert all(len(found) == 1 for found in parts.values())


def test_hashes_know_cells_not_places() -> None:
    columns = columns_of(pa.table(rows(200, 0)))
    hashes = row_hashes(columns)
    assert len(set(hashes.tolist())) == 200
    order = np.random.default_rng(0).permutation(200)
    assert np.array_equal(row_hashes({name: column.take(order) for name, column in columns.items()}), hashes[order])


def test_partitions_are_columns(tmp_path: Path) -> None:
    for year in (2023, 2024):
        write(tmp_path / f"year={year}", files=1)
    table = open_table(str(tmp_path))
    assert {table.read(number)["year"].values[0] for number in range(len(table.units))} == {2023.0, 2024.0}


def test_csv_files_are_staged(tmp_path: Path) -> None:
    from pyarrow import csv

    (tmp_path / "text").mkdir()
    csv.write_csv(pa.table(rows(300, 0)), tmp_path / "text" / "a.csv")
    table = open_table(str(tmp_path / "text"), staged=tmp_path / "staged")
    assert table.rows == 300
    assert set(table.read(0)) == {"a", "b", "city", "y"}
    assert not list((tmp_path / "staged").glob("*.part"))


# ------------------------------------------------------------ bad input


def test_files_of_other_columns_or_types_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    pq.write_table(pa.table({**rows(50, 9), "a": [str(i) for i in range(50)]}), tmp_path / "9.parquet")
    with pytest.raises(InputError, match=r"9\.parquet, where the column 'a' is string, expected double"):
        open_table(str(tmp_path))
    pq.write_table(pa.table({**rows(50, 9), "c": np.zeros(50)}), tmp_path / "9.parquet")
    with pytest.raises(InputError, match=r"9\.parquet, where the column 'c'"):
        open_table(str(tmp_path))


def test_a_damaged_file_in_the_middle_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    file = tmp_path / "1.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(InputError, match=r"1\.parquet, which cannot be read"):
        open_table(str(tmp_path))
    file.write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])  # the head of the first page
    with pytest.raises(InputError, match=r"1\.parquet, row group"):
        surveyed(tmp_path)


def test_a_unit_that_changes_between_passes_is_named(tmp_path: Path) -> None:
    given = reader(write(tmp_path))
    given.read(5)
    pq.write_table(pa.table(rows(500, 77)), tmp_path / "1.parquet", row_group_size=100)
    changed = replace(given, table=open_table(str(tmp_path)))
    with pytest.raises(InputError, match="has changed since training began"):
        changed.read(5)


def test_a_class_of_the_last_file_is_known(tmp_path: Path) -> None:
    write(tmp_path)
    late = rows(500, 9)
    late["y"] = np.where(np.arange(500) % 5 == 0, 7, late["y"]).astype(np.int8)
    pq.write_table(pa.table(late), tmp_path / "9.parquet", row_group_size=100)
    labels = labels_of_counts(surveyed(tmp_path).class_counts(), binary=False)
    assert labels.classes == ["0", "1", "7"]


def test_memory_too_small_for_a_row_group_names_what_is_needed(tmp_path: Path) -> None:
    table = open_table(str(write(tmp_path)))
    with pytest.raises(InputError, match=r"--memory: got 100 MB for row groups of up to 100 rows, expected at least 4"):
        plan(table, 7, 100 << 20)
    found = plan(table, 7, 1 << 30)
    assert (found.held, found.sample, found.members) == (200_000, 100_000, 100_000)
    tight = plan(table, 7, 460 << 20)
    assert 1_000 <= tight.members < tight.sample < 100_000


def test_an_explosion_of_categories_stays_bounded(tmp_path: Path) -> None:
    for number in range(3):
        table = rows(4_000, number)
        table["code"] = [f"k{number}-{i}" for i in range(4_000)]
        pq.write_table(pa.table(table), tmp_path / f"{number}.parquet", row_group_size=1_000)
    encoder = surveyed(tmp_path).encoder(CUT, None)
    assert encoder.shape[0] <= 7
    assert any("'code' left out" in note for note in encoder.notes)


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    for cut, argument in ((replace(CUT, target="why"), "target"), (replace(CUT, by="town"), "--cluster")):
        with pytest.raises(InputError) as caught:
            surveyed(tmp_path, cut)
        assert caught.value.argument == argument
