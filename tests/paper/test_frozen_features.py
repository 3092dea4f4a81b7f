"""Experiments on frozen features, on features made up here: imbalances as in Meng's tables, rivals by folds, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from paper import Options
from paper.data.frozen import evenly
from paper.experiments.ours import meng_features, retrieval_features, voc_features, voc_smooth
from paper.report.meng_board import meng_lines


def made_up(folder: Path, name: str, split: str, most: int, side: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(len(split))
    y = torch.arange(400) % 10
    return torch.randn(400, 12, generator=generator) + torch.nn.functional.one_hot(y, 12), y


@pytest.mark.parametrize("which", [{"positives": 91}, {"drop": 90}])
def test_a_cell_on_made_up_features(which: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meng_features, "frozen_split", made_up)
    monkeypatch.setattr(meng_features, "data_folder", lambda *_: tmp_path)
    monkeypatch.setattr(meng_features, "RIDGES", (0.03,))
    monkeypatch.setattr(meng_features, "FOR_FEATURES", ("features_linear",))
    monkeypatch.setattr(meng_features, "FOLDS", 3)
    cell = {"set": "stl10", **which, "seed": 0}
    assert cell in meng_features.cells(Options(seeds=1))
    _, y, _, _ = meng_features.task(cell, tmp_path)
    counts = torch.bincount(y).tolist()
    assert counts == ([20, 200] if "positives" in which else [12, 12, 120])
    result = meng_features.run(cell, Options(seeds=1))
    for found in result.values():
        assert 0.5 < found["committee"]["test"] < 1.0
        assert found["rival"]["validation"] == max(one["validation"] for one in found["rivals"].values())
    meng_features.report([{"cell": cell, "result": result, "seconds": 1.0}], tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "1 seed." in text
    assert "63.5" in text or "66.9" in text  # the paper's cross-entropy in that cell


def test_the_rival_is_scikit_learns_logistic_regression() -> None:
    x, y = torch.randn(200, 4), (torch.randn(200) > 0.5).long()
    ridge = 0.05
    # Softmax of two classes has each weight twice with opposite signs: the same penalty counts for half.
    peer = LogisticRegression(C=1 / (len(y) * ridge / 2), tol=1e-10, max_iter=1000).fit(x.numpy(), y.numpy())
    ours = meng_features.layer(x, y, "logistic regression", ridge)(x)
    assert np.allclose(ours.numpy(), peer.decision_function(x.numpy()), atol=2e-4)


def test_draws_are_even_and_the_same() -> None:
    labels = np.repeat(np.arange(4), [50, 9, 30, 30])
    rows = evenly(labels, 80)
    assert rows == evenly(labels, 80) == sorted(set(rows))
    assert np.bincount(labels[rows]).tolist() == [20, 9, 20, 20]


def test_a_retrieval_cell_judges_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.arange(60) // 4
    x = torch.nn.functional.one_hot(y % 8, 8) + 0.3 * torch.randn(60, 8)
    monkeypatch.setattr(retrieval_features, "data", lambda *_: (x, y, y % 5))
    monkeypatch.setattr(retrieval_features, "data_folder", lambda *_: tmp_path)
    whole = retrieval_features.fit_embedding
    monkeypatch.setattr(retrieval_features, "fit_embedding", lambda *a, **k: whole(*a, steps=2, **k))
    results: list[dict[str, Any]] = []
    for cell in retrieval_features.cells(Options(seeds=1))[:2]:
        results.append({"cell": cell, "result": retrieval_features.run(cell, Options(seeds=1)), "seconds": 1.0})
        found = results[-1]["result"]
        assert found["test"]["chosen"] == found["test"][found["chosen"]]
    retrieval_features.report(results, tmp_path)
    assert "chosen by folds" in (tmp_path / "table.md").read_text()
    assert meng_lines([]) == ["Not measured yet: `python -m paper meng_features`."]


def test_losses_on_several_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    x, noise = torch.randn(240, 6, generator=generator), torch.randn(240, 3, generator=generator)
    y = (x[:, :3] + noise > 0.8).long()
    y[:7, 0] = -1  # unknown
    parts = x[:160], y[:160], x[160:], y[160:], torch.arange(160) // 2
    monkeypatch.setattr(voc_smooth, "features", lambda folder: parts)
    monkeypatch.setattr(voc_smooth, "data_folder", lambda *_: tmp_path)
    monkeypatch.setattr(voc_features, "RIDGES", (0.1, 0.01))
    result = voc_smooth.run({"seed": 0}, Options(seeds=1))
    assert {*voc_features.LOSSES, *voc_smooth.OURS} < set(result["losses"])
    assert all(one["test"] > y[160:].double().mean() + 0.1 for one in result["losses"].values())
    rows = [{"cell": {"seed": seed}, "result": result, "seconds": 1.0} for seed in range(2)]
    voc_smooth.report(rows, tmp_path)
    assert "| smooth AP alone |" in (tmp_path / "table.md").read_text()
    assert "2 seeds." in (tmp_path / "table.md").read_text()
