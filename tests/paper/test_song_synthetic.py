"""Song's synthetic experiments: accuracy of losses that fix no threshold, and what the report says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paper import Options
from paper.experiments.song import synthetic


class Raised(nn.Linear):
    """Scores that are too high by five, which average precision cannot see."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + 5.0


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, grid in (("RATES", (0.03,)), ("FINE_RATES", (0.03,)), ("EPSILONS", (0.1,))):
        monkeypatch.setattr(synthetic, name, grid)


def cell(method: str) -> dict[str, Any]:
    return {"task": "linear", "method": method, "points": 400, "steps": 60, "seed": 0}


def test_accuracy_is_read_at_a_tuned_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "network", lambda task: Raised(10, 1, bias=False))
    torch.manual_seed(0)
    found = synthetic.run(cell("pos-AP"), Options())
    assert found["test_ap"][-1] > 0.95
    assert found["test_accuracy"][-1] > 0.85  # at 0 nearly all are called positive: about a half


def test_the_report_leaves_out_accuracies_that_mean_nothing(tmp_path: Path) -> None:
    results = [
        {"cell": cell(method), "result": synthetic.run(cell(method), Options())} for method in ("pos-AP", "logistic")
    ]
    told = []
    for old in (False, True):
        if old:
            for one in results:
                del one["result"]["threshold"]
        synthetic.report(results, tmp_path)
        rows = (tmp_path / "table.md").read_text(encoding="utf8").splitlines()
        told.append([line.split("|")[4].strip() for line in rows if line.startswith(("| pos-AP", "| logistic"))])
    assert "–" not in told[0]
    assert told[1] == ["–", told[0][1]]
