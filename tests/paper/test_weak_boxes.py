"""Weak boxes and the papers' own algorithm on masks: the largest box by trying all, and one small cell of each."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from paper import Options
from paper.data.mask_data import IGNORED, MaskPart, MaskTask
from paper.experiments.ravi import sky_plain, weak_boxes
from paper.experiments.ravi.mask_training import MaskBudget
from paper.experiments.ravi.sky_segmentation import task_of


def test_the_largest_box_is_found() -> None:
    draw = torch.Generator().manual_seed(0)
    for _ in range(30):
        mask = (torch.rand(5, 6, generator=draw) < 0.7).long()
        corners = product(range(5), range(6), range(1, 6), range(1, 7))
        sides = [(b - t) * (r - c) for t, c, b, r in corners if b > t and r > c and bool(mask[t:b, c:r].all())]
        top, left, bottom, right = weak_boxes.largest_box(mask)
        assert (bottom - top) * (right - left) == max(sides, default=0)
        assert bool(mask[top:bottom, left:right].all())
    assert weak_boxes.largest_box(torch.zeros(3, 4)) == (0, 0, 0, 0)


def test_weak_labels_keep_ignored_pixels() -> None:
    masks = torch.tensor([[[1, 1, 0], [1, 1, IGNORED], [0, 1, 0]]], dtype=torch.uint8)
    part = weak_boxes.boxed(MaskPart(torch.zeros(1, 3, 3, 3), masks, masks))
    assert part.y.tolist() == [[[1, 1, 0], [1, 1, IGNORED], [0, 0, 0]]]


def small(cell: dict[str, Any], options: Options) -> MaskTask:
    task = task_of(cell, options)
    parts = (MaskPart(part.x[:24], part.y[:24], part.fine[:24]) for part in (task.train, task.validation, task.test))
    return replace(task, **dict(zip(("train", "validation", "test"), parts, strict=True)))


@pytest.mark.parametrize("experiment", [weak_boxes, sky_plain])
def test_a_small_cell_runs_and_reports(
    experiment: Any, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "task_of", small)
    monkeypatch.setattr(weak_boxes, "BUDGET", MaskBudget(1, 1))
    monkeypatch.setattr(sky_plain, "THRESHOLDS", {"stanford_background": (0.2,)})
    options = Options(seeds=2, data=real_data)
    cells = experiment.cells(options)
    found = experiment.run(cells[0], options)
    assert all(0 <= value <= 1 for one in found["test"].values() for value in one.values())
    experiment.EXPERIMENT.report([{"cell": cell, "result": found} for cell in cells], tmp_path)
    page = (tmp_path / "table.md").read_text()
    assert ("nnPU, prior known, + F1" if experiment is weak_boxes else "| stanford_background | 0.2 |") in page
