"""F1 of a second label as a regularizer: one small cell of each task and the page, and the sizes of boxes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paper import Options
from paper.data import voc
from paper.experiments.ravi import second_label as experiment


def test_adult_s_cell_runs(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(experiment.SIZES, "adult", (1, 8, 1, 2048))
    found = experiment.run({"task": "adult", "seed": 0}, Options(data=real_data))
    assert set(found) == {"α = 0", "α = 0.01", "α = 0.1", experiment.BOUND}
    assert all(one["accuracy"] > 0.7 for one in found.values())


def test_a_box_s_cell_runs_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    x, big = torch.randn(400, 6, generator=draw), torch.rand(400, generator=draw) < 0.4
    y = (x[:, :1] + torch.randn(400, 10, generator=draw) > 0).long()
    part = x + big[:, None] * 2.0, y, big
    monkeypatch.setattr(experiment, "data", lambda *given: (part, part))
    cells = [{"task": "box", "seed": seed} for seed in (0, 1)]
    found = experiment.run(cells[0], Options(data=tmp_path))
    assert found["α = 0.1"]["F1 of the second label"] > max(0.8, found["α = 0"]["F1 of the second label"])
    experiment.EXPERIMENT.report([{"cell": cell, "result": found} for cell in cells], tmp_path)
    assert "| α = 0.01 | 0." in (tmp_path / "table.md").read_text()


def test_a_box_covers_its_share_of_the_picture(tmp_path: Path) -> None:
    folder = tmp_path / "voc2012_action_large"
    folder.mkdir()
    (folder / "train.csv").write_text("file,xmin,ymin,xmax,ymax,width,height\na.jpg,10,0,60,50,100,100\n")
    assert voc.box_sizes(tmp_path, "train").tolist() == [0.25]
