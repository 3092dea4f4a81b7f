"""docs/errors.md: every message of the program that the page explains is met here, and none is met that it lacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import aimfor
from aimfor.cli.main import app
from aimfor.data import backbones

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"
ROWS = re.findall(r"^\| `(.+?)` \|", PAGE.read_text().split("## From the program")[1], re.MULTILINE)


def said(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code in (1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.stderr + result.stdout


def picture(path: str, seed: int) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def classes(names: str, count: int = 12, seed: Callable[[int], int] = lambda row: row) -> None:
    for row in range(count):
        picture(f"photos/{names[row % len(names)]}/{row}.png", seed(row))


def photos(*more: object) -> str:
    return said("train", "photos", "--metric", "ap", "--out", "run", *more)


def loose() -> str:
    picture("photos/0.png", 0)
    return photos()


def damaged() -> str:
    classes("ab")
    Path("photos/a/0.png").write_bytes(b"nothing")
    return photos()


def twice() -> str:
    classes("ab", seed=lambda row: row // 2)
    return photos("--model", backbones.LITE0)


def table(text: str = "a,y\n" + "1,0\n2,1\n" * 20, name: str = "t.csv") -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    return name


def picture_table() -> str:
    return said("train", table(), "--target", "y", "--metric", "ap", "--model", backbones.LITE0, "--out", "run")


def outside() -> str:
    picture("out.png", 0)
    path = table("file,y\n../out.png,1\n../out.png,0\n", "p/p.csv")
    return said("train", path, "--target", "y", "--metric", "ap", "--model", backbones.LITE0, "--out", "run")


def masks(last: np.ndarray | None, *more: object) -> str:
    Path("m").mkdir()
    for row in range(4):
        picture(f"s/{row}.png", row)
        mask = np.arange(576).reshape(24, 24) % 3 if row < 3 else last
        if mask is not None:
            Image.fromarray(mask.astype(np.uint8)).save(f"m/{row}.png")
    return said("train", "s", "--masks", "m", "--metric", "iou", "--out", "run", *more)


def unknown_class() -> str:
    Path("c.txt").write_text("sky\nroad\ntree\n")
    return masks(np.full((24, 24), 7), "--classes", "c.txt")


def stream(files: dict[str, pa.Table | str], *more: object) -> str:
    Path("rows").mkdir()
    for name, content in files.items():
        if isinstance(content, str):
            Path("rows", name).write_text(content)
        else:
            pq.write_table(content, Path("rows", name))
    return said("train", "rows", "--target", "y", "--metric", "ap", "--out", "run", *more)


NUMBERS = pa.table({"a": np.arange(400.0), "y": [0, 1] * 200})
WORDS = pa.table({"a": ["x"] * 400, "y": [0, 1] * 200})
SCORES = "s,y\n" + "".join(f"{row / 100},{int(row > 60)}\n" for row in range(100))


def decide(*more: object, text: str = SCORES) -> str:
    return said("decide", table(text, "sc.csv"), "--target", "y", "--score", "s", "--out", "dec", *more)


def floor(*more: object, constraint: str = "precision >= 0.9", **how: str) -> str:
    return decide("--maximize", "recall", "--subject-to", constraint, *more, **how)


def neighbours(names: str, count: int) -> str:
    classes(names, count)
    return said("train", "photos", "--metric", "map@r", "--out", "run")


def retrieval_loss(embeddings: torch.Tensor, labels: int) -> str:
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.RetrievalLoss("map@r")(embeddings, torch.arange(labels) // 2)
    return str(caught.value)


#: In the order of the page.
CASES: list[Callable[[], str]] = [
    loose, damaged, twice, picture_table, outside,
    lambda: masks(None),
    lambda: masks(np.zeros((8, 8))),
    unknown_class,
    lambda: masks(np.zeros((24, 24, 3))),
    lambda: masks(np.zeros((24, 24)), "--cluster", "drive"),
    lambda: said("train", table(), "--target", "y", "--metric", "ap", "--memory", "lots", "--out", "run"),
    lambda: stream({"1.parquet": NUMBERS, "2.csv": "a,y\n1,0\n"}),
    lambda: stream({"1.parquet": NUMBERS, "2.parquet": WORDS}),
    lambda: stream({"1.parquet": NUMBERS}, "--jobs", 2),
    lambda: stream({"1.parquet": NUMBERS}, "--memory", "1MB"),
    lambda: decide("--maximize", "recall"),
    lambda: decide("--accept", "precision >= 0.9"),
    lambda: floor("--minimize", "fpr"),
    lambda: floor(constraint="precision > 90"),
    lambda: floor(constraint="gap(fpr, age) <= 0.1"),
    lambda: floor(text="s,y\n0.5,1\n,0\n"),
    lambda: floor("--learn", "sc.csv"),
    floor,
    lambda: floor(text="\n".join(["s,y", *SCORES.splitlines()[41:81]])),
    lambda: floor(text="s,y\n" + "".join(f"{-row},{int(row > 600)}\n" for row in range(1000))),
    lambda: said("check", "nothing", table(SCORES)),
    lambda: neighbours("abcdefgh", 8),
    lambda: neighbours("ab", 8),
    lambda: retrieval_loss(torch.zeros(4, 3), 4),
    lambda: retrieval_loss(torch.randn(4, 3), 3),
]  # fmt: skip


def test_every_row_has_a_case() -> None:
    assert len(ROWS) == len(CASES)


@pytest.mark.parametrize(("row", "case"), list(zip(ROWS, CASES, strict=False)), ids=range(len(ROWS)))
def test_the_message_is_the_one_on_the_page(
    row: str, case: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = row.replace("class ids 0 … 2", "class ids 0 \x00 2")  # this one is the program's own
    pattern = ".*?".join(re.escape(part.strip().replace("\x00", "…")) for part in whole.split("…"))
    text = case()
    assert re.search(pattern, " ".join(text.split())), f"{row}\n{text}"
    assert "Traceback" not in text
    assert not Path("run").exists()
