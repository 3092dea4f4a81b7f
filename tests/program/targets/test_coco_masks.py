"""Masks from COCO files: run-length codes of its own tools, polygons by the centres of pixels, what does not count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.errors import InputError
from aimfor.targets.coco import drawn, filled, from_counts, unpacked
from aimfor.targets.pixels import read_scenes

#: Written by pycocotools 2.0 for the masks below.
SMALL = [
    [0, 1, 1, 1, 0, 0, 0],
    [0, 0, 0, 0, 1, 0, 1],
    [0, 1, 0, 0, 1, 0, 1],
    [1, 0, 0, 0, 1, 0, 0],
    [0, 0, 0, 1, 1, 0, 0],
]
SMALL_TEXT = "3110001020O0N35NL"
HOLE_TEXT = (
    "f9X1d00000000000000000000000000000ROF::FF::FF::FF::FF::FF::FF::FF::FF::FF::d00000000000000000000000000000R9"
)


def test_codes_of_cocos_own_tools_are_read() -> None:
    assert from_counts(unpacked(SMALL_TEXT), (5, 7)).astype(int).tolist() == SMALL
    hole = np.zeros((60, 50), dtype=bool)
    hole[10:50, 5:45] = True
    hole[20:30, 20:30] = False
    assert np.array_equal(drawn({"size": [60, 50], "counts": HOLE_TEXT}, (60, 50)), hole)


def test_plain_counts_are_runs_down_the_columns() -> None:
    random = np.random.default_rng(0)
    mask = random.random((9, 6)) < 0.4
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(flat.astype(int))) + 1
    counts = np.diff([0, *edges, len(flat)]).tolist()
    counts = [0, *counts] if flat[0] else counts
    assert np.array_equal(drawn({"size": [9, 6], "counts": counts}, (9, 6)), mask)


def test_a_polygon_has_the_pixels_whose_centre_is_inside() -> None:
    corners = np.array([[3.0, 2.0], [14.0, 4.0], [12.0, 13.0], [4.0, 11.0]])
    found = filled(corners, (16, 18))
    for y in range(16):
        for x in range(18):
            point = np.array([x + 0.5, y + 0.5])
            sides = [
                np.cross(np.append(b - a, 0), np.append(point - a, 0))[2]
                for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)
            ]
            assert found[y, x] == all(side > 0 for side in sides)
    both = drawn([[0, 0, 2, 0, 2, 2, 0, 2], [4, 4, 6, 4, 6, 6, 4, 6]], (8, 8))
    assert int(both.sum()) == 8
    assert int(filled(np.array([[-5.0, -5.0], [50.0, -5.0], [50.0, 50.0], [-5.0, 50.0]]), (4, 5)).sum()) == 20


def document(folder: Path, n: int = 8) -> tuple[Path, dict[str, Any]]:
    """Squares (a polygon) and bars (codes) on dark pictures of 32 × 32, and the file about them."""
    (folder / "scenes").mkdir(parents=True)
    found: dict[str, Any] = {
        "images": [],
        "annotations": [],
        "categories": [{"id": 7, "name": "bar"}, {"id": 3, "name": "box"}],
    }
    for seed in range(n):
        pixels = np.random.default_rng(seed).integers(0, 40, (32, 32, 3)).astype(np.uint8)
        pixels[4:20, 4:20, 0] += 180
        pixels[24:30, 2:30, 2] += 180
        Image.fromarray(pixels).save(folder / "scenes" / f"{seed}.png")
        found["images"].append({"id": seed, "file_name": f"{seed}.png", "height": 32, "width": 32})
        bar = np.zeros((32, 32), dtype=bool)
        bar[24:30, 2:30] = True
        runs = np.diff([0, *(np.flatnonzero(np.diff(bar.T.reshape(-1).astype(int))) + 1), 1024]).tolist()
        box = {"category_id": 3, "segmentation": [[4, 4, 20, 4, 20, 20, 4, 20]], "area": 256}
        found["annotations"] += [
            {"id": 2 * seed, "image_id": seed, **box},
            {"image_id": seed, "category_id": 7, "segmentation": {"size": [32, 32], "counts": runs}, "area": 168},
        ]
    return folder / "annotations.json", found


def test_a_coco_file_trains_by_one_command(tmp_path: Path) -> None:
    path, found = document(tmp_path)
    found["annotations"].append(
        {"image_id": 0, "category_id": 7, "segmentation": [[0, 0, 32, 0, 32, 2, 0, 2]], "iscrowd": 1}
    )
    path.write_text(json.dumps(found))
    scenes = read_scenes(tmp_path / "scenes", path)
    assert scenes.classes == ["background", "box", "bar"]
    mask = scenes.mask(0)
    assert (int((mask == 1).sum()), int((mask == 2).sum()), int((mask == 255).sum())) == (256, 168, 64)
    words = ["train", tmp_path / "scenes", "--masks", path, "--metric", "iou", "--image-size", 32, "--epochs", 2]
    result = CliRunner().invoke(app, [str(word) for word in (*words, "--out", tmp_path / "run", "-q")])
    assert result.exit_code == 0, result.output + repr(result.exception)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert list(metrics["test"]["classes"]) == ["background", "box", "bar"]


def test_the_smaller_of_two_objects_is_seen(tmp_path: Path) -> None:
    path, found = document(tmp_path, 1)
    small = {"image_id": 0, "category_id": 7, "segmentation": [[6, 6, 8, 6, 8, 8, 6, 8]], "area": 4}
    found["annotations"].insert(0, small)
    path.write_text(json.dumps(found))
    assert int(read_scenes(tmp_path / "scenes", path).mask(0)[7, 7]) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["annotations"][0].update(segmentation={"size": [32, 32], "counts": [3, 4]}), "runs of 7 pixels"),
        (lambda d: d["annotations"][0].update(segmentation={"size": [9, 9], "counts": [81]}), "codes for"),
        (lambda d: d["annotations"][0].update(segmentation=[[1, 2, 3, 4]]), "a polygon of 2"),
        (lambda d: d["annotations"][0].update(segmentation={"size": [32, 32], "counts": "\u00e9"}), "the character"),
        (lambda d: d["annotations"][0].update(segmentation={"size": [32, 32], "counts": "o"}), "a segmentation of"),
        (lambda d: d["annotations"][0].update(category_id=99), "the category 99"),
        (lambda d: d["images"][0].update(file_name="../out.png"), "the path ../out.png"),
        (lambda d: d["images"][0].update(file_name="no.png"), "which is not in scenes"),
        (lambda d: d["images"][0].update(height=31) or d["annotations"].pop(1), "beside 0.png"),
        (lambda d: d["images"][0].pop("height"), "its width and height"),
        (lambda d: d.update(annotations=[]), "without a single segmentation"),
        (lambda d: d.update(categories=[]), "categor"),
        (lambda d: d.pop("images"), "no COCO file"),
    ],
)
def test_bad_files_are_one_line(change: Any, words: str, tmp_path: Path) -> None:
    path, found = document(tmp_path, 2)
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(InputError, match=words) as caught:
        read_scenes(tmp_path / "scenes", path)
    assert "\n" not in str(caught.value)


def test_options_that_the_file_answers_are_refused(tmp_path: Path) -> None:
    path, found = document(tmp_path, 2)
    path.write_text(json.dumps(found))
    with pytest.raises(InputError, match="--ignore"):
        read_scenes(tmp_path / "scenes", path, ignore=3)
