"""`aimfor train PICTURES --model BACKBONE`: features once, an ensemble on them, predictions, and what goes wrong."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.data import backbones, checkpoint, features
from aimfor.data.features import FeatureStore, features_of
from aimfor.data.pictures import Pictures
from aimfor.errors import Interrupted
from aimfor.learners.ensemble.members import pictures
from aimfor.runs.compare import entrants
from pictures_samples import class_folders, picture, tiny


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "_lite0", tiny)
    monkeypatch.setattr(pictures, "STEPS", 8)


def aimfor_says(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + result.stderr + repr(result.exception)
    return result.output


def train(folder: Path, out: Path, *more: object, code: int = 0) -> str:
    words = ("--metric", "ap", "--model", "efficientnet-lite0", "--image-size", 32, "--out", out, "--members", "linear")
    return aimfor_says("train", folder, *words, *more, code=code)


def test_a_folder_becomes_a_ensemble_that_predicts_a_picture_alike_in_any_company(tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 48), tmp_path / "runs" / "one"
    assert "linear on features 1.00" in train(photos, out)
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["test"]["metric"] > 0.9
    page = (out / "report.html").read_text()
    assert "Hardest pictures of cat" in page
    assert page.count("data:image/jpeg;base64,") >= 8
    new = tmp_path / "new"
    new.mkdir()
    for seed in range(100, 104):
        picture(seed % 2, seed).save(new / f"{seed}.png")
    table = list(csv.DictReader(aimfor_says("predict", out, new).splitlines()))
    assert [row["decision"] for row in table] == ["cat", "dog", "cat", "dog"]
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(new / "102.png", alone)
    (row,) = csv.DictReader(aimfor_says("predict", out, alone).splitlines())
    assert row["score"] == table[2]["score"]
    pixels = np.stack([np.asarray(picture(seed % 2, seed)) for seed in range(100, 104)])
    by_array = aimfor.load(out).scores(pixels)
    assert [repr(float(one)) for one in by_array] == [one["score"] for one in table]


def test_features_are_computed_once_and_found_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = class_folders(tmp_path / "photos", 40)
    train(photos, tmp_path / "runs" / "one")
    (shards,) = (tmp_path / "runs" / "features").iterdir()
    assert shards.name == "efficientnet-lite0-32-0123456789abcdef"
    assert [len(checkpoint.load(shard)[1]) for shard in shards.iterdir()] == [40]
    (photos / "cat" / "0.png").rename(photos / "cat" / "moved.png")

    def never(*_: Any) -> Any:
        raise AssertionError("computed again")

    monkeypatch.setattr(backbones.Backbone, "features", never)
    monkeypatch.setattr(Pictures, "square", never)
    train(photos, tmp_path / "runs" / "two")
    one, two = (json.loads((tmp_path / "runs" / name / "metrics.json").read_text()) for name in ("one", "two"))
    assert one["rows"] == two["rows"]


def test_features_go_on_after_a_stop_and_damage_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "SHARD", 16)
    array = np.stack([np.asarray(picture(0, seed)) for seed in range(40)])
    pictures, network = Pictures([str(n) for n in range(40)], array=array), tiny()
    seen: list[int] = []

    def tell(done: int, total: int) -> None:
        seen.append(done)
        assert total == 40

    with pytest.raises(Interrupted):
        features_of(
            pictures, network, 32, FeatureStore.beside(tmp_path, network, 32), stop=lambda: len(seen) >= 1, tell=tell
        )
    assert seen == [16]
    store = FeatureStore.beside(tmp_path, network, 32)
    assert len(store.rows) == 16
    found = features_of(pictures, network, 32, store, tell=tell)
    assert seen == [16, 32, 40]
    whole = np.stack([np.asarray(pictures.square(row, 32)) for row in range(40)])
    np.testing.assert_array_equal(found, network.features(whole).numpy())
    (folder,) = (tmp_path / "features").iterdir()
    assert len(list(folder.iterdir())) == 3
    shard = next(path for path in folder.iterdir() if len(checkpoint.load(path)[1]) == 8)
    shard.write_bytes(b"damage")
    again = FeatureStore.beside(tmp_path, network, 32)
    assert len(again.rows) == 32
    np.testing.assert_array_equal(features_of(pictures, network, 32, again), found)
    assert len(FeatureStore.beside(tmp_path, tiny("other"), 32).rows) == 0


def test_other_weights_than_in_training_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, out = class_folders(tmp_path / "photos", 40), tmp_path / "runs" / "one"
    train(photos, out)
    monkeypatch.setattr(backbones, "_lite0", lambda: tiny("other"))
    said = aimfor_says("predict", out, photos, code=2)
    assert "other weights than in training" in said


def test_missing_weights_are_one_line_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, out = class_folders(tmp_path / "photos", 40), tmp_path / "runs" / "one"
    monkeypatch.undo()
    monkeypatch.setattr(backbones, "_PACKAGES", ("efficientnet_lite_pytorch", "no_such_package"))
    said = train(photos, out, code=2)
    assert "without the package no-such-package" in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--epochs", "3"), "--epochs: got the option for pictures with --model"),
        (("--group", "photo"), "--group: got the option for pictures with --model, expected a table in memory"),
        (("--members", "linear,head,forest"), "'forest'"),
    ],
)
def test_options_that_do_not_belong_are_refused(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 40), tmp_path / "runs" / "one"
    assert said in train(photos, out, *more, code=2)
    assert not out.exists()


def test_bad_folders_are_one_line(tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 40), tmp_path / "runs" / "one"
    (photos / "cat" / "empty.png").write_bytes(b"")
    assert "empty.png, which is empty" in train(photos, out, code=2)
    assert not out.exists()
    assert "1 pictures left out" in train(photos, out, "--skip-corrupt")
    assert "empty.png" in aimfor_says("predict", out, photos, code=2)
    assert "40" in aimfor_says("predict", out, photos, "--skip-corrupt", "--evaluate")
    lonely = tmp_path / "photos" / "bird"
    lonely.mkdir()
    picture(0, 999).save(lonely / "1.png")
    said = train(photos, tmp_path / "runs" / "two", "--skip-corrupt", "--metric", "f1_macro", code=2)
    assert "1 row of class 'bird'" in said
    table = tmp_path / "t.csv"
    table.write_text("a,y\n" + "1,0\n2,1\n" * 20)
    assert "without a column of picture files" in train(table, tmp_path / "runs" / "three", "--target", "y", code=2)
    said = aimfor_says("compare", photos, "--metric", "ap", "--model", "efficientnet-lite0", code=2)
    assert "empty.png, which is empty" in said


def test_without_a_backbone_the_small_network_says_what_one_would_bring(tmp_path: Path) -> None:
    photos, size = class_folders(tmp_path / "photos", 40), ("--image-size", "8")
    words = ("train", photos, "--metric", "ap", *size)
    said = aimfor_says(*words, "--out", tmp_path / "runs" / "two")
    assert "--model efficientnet-lite0" in said
    metrics = json.loads((tmp_path / "runs" / "two" / "metrics.json").read_text())
    assert metrics["ensemble"]["folds"] == 3
    assert {one["name"] for one in metrics["ensemble"]["members"]} <= {"pictures_network", "pictures_metric"}
    both = [aimfor_says("predict", tmp_path / "runs" / "two", one) for one in (photos, photos / "cat")]
    some = {row["row"]: row["score"] for row in csv.DictReader(both[0].splitlines())}
    assert all(some[f"cat/{row['row']}"] == row["score"] for row in csv.DictReader(both[1].splitlines()))


def test_one_network_on_pixels_and_options_that_do_not_belong_to_it(tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 30), tmp_path / "runs" / "one"
    words = ("train", photos, "--metric", "f1", "--image-size", "8")
    said = aimfor_says(*words, "--fast", "--out", out)
    assert "network on pictures 1.00" in said
    assert len(aimfor_says("predict", out, photos).splitlines()) == 31
    assert "--members" in aimfor_says(*words, "--members", "linear", code=2)


def test_compare_runs_what_train_runs_on_features_and_on_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = class_folders(tmp_path / "photos", 40)
    monkeypatch.setattr(entrants, "EPOCHS", 1)
    words = ("compare", photos, "--metric", "ap", "--image-size", "8", "--seeds", "2", "--jobs", "1", "-q")
    model = ("--model", "efficientnet-lite0", "--members", "linear")
    out = tmp_path / "runs" / "one"
    said = aimfor_says(*words, *model, "--out", out)
    assert "ensemble" in said
    found = json.loads((out / "comparison.json").read_text())["parts"][0]
    names = [row["name"] for row in found["table"]]
    assert names[:2] == ["ensemble", "ensemble/features_linear"]
    assert {"logistic_regression", "cross_entropy"} <= set(names)
    assert len(list((tmp_path / "runs" / "features").glob("*/*.safetensors"))) == 1  # once for all cells
    pixels = aimfor_says(*words, "--out", tmp_path / "two")
    assert "ensemble" in pixels
    rows = json.loads((tmp_path / "two" / "comparison.json").read_text())["parts"][0]["table"]
    assert "ensemble/pictures_network" in [row["name"] for row in rows]


def test_two_runs_that_compute_features_at_once_do_not_mix_them_up(tmp_path: Path) -> None:
    """Both find the folder empty."""
    here, there = (FeatureStore(tmp_path / "store").opened(3) for _ in range(2))
    here.put(["a0", "a1"], np.full((2, 3), 1.0, dtype=np.float32))
    there.put(["b0", "b1"], np.full((2, 3), 2.0, dtype=np.float32))
    rows = FeatureStore(tmp_path / "store").opened(3).rows
    assert {name: row.tolist() for name, row in rows.items()} == {
        **dict.fromkeys(("a0", "a1"), [1.0] * 3),
        **dict.fromkeys(("b0", "b1"), [2.0] * 3),
    }
