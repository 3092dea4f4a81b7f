"""Tables, npz files and image folders become the same examples by any route, and encoders agree with scikit-learn."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.columns import TableEncoder
from aimfor.data.encode import ImageEncoder, restore_encoder
from aimfor.data.load import load, take_roles
from aimfor.data.settings import settings
from aimfor.data.tables import read_table
from aimfor.errors import InputError
from aimfor.runs.prepared import prepare
from aimfor.targets.classes import Labels, fit_labels
from aimfor.targets.folds import split

HEADER = "age,city,when,flag,label"
ROWS = [
    "31,Paris,2024-01-01,true,yes",
    "?,Rome,2024-01-03,false,no",
    "45,,2024-02-01,true,no",
    '52,"Rome, old",2024-01-01,false,yes',
]


def test_csv_gz_semicolon_and_parquet_give_the_same_columns(tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    text = "\n".join([HEADER, *ROWS]) + "\n"
    (tmp_path / "a.csv").write_text(text)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write(text)
    (tmp_path / "c.csv").write_text(text.replace('"Rome, old"', "Rome_ old").replace(",", ";").replace("_", ","))
    options = pyarrow.csv.ConvertOptions(null_values=["?", ""], strings_can_be_null=True)
    pyarrow.parquet.write_table(
        pyarrow.csv.read_csv(tmp_path / "a.csv", convert_options=options), tmp_path / "d.parquet"
    )
    wanted = {name: column.texts().tolist() for name, column in read_table(tmp_path / "a.csv").items()}
    assert wanted["age"] == ["31", None, "45", "52"]
    assert wanted["city"] == ["Paris", "Rome", None, "Rome, old"]
    assert wanted["when"][1] == "2024-01-03"
    assert wanted["flag"] == ["true", "false", "true", "false"]
    for name in ("b.csv.gz", "c.csv", "d.parquet"):
        assert {key: column.texts().tolist() for key, column in read_table(tmp_path / name).items()} == wanted


def test_a_word_that_comes_late_among_numbers_does_not_stop_the_training(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,y\n" + "1,2,0\n2,9,1\n3,4,1\n" * 2500 + "x,3,1\n")
    source = load(str(tmp_path / "t.csv"), "y")
    encoder = TableEncoder.fit(source.columns, np.arange(3000))
    last = encoder.transform(source.columns)[-1, encoder.feature_names.index("a")]
    assert last == pytest.approx(0, abs=1e-6)  # 2, the median and the mean


def test_encoder_agrees_with_scikit_learn_and_survives_json(tmp_path: Path) -> None:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rng = np.random.default_rng(0)
    number = rng.normal(3, 5, 200)
    number[::17] = np.nan
    city = rng.choice(["Paris", "Rome", "Bern"], 200).astype(object)
    lines = [f"{'' if np.isnan(a) else a},{b},{i % 2}" for i, (a, b) in enumerate(zip(number, city, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["number,city,y", *lines]) + "\n")
    source = load(str(tmp_path / "t.csv"), "y")
    rows = np.arange(120)
    encoder = TableEncoder.fit(source.columns, rows)
    restored = restore_encoder(json.loads(json.dumps(encoder.state)))
    assert isinstance(restored, TableEncoder)
    encoded = restored.transform(source.columns)
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=False), StandardScaler())
    numbers.fit(number[:120, None])
    np.testing.assert_allclose(encoded[:, 0], numbers.transform(number[:, None])[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(encoded[:, 1], np.isnan(number))
    levels = encoder.state["columns"][1]["levels"]
    one_hot = OneHotEncoder(categories=[levels], sparse_output=False).fit_transform(city[:, None])
    np.testing.assert_array_equal(encoded[:, 2:5], one_hot)
    assert encoded[:, 5].sum() == 0  # nothing is "other" in the training data
    assert encoder.shape == encoded.shape[1:]


def test_unseen_and_missing_levels_and_lost_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("city,x,y\n" + "Rome,1,0\nBern,2,1\n" * 20)
    encoder = TableEncoder.fit(load(str(tmp_path / "t.csv"), "y").columns, np.arange(40))
    (tmp_path / "new.csv").write_text("city,x\nOslo,1\n,1\n")
    encoded = encoder.transform(load(str(tmp_path / "new.csv"), None, labelled=False).columns)
    assert encoded[0, :3].tolist() == [0, 0, 1]
    assert encoded[1, :3].tolist() == [0, 0, 0]
    (tmp_path / "lost.csv").write_text("town,x\nOslo,1\n")
    with pytest.raises(InputError, match="without the column 'city'"):
        encoder.transform(load(str(tmp_path / "lost.csv"), None, labelled=False).columns)
    (tmp_path / "text.csv").write_text("city,x\nOslo,much\n")
    with pytest.raises(InputError, match=r"text \('much'\) in the column 'x'"):
        encoder.transform(load(str(tmp_path / "text.csv"), None, labelled=False).columns)


def test_npz_with_its_own_split_and_groups(tmp_path: Path) -> None:
    mask = np.arange(100) < 70
    y = (np.arange(100) % 5 == 0).astype(np.int64)
    np.savez(tmp_path / "a.npz", X=np.random.default_rng(0).normal(size=(100, 3)), y=y, train=mask, sex=y)
    source = load(str(tmp_path / "a.npz"), "y")
    take_roles(source, settings(data="a.npz", metric="f1", target="y", group="sex"))
    assert source.groups is not None
    parts = split(y, 0, source.test)
    np.testing.assert_array_equal(parts.test, np.arange(70, 100))
    assert set(parts.train) | set(parts.validation) == set(range(70))


@pytest.mark.parametrize("positive", ["True", "true", "TRUE"])
def test_truth_values_as_labels_however_they_are_spelled(tmp_path: Path, positive: str) -> None:
    import pandas as pd

    frame = pd.DataFrame({"x": range(8), "y": [True, False] * 4})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    ids = []
    for name in ("t.parquet", "t.csv"):
        source = load(str(tmp_path / name), "y")
        assert source.labels is not None
        labels = fit_labels(source.labels, binary=True, positive=positive)
        assert labels.classes[1].lower() == "true"
        ids.append(labels.encode(source.labels).tolist())
        assert labels.encode(np.array(["FALSE", "True"], dtype=object)).tolist() == [0, 1]
    assert ids[0] == ids[1] == [1, 0] * 4


def test_labels_of_several_classes_keep_codes_apart_and_join_spellings() -> None:
    values = ["1", "2", "01"] * 4
    labels = fit_labels(np.array(values, dtype=object), binary=False)
    assert sorted(labels.classes) == ["01", "1", "2"]
    ids = labels.encode(np.array(["01", "1", "1.0", "2.0"], dtype=object))
    assert [labels.classes[i] for i in ids[:2]] == ["01", "1"]
    assert labels.classes[ids[3]] == "2"
    with pytest.raises(InputError, match="the label '7'"):
        labels.encode(np.array(["7"], dtype=object))
    rest = fit_labels(np.array(values, dtype=object), binary=True, positive="2.0")
    assert rest.encode(np.array(["2", "1", "9"], dtype=object)).tolist() == [1, 0, 0]


def test_split_is_stratified_disjoint_and_complete() -> None:
    ids = np.array([0] * 900 + [1] * 97 + [2] * 3)
    parts = split(ids, seed=3)
    everything = np.concatenate([parts.train, parts.validation, parts.test])
    assert sorted(everything) == list(range(1000))
    for rows in (parts.train, parts.validation, parts.test):
        assert set(ids[rows]) == {0, 1, 2}
    assert abs((ids[parts.test] == 1).sum() - 0.2 * 97) <= 1
    assert not np.array_equal(parts.test, split(ids, seed=4).test)
    np.testing.assert_array_equal(parts.test, split(ids, seed=3).test)


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        (["0", "1"] * 5, "1"),
        (["no"] * 3 + ["yes"] * 9, "yes"),
        (["cat"] * 9 + ["dog"] * 4, "dog"),
        (["<=50K"] * 9 + [">50K"] * 4, ">50K"),
        (["-1"] * 9 + ["1"] * 19, "1"),
    ],
)
def test_positive_class_is_guessed_as_a_person_would(values: list[str], positive: str) -> None:
    assert fit_labels(np.array(values, dtype=object), binary=True).classes[1] == positive


def test_rows_without_a_target_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "1,0\n2,1\n3,\n" * 10)
    source = load(str(tmp_path / "t.csv"), "y")
    assert len(source) == 20
    assert source.notes == ["10 rows without a target were left out"]


def test_image_folder_and_npz_of_the_same_images_encode_alike(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    for i, one in enumerate(pixels):
        folder = tmp_path / "set" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(one).save(folder / f"{i}.png")
    source = load(str(tmp_path / "set"), None)
    order = [0, 2, 4, 1, 3, 5]  # folder by folder
    assert source.images is not None
    np.testing.assert_array_equal(source.images, pixels[order])
    encoded = ImageEncoder.fit(source, np.arange(6)).transform(source)
    assert encoded.shape == (6, 3, 8, 8)
    np.testing.assert_allclose(encoded.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(encoded.std((0, 2, 3)), 1, atol=1e-5)


def test_the_demo_is_about_a_table_with_enough_rows_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr("aimfor.cli.compare.run", lambda settings, *rest: (given.extend(settings), []))
    monkeypatch.setattr("aimfor.cli.compare.show", lambda *found: None)
    assert CliRunner().invoke(app, ["demo"]).exit_code == 0
    assert [one.metric for one in given] == ["recall@precision=0.97"]
    ready = prepare(given[0].model_copy(update={"holdout": 0.2}), ensemble=True)
    assert sum(map(len, (ready.parts.train, ready.parts.validation, ready.parts.test))) == 1797
    truth = load_digits().target >= 5
    np.testing.assert_array_equal(ready.ids.numpy(), truth)
    assert ready.test[1].sum() > 150  # with seventeen positives no difference could be told


def test_of_several_unknown_labels_the_first_is_named() -> None:
    strange = [f"strange {number}" for number in range(40)]
    with pytest.raises(InputError, match="the label 'strange 0'"):
        Labels(["no", "yes"], True).encode(np.array(["no", *strange], dtype=object))
