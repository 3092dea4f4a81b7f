"""Retrieval from the command line: classes are split, vectors carry names, vectors have length one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import parquet
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import backbones
from aimfor.data.pictures import pictures_of
from aimfor.retrieval import evaluate
from aimfor.runs.embedding import EmbeddingTask, load_run
from pictures_samples import many_classes, patterned, tiny

DRAWN = True  # a browser looks at the figures

MODEL = ("--model", "efficientnet-lite0", "--image-size", "32", "--epochs", "8")


def says(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.output


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "_lite0", tiny)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, str]]:
    """Photos, a run on them, and what it said."""
    folder = tmp_path_factory.mktemp("retrieval")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, "_lite0", tiny)
        photos, out = many_classes(folder / "photos"), folder / "runs" / "one"
        said = says("train", photos, "--metric", "map@r", *MODEL, "--out", out)
        yield photos, out, said


def test_classes_not_pictures_are_split_and_the_value_is_exact(made: tuple[Path, Path, str]) -> None:
    photos, out, said = made
    assert "map@r on test classes" in said
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["classes"] == {"train": 6, "test": 2}
    assert metrics["pictures"] == {"train": 24, "test": 8}
    stored, labels = np.load(out / "vectors.npy"), json.loads((out / "vectors.json").read_text())["classes"]
    rows = [row for row, label in enumerate(labels) if label in metrics["test_classes"]]
    y = np.unique([labels[row] for row in rows], return_inverse=True)[1]
    exact = evaluate(torch.from_numpy(stored[rows]), torch.from_numpy(y), k=[1, 5])
    for name in ("map@r", "recall@1", "recall@5"):
        assert metrics["test"]["all"][name]["value"] == pytest.approx(exact[name], abs=1e-9)
    assert metrics["test"]["metric"] == 1.0
    assert metrics["test"]["interval"] is None  # all draws of two classes agree, which says nothing
    assert metrics["ways"][metrics["chosen"]] == max(metrics["ways"].values())
    assert load_run(out).vectors(pictures_of(photos)).numpy().tobytes() == stored.tobytes()


def test_the_report_names_hits_and_misses_in_words(made: tuple[Path, Path, str]) -> None:
    _, out, _ = made
    page = (out / "report.html").read_text()
    assert "HIT" in page
    assert "miss, kind" in page
    assert 'alt="query, kind' in page
    assert len(page) < 5_000_000
    assert "http" not in page.replace("http://www.w3.org", "")
    (out / "report.html").unlink()
    assert says("report", out).strip() == str(out / "report.html")
    assert (out / "report.html").read_text() == page


def test_the_report_opens_in_a_browser(made: tuple[Path, Path, str], open_page: Callable[..., Any]) -> None:
    page = open_page(made[1] / "report.html")
    assert page.problems == []
    assert page.locator("ul.sheet img").count() > 8
    assert page.evaluate("[...document.images].every(one => one.alt && one.complete)")


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_vectors_of_length_one_are_written_with_names(
    made: tuple[Path, Path, str], tmp_path: Path, suffix: str
) -> None:
    photos, out, _ = made
    file = tmp_path / f"vectors.{suffix}"
    assert str(file) in says("embed", out, photos, "-o", file)
    if suffix == "npy":
        document, vectors = json.loads(file.with_suffix(".json").read_text()), np.load(file)
    else:
        table = parquet.read_table(file)
        document = {"names": table["name"].to_pylist(), "classes": table["class"].to_pylist()}
        vectors = np.stack(table["vector"].to_pylist())
    assert (document["names"][0], document["classes"][0]) == ("kind0/0.png", "kind0")
    assert len(vectors) == len(document["names"]) == len(document["classes"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_without_a_backbone_a_small_network_learns(tmp_path: Path) -> None:
    photos = many_classes(tmp_path / "photos", 6, 3)
    words = ("--metric", "recall@1", "--image-size", "16", "--epochs", "2", "--out", tmp_path / "runs" / "one")
    said = says("train", photos, *words)
    assert "pretrained features are usually far better" in said
    assert "recall@1 on test classes" in said
    assert "finished" in says("train", "--resume", tmp_path / "runs" / "one", code=2)
    assert "another kind (embedding)" in says("export", tmp_path / "runs" / "one", code=2)
    assert "finds neighbours" in says("predict", tmp_path / "runs" / "one", photos, code=2)


def test_the_commands_of_the_page_work_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "pictures.md").read_text()
    block = page.split("## Pictures found by their likeness")[1].split("```sh\n")[1].split("```")[0]
    many_classes(tmp_path / "photos", 6, 3)
    monkeypatch.chdir(tmp_path)
    said = []
    for line in block.strip().splitlines():
        program, *words = line.split()
        assert program == "aimfor"
        said.append(says(*words, *(MODEL[2:] if words[0] == "train" else ())))
    assert len(said) == 2


def test_a_killed_run_goes_on_to_the_same_bits(
    made: tuple[Path, Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, whole, _ = made
    out = tmp_path / "runs" / "two"
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingTask, "save", lambda *_: (_ for _ in ()).throw(MemoryError))
        says("train", photos, "--metric", "map@r", *MODEL, "--out", out, code=2)
    assert not (out / "metrics.json").exists()
    assert "not finished" in says("embed", out, photos, "-o", tmp_path / "v.npy", code=2)
    says("train", "--resume", out)
    assert (out / "vectors.npy").read_bytes() == (whole / "vectors.npy").read_bytes()
    assert (out / "sheets.json").read_bytes() == (whole / "sheets.json").read_bytes()
    (out / "metrics.json").unlink()
    file = photos / "kind0" / "0.png"
    before = file.read_bytes()
    patterned(0, 77).save(file)  # another picture under the same name
    try:
        assert "changed since" in says("train", "--resume", out, code=2)
    finally:
        file.write_bytes(before)


def test_bad_folders_are_one_line(tmp_path: Path) -> None:
    words = ("--metric", "map@r", *MODEL, "--out", tmp_path / "runs" / "one")
    (tmp_path / "empty").mkdir()
    assert "without images" in says("train", tmp_path / "empty", *words, code=2)
    three = many_classes(tmp_path / "three", 3, 2)
    assert "3 classes, expected at least 4" in says("train", three, *words, code=2)
    alone = many_classes(tmp_path / "alone", 5, 2)
    (alone / "kind4" / "1.png").unlink()
    assert "kind4 with one picture" in says("train", alone, *words, code=2)
    four = many_classes(tmp_path / "four", 4, 2)
    assert "recall@9 with lists of 3" in says("train", four, "--metric", "recall@9", *words[2:], code=2)
    for option in (("--members", "linear"), ("--group", "x"), ("--fast",)):
        assert option[0] in says("train", four, *words, *option, code=2)
    assert not (tmp_path / "runs" / "one").exists()
    assert "too few" in says("train", four, *words)


def test_bad_pictures_and_places_are_one_line(made: tuple[Path, Path, str], tmp_path: Path) -> None:
    photos, out, _ = made
    assert ".npy or .parquet" in says("embed", out, photos, "-o", tmp_path / "v.csv", code=2)
    (tmp_path / "bad").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "bad" / "a.png")
    (tmp_path / "bad" / "b.png").write_bytes(b"")
    assert "b.png, which is empty" in says("embed", out, tmp_path / "bad", "-o", tmp_path / "v.npy", code=2)
    assert not (tmp_path / "v.npy").exists()
