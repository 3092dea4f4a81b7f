"""Contact sheets: who is on them, in which order, how small they are, and that a folder cannot smuggle anything in."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aimfor.data.pictures import Pictures
from aimfor.errors import InputError
from aimfor.runs.sheets import SHEETS, picture_sheets, read_sheets, thumbnail


def six() -> Pictures:
    return Pictures([f"{n}.png" for n in range(6)], array=np.zeros((6, 8, 8, 3), dtype=np.uint8))


def test_the_most_confident_mistakes_come_first_and_hits_by_how_little_they_had_to_spare() -> None:
    y = torch.tensor([0, 0, 1, 1, 1, 0])
    scores = torch.tensor([3.0, -1.0, -2.5, 0.9, 0.6, 0.7])
    found = picture_sheets(six(), list(range(6)), y, scores, 0.5, ["cat", "dog"])
    shown = {one["title"]: [tile["caption"].split(":")[0] for tile in one["tiles"]] for one in found}
    assert shown == {
        "The most confident mistakes": ["2.png", "0.png", "5.png"],
        "Hits at the threshold": ["4.png", "3.png"],
        "Hardest pictures of cat": ["0.png", "5.png", "1.png"],
        "Hardest pictures of dog": ["2.png", "4.png", "3.png"],
    }
    assert found[0]["tiles"][0]["alt"] == "2.png: is dog, decided cat"


def test_several_classes_by_their_probabilities_and_rows_by_their_place() -> None:
    y = torch.tensor([0, 1, 2])
    scores = torch.tensor([[0.0, 4.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
    found = picture_sheets(six(), [5, 3, 1], y, scores, 0.0, ["a", "b", "c"])
    assert [tile["caption"] for tile in found[0]["tiles"]] == ["5.png: is a, decided b", "1.png: is c, decided a"]
    assert [one["title"] for one in found[1:]] == [
        "Hardest pictures of a",
        "Hardest pictures of b",
        "Hardest pictures of c",
    ]


def test_pictures_are_small_jpegs() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 600, 3), dtype=np.uint8)
    found = thumbnail(Image.fromarray(noise))
    assert len(found) < 20_000
    image = Image.open(io.BytesIO(base64.b64decode(found.split(",")[1])))
    assert image.format == "JPEG"
    assert image.size == (107, 160)


def test_a_folder_cannot_bring_anything_but_jpegs(tmp_path: Path) -> None:
    tile = {"picture": thumbnail(Image.new("RGB", (4, 4))), "alt": "a", "caption": "b"}
    document = {"sheets": [{"title": "t", "text": "u", "tiles": [tile]}]}
    (tmp_path / SHEETS).write_text(json.dumps(document))
    assert read_sheets(tmp_path) == document["sheets"]
    for bad in ("javascript:alert(1)", "https://example.org/a.jpg", 'data:image/jpeg;base64,AA" onload="x'):
        document["sheets"][0]["tiles"][0]["picture"] = bad  # type: ignore[index]
        (tmp_path / SHEETS).write_text(json.dumps(document))
        with pytest.raises(InputError, match=r"sheets\.json"):
            read_sheets(tmp_path)
