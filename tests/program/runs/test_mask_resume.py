"""A mask run goes on with the pictures and masks it was started with, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from aimfor.cli.main import app


def resumed(run: Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["train", "--resume", str(run), "-q"])
    return done.exit_code, done.output


@pytest.mark.parametrize("changed", ["scenes", "masks"])
def test_replaced_pictures_and_masks_are_noticed(changed: str, tmp_path: Path) -> None:
    for number in range(6):
        ids = np.zeros((32, 32), np.uint8)
        ids[number : number + 16, 10:30] = 1
        for root, pixels in (("scenes", np.stack([ids * 200] * 3, 2)), ("masks", ids)):
            (tmp_path / root).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / root / f"{number}.png")
    run, words = tmp_path / "run", ["--metric", "iou", "--image-size", "32", "--epochs", "1", "-q"]
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "scenes"), "--masks", str(tmp_path / "masks"), *words, "--out", str(run)]
    )
    assert done.exit_code == 0, done.output
    (run / "metrics.json").unlink()  # as of a run that was stopped
    file = tmp_path / changed / "3.png"
    before = file.read_bytes()
    pixels = np.asarray(Image.open(file)).copy()
    pixels[0, 0] = 1 - pixels[0, 0] // 200
    Image.fromarray(pixels).save(file)
    code, said = resumed(run)
    assert code == 2
    assert "changed since" in said
    file.write_bytes(before)
    assert resumed(run)[0] == 0
