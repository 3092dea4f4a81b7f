"""The metric against the size of the batch: equal forward passes, banks that hold what they say, the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from paper import Options
from paper.experiments.ours import batch_size
from paper.report import batch_size_board


def test_every_way_has_the_same_number_of_forward_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that the network scored, counted; parts are scored twice, the moving average's own pass is beside it."""
    monkeypatch.setitem(batch_size.PASSES, "mnist", 2048)
    torch.manual_seed(0)
    x = torch.randn(2048, 6)
    rows = batch_size.Rows(x, (x[:, 0] > 1.0).long())
    for way in ("batch 64", "batch 256", "batch 1024", "cross-entropy", "bank", "momentum bank"):
        scored: list[int] = []
        watched = nn.modules.module.register_module_forward_hook(
            lambda module, given, output, scored=scored: (
                scored.append(len(output)) if isinstance(module, nn.Sequential) else None
            )
        )
        try:
            model = batch_size.train("AP, MNIST 5 %", way, 1e-2, 0, rows)
        finally:
            watched.remove()
        assert sum(scored) == (2 * 2048 if way == "momentum bank" else 2048), way
        assert max(scored) <= 256
        assert batch_size.judged("ap", model, rows) > float(rows.y.float().mean()), way


def test_a_bank_holds_the_last_batches_and_a_moving_average_scores_them_itself() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 2.0)
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1])
    bank, average = batch_size.Recent(model, 4, False), batch_size.Recent(model, 4, True)
    for step in range(4):
        found, labels = bank.joined(model, x, model(x) + step, y)
        slow, _ = average.joined(model, x, model(x) + step, y)
        assert len(found) == len(labels) == min(2 + 2 * step, 6)
    assert found[:, 0].tolist() == [5.0, 7.0, 4.0, 6.0, 3.0, 5.0]  # this batch, then the last two
    assert slow[:, 0].tolist() == pytest.approx([5.0, 7.0, 2.0, 4.0, 2.0, 4.0])
    assert found.requires_grad


def test_positives_are_thinned_and_the_page_has_every_way(tmp_path: Path) -> None:
    y = torch.tensor([0, 1] * 500)
    kept = batch_size._thinned(y, 0.1, torch.Generator().manual_seed(0))
    assert int((y[kept] == 0).sum()) == 500
    assert 25 <= int((y[kept] == 1).sum()) <= 75
    cells = batch_size.cells(Options(seeds=2))
    assert len(cells) == 2 * sum(len(batch_size.ways(problem)) for problem in batch_size.PROBLEMS)
    results: list[dict[str, Any]] = [
        {"cell": cell, "result": {"value": 0.5 + 0.1 * cell["seed"]}, "seconds": 1.0} for cell in cells
    ]
    batch_size.report(results, tmp_path)
    page = (tmp_path / "table.md").read_text(encoding="utf8")
    assert page.count("55.0 ± 7.1") == len(cells) // 2
    assert "| MAP@R, Omniglot | 55.0 ± 7.1 | 55.0 ± 7.1 | 55.0 ± 7.1 | – | – | – |" in page
    assert (tmp_path / batch_size_board.FIGURE).stat().st_size > 1000
