"""`aimfor train --masks`: pictures and PNG masks in, offsets out of fold, PNG masks back, and bad input in a line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import backbones
from aimfor.errors import InputError, Interrupted
from aimfor.learners.masks import LOSSES
from aimfor.runs import folder as folder_of_run
from aimfor.runs import masks as mask_run
from aimfor.runs.masks import load_run, split
from aimfor.runs.process import locked
from aimfor.targets.pixels import coarse, common_size, read_scenes
from pictures_samples import tiny


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "_lite0", tiny)


def scene(seed: int, classes: int = 3) -> tuple[Image.Image, np.ndarray]:
    """Rectangles of one colour each on a dark ground, 48 × 32."""
    random = np.random.default_rng(seed)
    ids = np.zeros((32, 48), dtype=np.uint8)
    for one in range(1, classes):
        top, left = random.integers(0, 16), random.integers(0, 28)
        ids[top : top + 16, left : left + 20] = one
    colours = np.array([[20, 20, 20], [220, 40, 40], [40, 60, 230]])
    pixels = colours[ids] + random.integers(0, 20, (32, 48, 3))
    return Image.fromarray(pixels.astype(np.uint8)), ids


def scenes(folder: Path, n: int = 12, classes: int = 3) -> tuple[Path, Path]:
    pictures, masks = folder / "scenes", folder / "masks"
    for seed in range(n):
        place = f"drive{seed % 4}"
        image, ids = scene(seed, classes)
        for root in (pictures, masks):
            (root / place).mkdir(parents=True, exist_ok=True)
        image.save(pictures / place / f"{seed}.jpg", quality=95)
        Image.fromarray(ids).save(masks / place / f"{seed}.png")
    return pictures, masks


def says(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.output


@pytest.mark.parametrize("model", ["auto", "efficientnet-lite0"])
def test_from_pictures_and_masks_to_masks_of_new_pictures(model: str, tmp_path: Path) -> None:
    pictures, masks = scenes(tmp_path)
    (tmp_path / "classes.json").write_text(json.dumps({"0": "ground", "1": "red", "2": "blue"}))
    out = tmp_path / "runs" / "one"
    words = (
        "--masks",
        masks,
        "--metric",
        "iou",
        "--model",
        model,
        "--cluster",
        "^[^/]+",
        "--image-size",
        64,
        "--epochs",
        2 if model == "auto" else 12,
    )
    said = says("train", pictures, *words, "--classes", tmp_path / "classes.json", "--out", out)
    assert "iou on test pictures" in said
    metrics = json.loads((out / "metrics.json").read_text())
    assert list(metrics["test"]["classes"]) == ["ground", "red", "blue"]
    assert metrics["pictures"] == {"train": 9, "test": 3, "folds": 3}
    assert len({name.split("/")[0] for name in metrics["test"]["images"]}) == 1  # a whole drive judges
    if model != "auto":
        assert metrics["test"]["metric"] > 0.5
    page = (out / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 15
    assert 'alt="' in page
    assert len(page) < 5_000_000
    new = tmp_path / "new"
    new.mkdir()
    image, ids = scene(77)
    image.resize((96, 64)).save(new / "a.png")
    says("predict", out, new, "--out", tmp_path / "decided")
    decided = np.asarray(Image.open(tmp_path / "decided" / "a.png"))
    assert decided.shape == (64, 96)
    assert set(np.unique(decided)) <= {0, 1, 2}
    if model != "auto":
        assert float((decided[::2, ::2] == ids).mean()) > 0.7
    assert load_run(out).classes == ["ground", "red", "blue"]
    assert "a folder for the masks" in says("predict", out, new, code=2)
    assert "finished" in says("train", "--resume", out, code=2)
    for damage in ({"test": "a"}, {"offsets": {"ground": "nan"}}, {"pictures": {}}, {"notes": 3}):
        (out / "metrics.json").write_text(json.dumps({**metrics, **damage}))
        assert "metrics.json, which is damaged" in says("report", out, code=2)
    config = json.loads((out / "config.json").read_text())
    for size in ([32, 1e308], [0, 32], [32]):
        (out / "config.json").write_text(json.dumps({**config, "size": size}))
        assert "damaged" in says("predict", out, new, "--out", tmp_path / "again", code=2)


def test_binary_masks_of_0_and_255_have_a_foreground(tmp_path: Path) -> None:
    pictures, masks = scenes(tmp_path, 8, classes=2)
    for path in masks.rglob("*.png"):
        Image.fromarray(np.asarray(Image.open(path)) * np.uint8(255)).save(path)
    found = read_scenes(pictures, masks, cluster="drive(.)")
    assert found.classes == ["background", "foreground"]
    assert set(found.groups) == {"0", "1", "2", "3"}
    assert set(np.unique(found.mask(0))) == {0, 1}


def test_values_that_do_not_count(tmp_path: Path) -> None:
    pictures, masks = scenes(tmp_path, 8)
    path = next(iter(sorted(masks.rglob("*.png"))))
    values = np.asarray(Image.open(path)).copy()
    values[:4] = 255
    Image.fromarray(values).save(path)
    found = read_scenes(pictures, masks)
    assert found.ignore == 255
    assert found.classes == ["0", "1", "2"]
    assert (found.mask(0)[:4] == 255).all()
    values[:4] = 9
    Image.fromarray(values).save(path)
    assert (read_scenes(pictures, masks, ignore=9).mask(0)[:4] == 255).all()


def test_bad_masks_are_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    pictures, masks = scenes(tmp_path, 8)
    (tmp_path / "two.txt").write_text("ground\nred\nblue\n")
    first = sorted(masks.rglob("*.png"))[0]
    good = first.read_bytes()
    values = np.asarray(Image.open(first)).copy()

    def refused(said: str, *more: object) -> None:
        out = tmp_path / "runs" / "one"
        text = says("train", pictures, "--masks", masks, "--metric", "iou", "--out", out, *more, code=2)
        assert said in text, text
        assert len(text.strip().splitlines()) == 1
        assert not out.exists()

    first.unlink()
    refused("no mask of")
    Image.fromarray(values[:16]).save(first)
    refused("of 48 × 16 beside")
    Image.fromarray(np.where(values == 0, 7, values).astype(np.uint8)).save(first)
    refused("with the value 7", "--classes", tmp_path / "two.txt")
    Image.fromarray(np.stack([values] * 3, 2)).save(first)
    refused("in mode RGB")
    first.write_bytes(b"")
    refused("which is empty")
    first.write_bytes(good)
    refused("one of iou", "--metric", "auroc")
    refused("--model: got 'mlp'", "--model", "mlp")
    refused("--loss: got 'dice', expected input should be 'iou', 'lovasz' or 'cross-entropy'", "--loss", "dice")
    refused("regular expression", "--cluster", "[")
    refused("matches nothing", "--cluster", "^car")
    refused("at least", "--cluster", "drive")
    (tmp_path / "one.txt").write_text("ground\n")
    refused("at least two classes", "--classes", tmp_path / "one.txt")


@pytest.mark.parametrize("name", LOSSES)
def test_networks_learn_by_the_loss_that_was_asked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fit(*_: object, make_loss: object, **__: object) -> None:
        asked.append(make_loss)
        raise InputError("fit", "no more", "nothing: the loss is known")

    monkeypatch.setattr(mask_run, "fit_masks", fit)
    pictures, masks = scenes(tmp_path, 8)
    says("train", pictures, "--masks", masks, "--metric", "iou", "--loss", name, "--out", tmp_path / "run", code=2)
    assert asked == [LOSSES[name]]


def test_a_coco_file_is_refused_with_what_draws_its_masks(tmp_path: Path) -> None:
    (tmp_path / "annotations.json").write_text("{}")
    with pytest.raises(InputError, match=r"--masks: got .*annotations\.json, which is no folder.*annToMask"):
        read_scenes(tmp_path, tmp_path / "annotations.json")


def test_the_largest_drive_is_not_the_one_that_judges(tmp_path: Path) -> None:
    pictures, masks = scenes(tmp_path, 8)
    found = replace(read_scenes(pictures, masks), groups=["a"] * 5 + ["b", "b", "c"])
    learn, judge = split(found, seed=0)
    assert {found.groups[row] for row in judge} in ({"b"}, {"c"})
    assert sorted(learn + judge) == list(range(8))


def test_masks_are_brought_to_the_grid_by_the_middle_of_each_cell(tmp_path: Path) -> None:
    ids = np.arange(64, dtype=np.uint8).reshape(8, 8)
    assert coarse(ids, (2, 2)).tolist() == [[18, 22], [50, 54]]
    assert coarse(ids, (16, 8))[::2].tolist() == ids.tolist()
    pictures, masks = scenes(tmp_path, 4)
    assert common_size(read_scenes(pictures, masks).pictures, 64) == (64, 64)
    with pytest.raises(InputError, match="no folder"):
        read_scenes(pictures, tmp_path / "nowhere")


def test_a_run_that_ends_before_its_metrics_are_written_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures, masks = scenes(tmp_path, 4)
    out, write = tmp_path / "run", mask_run.checkpoint.write_json

    def full_disk(path: Path, content: object) -> None:
        if path.name == "metrics.json":
            raise InputError("out", "a full disk", "free space")
        write(path, content)

    monkeypatch.setattr(mask_run.checkpoint, "write_json", full_disk)
    words = ["train", pictures, "--masks", masks, "--metric", "iou", "--epochs", 1, "--image-size", 32, "--out", out]
    says(*words, "-q", code=2)
    monkeypatch.undo()
    says("train", "--resume", out, "-q")
    assert (out / "metrics.json").exists()


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures, masks = scenes(tmp_path, 4)
    out = tmp_path / "run"
    words = ["train", pictures, "--masks", masks, "--metric", "iou", "--epochs", 1, "--image-size", 32, "--out", out]
    monkeypatch.setattr(mask_run, "fit_masks", lambda *_, **__: (_ for _ in ()).throw(Interrupted("stopped")))
    says(*words, "-q", code=130)
    monkeypatch.undo()
    with locked(out):
        assert "another run is working" in says("train", "--resume", out, "-q", code=2)
    before = (out / "config.json").read_text()
    monkeypatch.setattr(folder_of_run, "new_folder", lambda *_: out)  # found free, and taken meanwhile
    monkeypatch.setattr(mask_run, "new_folder", lambda *_: out, raising=False)
    assert "which holds a run" in says(*words, "-q", "--seed", 3, code=2)
    assert (out / "config.json").read_text() == before
