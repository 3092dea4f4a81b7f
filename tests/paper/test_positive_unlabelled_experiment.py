"""The experiment on positive and unlabelled tables: one small cell and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from paper import Options
from paper.experiments.ravi import positive_unlabelled as experiment
from paper.report import pu_board


def test_a_small_cell_runs_and_reports(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "STEPS", 60)
    cell = {"table": "spambase", "seed": 0}
    assert cell in experiment.cells(Options(seeds=1))
    found = experiment.run(cell, Options(seeds=1, data=real_data))
    assert 0.2 < found["prior"]["known"] < 0.3  # 39 % positives, half of them known
    assert found["labels of all rows"]["accuracy"] > found["naive"]["accuracy"]
    # Three standard errors of 130 known positives.
    assert found["auroc"]["corrected"] == pytest.approx(found["auroc"]["true"], abs=0.06)
    pu_board.report([{"cell": cell, "result": found}], tmp_path)
    assert "nnPU, prior estimated" in (tmp_path / "table.md").read_text()


def test_the_page_means_over_seeds_and_pairs_over_tables() -> None:
    def entry(table: str, seed: int, accuracy: float) -> dict[str, object]:
        numbers = {"naive": 0.5, "nnPU, prior known": accuracy}
        ways = {name: {"accuracy": value, "auroc": value} for name, value in numbers.items()}
        prior = {"known": 0.3, "estimated": 0.4}
        return {
            "cell": {"table": table, "seed": seed},
            "result": {"prior": prior, **ways, "auroc": dict.fromkeys(("unlabelled", "corrected", "true"), 0.9)},
        }

    page = "\n".join(pu_board.lines([entry("a", 0, 0.6), entry("a", 1, 0.8), entry("b", 0, 0.9), entry("b", 1, 0.9)]))
    assert "| nnPU, prior known | 0.700 | 0.900 | 0.800 | +0.3000" in page
    assert "2 seeds." in page
