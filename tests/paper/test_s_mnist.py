"""S-MNIST on scikit-learn's digits: what the data are, that a single layer is untouched, and the report."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from aimfor.errors import InputError
from paper import run as runner
from paper.experiment import Options
from paper.experiments.ravi import s_mnist_paper
from paper.experiments.ravi.s_mnist import PLAIN, cells, load, report, run, two_sizes


def test_every_image_comes_twice_and_the_second_has_twice_the_size() -> None:
    images = torch.zeros(1, 8, 8)
    images[0, 3:5, 3:5] = 1.0
    both, sizes = two_sizes(images)
    assert both.shape == (2, 256)
    assert int(sizes[0]) == 4
    assert int(sizes[1]) >= 16  # four times the area, and the rim of the interpolation


def test_cells_are_the_papers_weights_on_paired_seeds() -> None:
    planned = cells(Options(seeds=5))
    assert len(planned) == 55
    assert {cell["data"] for cell in planned} == {"mnist"}  # whatever folder is there: reports need none
    assert {cell["alpha"] for cell in planned} == {0.0, 1e-2, 1e-3, 1e-4}
    assert cells(Options(seeds=1, full=True))[0]["epochs"] == 40


def test_regularizer_cannot_move_a_single_layer_and_the_report_says_what_was_run(tmp_path: Path) -> None:
    options = Options(seeds=1)
    chosen = [
        dict(cell, epochs=2, data="digits")
        for cell in cells(options)
        if cell["model"] == "linear" or cell["mode"] != "ravi"
    ]
    results = [{"cell": cell, "result": run(cell, options), "seconds": 0.0} for cell in chosen]
    of_layer = {(r["cell"]["mode"], r["cell"]["alpha"]): r["result"] for r in results if r["cell"]["model"] == "linear"}
    for mode in ("ravi", PLAIN):
        assert of_layer[mode, 0.0]["accuracy"] == of_layer[mode, 1e-2]["accuracy"]
        assert of_layer[mode, 0.0]["f_beta"] != of_layer[mode, 1e-2]["f_beta"]
    full = next(r["result"] for r in results if r["cell"]["mode"] == "ravi-full")
    assert full["projections"][-1] > 20 * of_layer["ravi", 0.0]["projections"][-1]
    report([r for r in results if r["cell"]["mode"] == "ravi-full"], tmp_path)  # part of the cells: no baseline yet
    assert "no baseline yet" in (tmp_path / "table.md").read_text()
    report([r for r in results if r["cell"]["model"] == "linear"], tmp_path)
    assert "+0.0000" in (tmp_path / "table.md").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"table.md", "accuracy.svg", "sizes.svg", "projections.svg"}


def test_a_small_cell_of_the_long_run_sees_as_many_digits_as_it_asks_for_at_full_resolution(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    for split, n in (("train", 200), ("test", 50)):
        y = np.arange(n) % 10
        x = random.integers(0, 20, (n, 28, 28))  # a digit is a block of 10 × 5 pixels, in a place of its own
        for image, digit in zip(x, y, strict=True):
            top, left = 3 + 11 * (digit // 5), 1 + 5 * (digit % 5)
            image[top : top + 10, left : left + 5] = 255
        np.savez(tmp_path / "mnist" / f"{split}.npz", x=x.astype(np.uint8), y=y)
    options = Options(seeds=1, data=tmp_path)
    short = [dict(cell, epochs=4, digits=120, width=16) for cell in s_mnist_paper.cells(options)]
    experiment = dataclasses.replace(s_mnist_paper.EXPERIMENT, cells=lambda options: short)
    outcome = runner.run(experiment, options, tmp_path)
    assert (len(outcome.finished), outcome.failed) == (8, [])
    for entry in outcome.finished:
        found = entry["result"]
        assert len(found["accuracy"]) == 4
        assert found["accuracy"][-1] > 0.5  # chance: 0.1
        assert sum(found["histogram"]["small"]) == sum(found["histogram"]["big"]) == 120
        assert found["histogram"]["top"] >= 4 * 50  # at half the resolution a quarter of it
    assert "4 epochs" in (tmp_path / "s_mnist_paper" / "table.md").read_text()


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">i4").tobytes()
    raw = head + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def test_idx_files_are_read_where_there_is_no_npz_and_give_the_same_digits(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sizes = {"train": 12, "test": 7}
    parts = {name: (random.integers(0, 256, (n, 28, 28)), random.integers(0, 10, n)) for name, n in sizes.items()}
    for form in ("npz", "idx"):
        (tmp_path / form / "mnist").mkdir(parents=True)
    for name, (x, y) in parts.items():
        np.savez(tmp_path / "npz" / "mnist" / f"{name}.npz", x=x.astype(np.uint8), y=y)
        prefix = "train" if name == "train" else "t10k"
        write_idx(tmp_path / "idx" / "mnist" / f"{prefix}-images-idx3-ubyte.gz", x)
        write_idx(tmp_path / "idx" / "mnist" / f"{prefix}-labels.idx1-ubyte", y)
    ours, theirs = (load("mnist", Options(data=tmp_path / form), seed=3) for form in ("npz", "idx"))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)
    assert len(ours[0]) == 12
    assert sorted(ours[1].tolist()) == sorted(parts["train"][1].tolist())
    write_idx(tmp_path / "idx" / "mnist" / "t10k-labels.idx1-ubyte", np.zeros(3))
    with pytest.raises(InputError, match="labels"):
        load("mnist", Options(data=tmp_path / "idx"), seed=3)


def test_mnist_that_is_not_there_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data"):
        load("mnist", Options(), seed=0)
    (tmp_path / "mnist").mkdir()
    with pytest.raises(InputError, match=r"without mnist \(train\)"):
        load("mnist", Options(data=tmp_path), seed=0)
