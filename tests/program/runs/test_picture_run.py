"""`aimfor train PICTURES --model BACKBONE`: features once, an ensemble on them, predictions, and what goes wrong."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.data import backbones, features
from aimfor.data.features import FeatureStore, features_of
from aimfor.data.pictures import Pictures
from aimfor.data.sources import load
from aimfor.errors import Interrupted
from aimfor.learners.ensemble import fit_ensemble
from aimfor.learners.ensemble.members import TunedTail, pictures
from aimfor.learners.ensemble.members.pictures import made
from aimfor.runs.compare import entrants
from aimfor.runs.finished import load_run
from aimfor.targets.objective import Objective
from pictures_samples import TinyTail, class_folders, picture, tiny


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
    assert len(json.loads((shards / "00000.json").read_text())) == 40
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
    assert len(store.known) == 16
    found = features_of(pictures, network, 32, store, tell=tell)
    assert seen == [16, 32, 40]
    whole = np.stack([np.asarray(pictures.square(row, 32)) for row in range(40)])
    np.testing.assert_array_equal(found, network.features(whole).numpy())
    (folder,) = (tmp_path / "features").iterdir()
    (folder / "00001.npy").write_bytes(b"damage")
    again = FeatureStore.beside(tmp_path, network, 32)
    assert len(again.known) == 24
    np.testing.assert_array_equal(features_of(pictures, network, 32, again), found)
    assert len(FeatureStore.beside(tmp_path, tiny("other"), 32).known) == 0


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
        (("--augment",), "--augment: got the option together with --model"),
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
    assert "mirrored, shifted and slightly recoloured" in said
    metrics = json.loads((tmp_path / "runs" / "two" / "metrics.json").read_text())
    assert metrics["ensemble"]["folds"] == 3
    assert {one["name"] for one in metrics["ensemble"]["members"]} <= {"pictures_network", "pictures_metric"}
    both = [aimfor_says("predict", tmp_path / "runs" / "two", one) for one in (photos, photos / "cat")]
    some = {row["row"]: row["score"] for row in csv.DictReader(both[0].splitlines())}
    assert all(some[f"cat/{row['row']}"] == row["score"] for row in csv.DictReader(both[1].splitlines()))


def test_one_network_on_pixels_and_options_that_do_not_belong_to_it(tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 30), tmp_path / "runs" / "one"
    words = ("train", photos, "--metric", "f1", "--image-size", "8")
    said = aimfor_says(*words, "--no-augment", "--fast", "--out", out)
    assert "network on pictures 1.00" in said
    assert "mirrored" not in said
    assert len(aimfor_says("predict", out, photos).splitlines()) == 31
    assert "--members" in aimfor_says(*words, "--members", "linear", code=2)
    table = tmp_path / "table.csv"
    table.write_text("a,y\n" + "".join(f"{n},{n % 2}\n" for n in range(40)))
    assert "--augment" in aimfor_says("train", table, "--target", "y", "--metric", "ap", "--augment", code=2)


def test_the_last_block_is_one_more_member_and_predicts_the_same_again(tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 40), tmp_path / "runs" / "one"
    train(photos, out, "--fine-tune")
    metrics = json.loads((out / "metrics.json").read_text())
    names = {one["name"]: one for one in metrics["ensemble"]["members"]}
    assert set(names) == {"features_linear", "features_tuned"}
    stored = json.loads((out / "committee.json").read_text())["seats"]
    assert [one["columns"] for one in stored] == [27, None]
    assert len(list((tmp_path / "runs" / "features").iterdir())) == 2  # features and maps are both kept
    run = load_run(out)
    source = load(str(photos), None, lazy=True)
    rows = list(csv.DictReader(aimfor_says("predict", out, photos).splitlines()))
    again = run.scores(source).tolist()
    assert [float(row["score"]) for row in rows] == again
    one = list(csv.DictReader(aimfor_says("predict", out, photos / "cat" / "0.png").splitlines()))
    assert one[0]["score"] == next(row["score"] for row in rows if row["row"] == "cat/0.png")
    assert "one picture, 0.png" in train(photos / "cat" / "0.png", tmp_path / "runs" / "two", code=2)


def test_the_fine_tuned_block_begins_as_the_backbone_and_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    network = made("efficientnet-lite0", 1).eval()
    maps = torch.randn(6, 12, 1, 1)
    assert torch.equal(network(maps), torch.zeros(6, 1, 1))  # nothing is said before anything is learned
    assert torch.equal(network.tail(maps), tiny().tail()(maps))
    y = torch.arange(60) % 2
    x = torch.cat((torch.zeros(60, 3), torch.randn(60, 12) + 1.5 * y[:, None]), 1)
    found = fit_ensemble(x, y, Objective.of("auroc"), members=(TunedTail("efficientnet-lite0", (12, 1, 1)),), folds=2)
    assert found.cross_validated > 0.9
    assert torch.equal(tiny().tail()(maps), TinyTail()(maps))  # the backbone itself has not moved


def test_what_cannot_be_fine_tuned_is_one_line(tmp_path: Path) -> None:
    photos, out = class_folders(tmp_path / "photos", 24), tmp_path / "runs" / "one"
    assert "--fine-tune" in aimfor_says("train", photos, "--metric", "ap", "--fine-tune", "--out", out, code=2)
    assert "--fine-tune" in aimfor_says(
        "train", photos, "--metric", "ap", "--model", "efficientnet-lite0", "--fine-tune", "--fast", code=2
    )
    assert not out.exists()


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
    assert len(list((tmp_path / "runs" / "features").glob("*/*.npy"))) == 1  # once for all cells
    pixels = aimfor_says(*words, "--out", tmp_path / "two")
    assert "ensemble" in pixels
    rows = json.loads((tmp_path / "two" / "comparison.json").read_text())["parts"][0]["table"]
    assert "ensemble/pictures_network" in [row["name"] for row in rows]


def test_two_runs_that_compute_features_at_once_do_not_mix_them_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the folder empty; one writes its numbers just before the other's, and its names just after."""
    here, there = (FeatureStore(tmp_path / "store") for _ in range(2))
    write_bytes, write_json = features.checkpoint.write_bytes, features.checkpoint.write_json
    late: list[tuple[Path, Any]] = []

    def meanwhile(path: Path, content: bytes) -> None:
        monkeypatch.setattr(features.checkpoint, "write_bytes", write_bytes)
        monkeypatch.setattr(features.checkpoint, "write_json", lambda *words: late.append(words))
        there.put(["b0", "b1"], np.full((2, 3), 2.0, dtype=np.float32))
        monkeypatch.setattr(features.checkpoint, "write_json", write_json)
        write_bytes(path, content)

    monkeypatch.setattr(features.checkpoint, "write_bytes", meanwhile)
    here.put(["a0", "a1"], np.full((2, 3), 1.0, dtype=np.float32))
    write_json(*late[0])
    found = FeatureStore(tmp_path / "store").opened(3)
    assert found.rows(["a0", "b1"]).tolist() == [[1.0] * 3, [2.0] * 3]
