"""S-MNIST on scikit-learn's digits: what the data are, that a single layer is untouched, and the report."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from aimfor.reproduce.experiment import Options
from aimfor.reproduce.s_mnist import cells, report, run, two_sizes


def test_every_image_comes_twice_and_the_second_has_twice_the_size() -> None:
    images = torch.zeros(1, 8, 8)
    images[0, 3:5, 3:5] = 1.0
    both, sizes = two_sizes(images)
    assert both.shape == (2, 256)
    assert int(sizes[0]) == 4
    assert int(sizes[1]) >= 16  # four times the area, and the rim of the interpolation


def test_cells_are_the_papers_weights_on_paired_seeds() -> None:
    planned = cells(Options(seeds=5))
    assert len(planned) == 35
    assert {cell["data"] for cell in planned} == {"digits"}
    assert {cell["alpha"] for cell in planned} == {0.0, 1e-2, 1e-3, 1e-4}
    assert cells(Options(seeds=1, full=True))[0]["epochs"] == 40


def test_regularizer_cannot_move_a_single_layer_and_the_report_says_what_was_run(tmp_path: Path) -> None:
    options = Options(seeds=1)
    chosen = [dict(cell, epochs=2) for cell in cells(options) if cell["model"] == "linear" or cell["mode"] != "ravi"]
    results = [{"cell": cell, "result": run(cell, options), "seconds": 0.0} for cell in chosen]
    by_alpha = {r["cell"]["alpha"]: r["result"] for r in results if r["cell"]["model"] == "linear"}
    assert by_alpha[0.0]["accuracy"] == by_alpha[1e-2]["accuracy"]
    assert by_alpha[0.0]["f_beta"] != by_alpha[1e-2]["f_beta"]
    full = next(r["result"] for r in results if r["cell"]["mode"] == "ravi-full")
    assert full["projections"][-1] > 20 * by_alpha[0.0]["projections"][-1]
    report([r for r in results if r["cell"]["mode"] != "ravi"], tmp_path)  # part of the cells: no baseline yet
    assert "no baseline yet" in (tmp_path / "table.md").read_text()
    report([r for r in results if r["cell"]["model"] == "linear"], tmp_path)
    assert "+0.0000" in (tmp_path / "table.md").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"table.md", "accuracy.svg", "sizes.svg", "projections.svg"}
