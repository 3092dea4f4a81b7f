"""The experiments on ranked lists and retrieval: splits that share nothing, rivals that are what they claim, tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from aimfor.learners.ensemble.members import Rows
from paper import Options, evidence
from paper.experiments.ours import lambdarank, mq2008_committee, retrieval
from paper.experiments.ours.retrieval_losses import METHODS, smooth_ap


def test_smooth_ap_is_the_package_where_the_package_groups_rightly() -> None:
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    x, labels = torch.randn(36, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6).repeat_interleave(6)
    torch.testing.assert_close(smooth_ap(0.05, x, labels), losses.SmoothAPLoss(temperature=0.05)(x, labels))


def test_smooth_ap_by_hand() -> None:
    """Two classes of two: every query has itself and one positive among four items."""
    x, labels, t = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 0, 1, 1]), 0.3
    unit = x / x.norm(dim=1, keepdim=True)
    total = 0.0
    for query in range(4):
        s = (unit @ unit[query]).tolist()
        own = [item for item in range(4) if labels[item] == labels[query]]

        def above(item: int, others: list[int], s: list[float] = s) -> float:
            return 1 + sum(float(torch.sigmoid(torch.tensor((s[j] - s[item]) / t))) for j in others if j != item)

        total += sum(above(item, own) / above(item, [0, 1, 2, 3]) for item in own) / 2
    assert float(smooth_ap(t, x, labels)) == pytest.approx(1 - total / 4, abs=1e-6)


@pytest.mark.parametrize("name", retrieval.SETS)
def test_no_class_is_in_two_parts(name: str, real_data: Path) -> None:
    parts = [retrieval.parts(real_data, name, split) for split in (0, 4)]
    for train, validation, test in parts:
        assert len(train[1].unique()) > len(validation[1].unique())
        assert not any((test[0][0] == other).flatten(1).all(1).any() for other in (train[0], validation[0]))
    assert {len(part[1]) for split in parts for part in split} != {0}
    assert not torch.equal(parts[0][2][0][:5], parts[1][2][0][:5])


def test_a_small_cell_of_retrieval_runs_and_reports(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "STEPS", 2)
    kept = {
        name: (values[:2], make) for name, (values, make) in METHODS.items() if "aimfor" in name or name == "triplet"
    }
    monkeypatch.setattr(retrieval, "METHODS", kept)
    cells = [cell for cell in retrieval.cells(Options(seeds=2)) if cell["set"] == "omniglot" and cell["split"] == 0]
    assert [(cell["seed"], cell["method"]) for cell in cells] == [(seed, name) for seed in (0, 1) for name in kept]
    entries = [{"cell": cell, "result": retrieval.run(cell, Options(data=real_data))} for cell in cells]
    assert all(0.0 < one["result"]["map@r"] < 1.0 and len(one["result"]["tried"]) == 2 for one in entries)
    assert len(retrieval.complete(entries, "omniglot")) == 2
    assert len(retrieval.complete(entries[:-1], "omniglot")) == 1  # a run that lacks a method is not compared
    retrieval.report(entries, tmp_path)
    assert "| triplet |" in (tmp_path / "table.md").read_text()


def test_official_folds_share_no_query(real_data: Path) -> None:
    for number in (1, 5):
        train, validation, test = mq2008_committee.fold(real_data, number, graded=True)
        sides = [set(rows.lists.tolist()) for rows in (train, validation, test) if rows.lists is not None]
        assert sum(map(len, sides)) == len(set.union(*sides)) == 784


def test_the_table_of_ranked_lists_compares_with_the_committee_and_stands_on_the_page() -> None:
    results: list[dict[str, Any]] = [
        {"cell": {"metric": "ap", "fold": fold}, "result": {"test": {"committee": 0.7 + 0.01 * fold, "ridge": 0.68}}}
        for fold in range(3)
    ]
    lines = mq2008_committee.summary_lines(results, "##")
    assert lines[0] == "## MAP, 3 runs"
    assert any(line.startswith("| ridge | 0.6800 | 0.680, 0.680, 0.680 | +3.0") for line in lines)
    assert "### Learning to rank with --query" in evidence.render({"mq2008_committee": results})


def test_lambdarank_by_loops() -> None:
    generator = torch.Generator().manual_seed(3)
    scores, grades = torch.randn(2, 4, generator=generator), torch.tensor([[2, 0, 1, 9], [0, 1, 0, 0]])
    there = torch.tensor([[True, True, True, False], [True, True, True, True]])
    total = 0.0
    for s, g, real in zip(scores.tolist(), grades.tolist(), there.tolist(), strict=True):
        items = [i for i in range(4) if real[i]]
        place = {i: 1 + sum(s[j] > s[i] for j in items) for i in items}
        ideal = sum(one / math.log2(k + 2) for k, one in enumerate(sorted((g[i] for i in items), reverse=True)))
        for i in items:
            for j in items:
                if g[i] > g[j]:
                    swap = (g[i] - g[j]) * abs(1 / math.log2(1 + place[i]) - 1 / math.log2(1 + place[j])) / ideal
                    total += swap * math.log1p(math.exp(s[j] - s[i])) / 2
    assert float(lambdarank.lambdarank(scores, grades, there)) == pytest.approx(total, rel=1e-5)


def test_lists_are_padded_in_their_own_order() -> None:
    rows = Rows(torch.zeros(5, 1), torch.zeros(5).long(), lists=torch.tensor([7, 3, 7, 3, 3]))
    numbers, there = lambdarank.padded(rows)
    assert [row[real].tolist() for row, real in zip(numbers, there, strict=True)] == [[1, 3, 4], [0, 2]]
