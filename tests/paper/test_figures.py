"""Figures of reports: the same numbers give the same bytes, and bad shapes are named."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from aimfor.errors import InputError
from paper.report import figures
from paper.report.scoreboard import lines, write_report

METRICS = ("auroc", "recall@precision=0.8")


def draw_dots(path: Path, mean: float = 0.1) -> bytes:
    figures.dots(["a", "b", "c"], [mean, -0.2, 0.0], [0.05, -0.3, -math.inf], [0.2, 0.1, math.inf], path, "t", "x")
    return path.read_bytes()


def draw_bands(path: Path, scale: float = 1.0) -> bytes:
    x = np.linspace(0, 1, 5)
    figures.bands(x.tolist(), {"one": scale * np.stack((x, x**2)), "two": [x]}, path, "t", "x", "y", diagonal=True)
    return path.read_bytes()


@pytest.mark.parametrize("suffix", ["svg", "png"])
@pytest.mark.parametrize("draw", [draw_dots, draw_bands])
def test_the_same_numbers_give_the_same_bytes_and_others_do_not(draw: object, suffix: str, tmp_path: Path) -> None:
    assert callable(draw)
    first, again, other = (tmp_path / f"{name}.{suffix}" for name in ("first", "again", "other"))
    assert draw(first) == draw(again)
    assert draw(other, 0.5) != first.read_bytes()


def test_wrong_shapes_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "f.svg"
    with pytest.raises(InputError, match="2 labels, 1 means"):
        figures.dots(["a", "b"], [0.1], [0.0], [0.2], path, "", "")
    with pytest.raises(InputError, match="labels: got 0"):
        figures.dots([], [], [], [], path, "", "")
    with pytest.raises(InputError, match="curves: got none"):
        figures.bands([0.0], {}, path)
    with pytest.raises(InputError, match=r"'a' of shape \(2, 3\)"):
        figures.bands([0.0, 1.0], {"a": np.zeros((2, 3))}, path)
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        draw_dots(tmp_path / "f.gif")
    assert not list(tmp_path.iterdir())


def test_a_report_has_one_figure_per_metric_and_shows_it(tmp_path: Path) -> None:
    def judged(test: float) -> dict[str, object]:
        chosen = {"name": "cross-entropy", "validation": 0.5, "test": test}
        rival = {"name": "cross-entropy", "validation": 0.5, "test": 0.5}
        return {"default": chosen, "rival": rival, "rivals": {"cross-entropy": 0.5}, "papers": {}}

    entries = [
        {"cell": {"set": cell, "seed": seed}, "result": {m: judged(0.6 + 0.01 * seed) for m in METRICS}}
        for cell in ("left", "right")
        for seed in range(2)
    ]
    found = lines(entries, lambda cell: str(cell["set"]))
    write_report(tmp_path, "title", "setting", found)
    text = (tmp_path / "table.md").read_text()
    for name in ("auroc", "recall_precision_0.8"):
        assert f"({name}.svg)" in text
        assert "right" in (tmp_path / f"{name}.svg").read_text()
