"""The committee's experiment: choices on training rows alone, and tables whose numbers are those of the cells."""

from __future__ import annotations

import math
from functools import partial
from itertools import compress, product
from pathlib import Path
from typing import Any

import pytest
import torch

from aimfor.learners.ensemble import fit_ensemble
from aimfor.runs.compare.verdicts import Difference
from paper.experiment import Options
from paper.experiments.ours import committee
from paper.report.committee_board import CONTRASTS, Cell, cells_of, chosen_rival, visible, write_board
from paper.report.statistics import signed_ranks


def found(ours: float, rivals: dict[str, tuple[float, float, float | None]]) -> dict[str, Any]:
    return {
        "committee": ours,
        "promised": ours + 0.01,
        "without_metric_members": ours - 0.02,
        "rules": {"average": ours - 0.01},
        "shares": {"linear": 0.25, "trees": 0.75},
        "rivals": {
            name: dict(zip(("validation", "test", "test_cv"), three, strict=True)) for name, three in rivals.items()
        },
    }


def result(seed: int, one: dict[str, Any]) -> dict[str, Any]:
    return {"cell": {"set": "made_up", "seed": seed}, "result": {"metrics": {"f1": one}}}


def test_the_rival_is_chosen_by_validation_and_takes_the_cross_validated_threshold() -> None:
    one = found(0.5, {"LightGBM": (0.9, 0.1, 0.2), "network": (0.8, 0.7, None)})
    assert chosen_rival(one) == ("LightGBM", 0.2)
    assert chosen_rival(found(0.5, {"LightGBM": (0.7, 0.1, 0.2), "network": (0.8, 0.7, None)})) == ("network", 0.7)


def test_the_board_shows_the_cells(tmp_path: Path) -> None:
    rivals = {"LightGBM": (0.9, 0.1, 0.4), "network": (0.8, 0.7, None)}
    results = [result(seed, found(0.5 + 0.01 * seed, rivals)) for seed in range(3)]
    (cell,) = cells_of(results, "f1", CONTRASTS["the best rival, chosen on held-out training rows"])
    assert (cell.seeds, cell.chosen) == (3, "LightGBM")
    assert cell.difference.mean == pytest.approx(11.0)
    write_board(results, tmp_path, "title")
    text = (tmp_path / "table.md").read_text()
    assert "| f1 | 1 | 3–3 | +11.00" in text
    assert "| f1 | 1 | 3–3 | +1.00" in text  # the plain average
    assert "| f1 | 1 | 3–3 | +2.00" in text  # without the member trained for the metric
    assert "| f1 | 3 | +1.00 | +1.00 | 1.00 |" in text
    assert "| f1 | 0.25 | 0.75 |" in text


def test_the_board_says_which_gain_one_table_could_show() -> None:
    def cell(half: float) -> Cell:
        return Cell("made_up", "f1", 3, 1.0, 0.0, "network", Difference(1.0, 1.0 - half, 1.0 + half, 0.5))

    assert visible([cell(2.0), cell(4.0), cell(9.0), cell(math.inf)]) == "4.0"  # one split has no interval
    assert visible([cell(math.inf)]) == ""


def test_signed_ranks_are_those_of_all_signs() -> None:
    gains = [0.3, -0.1, 0.7, 1.1, 0.2, -0.4, 2.0]
    ranks = [1 + sum(abs(one) > abs(other) for other in gains) for one in gains]
    total = sum(ranks)
    observed = sum(rank for rank, gain in zip(ranks, gains, strict=True) if gain > 0)
    sums = [sum(compress(ranks, signs)) for signs in product((0, 1), repeat=len(ranks))]
    extreme = sum(abs(one - total / 2) >= abs(observed - total / 2) for one in sums)
    assert signed_ranks(gains) == pytest.approx(extreme / len(sums))
    assert signed_ranks([0.0, 0.0]) == 1.0


def test_the_board_shows_what_a_floor_promised_at_its_own_threshold(tmp_path: Path) -> None:
    floor = "recall@precision=0.8"
    results = []
    for seed, met in enumerate((0.5, 0.7)):
        one = found(0.5, {"LightGBM": (0.9, 0.1, 0.4)})
        rates = {"promised": {"precision": 0.8, "recall": 0.6}, "found": {"precision": 0.75, "recall": met}}
        one["at_threshold"] = rates if seed == 0 else {"promised": None, "found": rates["found"]}
        results.append({"cell": {"set": "made_up", "seed": seed}, "result": {"metrics": {floor: one}}})
    write_board(results, tmp_path, "title")
    text = (tmp_path / "table.md").read_text()
    assert f"| recall at the threshold of {floor} | 1 | +10.00 | +10.00 | 10.00 |" in text
    assert f"| precision at the threshold of {floor} | 1 | +5.00 | +5.00 | 5.00 |" in text


def test_splits_are_stratified_standardised_by_training_rows_and_paired() -> None:
    generator = torch.Generator().manual_seed(0)
    x = 5.0 + 3.0 * torch.randn(200, 3, generator=generator, dtype=torch.float64)
    x[:, 2] = 1.0
    y = (torch.arange(200) < 40).long()
    a, b = committee.split(x, y, 4), committee.split(x, y, 4)
    assert all(torch.equal(one, two) for one, two in zip(a, b, strict=True))
    assert (int(a[1].sum()), int(a[3].sum())) == (28, 12)
    assert a[0].shape == (140, 2)  # the constant column says nothing
    torch.testing.assert_close(a[0].mean(0), torch.zeros(2), atol=1e-5, rtol=0)


def test_a_small_cell_runs_and_reports(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committee, "fit_ensemble", partial(fit_ensemble, kinds=("linear", "trees"), folds=2))
    monkeypatch.setattr(committee, "METRICS", ("f1", "recall@precision=0.8"))
    cell = {"set": "ecoli4", "seed": 0}
    options = Options(seeds=1, data=real_data)
    assert cell in committee.cells(options)
    measured = committee.run(cell, options)
    assert measured["rows"] == [235, 101]
    assert set(measured["metrics"]) == set(committee.METRICS)
    for one in measured["metrics"].values():
        assert 0.0 <= one["committee"] <= 1.0
        assert set(one["rivals"]) == {"LightGBM", "HistGB", "logistic regression", "network"}
        assert set(one["without"]) == set(one["members"])
    committee.report([{"cell": cell, "result": measured, "seconds": 1.0}], tmp_path)
    assert "The committee against the best rival" in (tmp_path / "table.md").read_text()
