"""Meng's tables on frozen features: what each rival's loss is, a small contest, and what the judges say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from paper import Options
from paper.claims import judging_meng
from paper.experiments.meng import heads
from paper.protocol.protocol import Budget
from paper.rivals import libauc, ppd


def features(classes: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (240,), generator=draw)
    x = torch.randn(240, 6, generator=draw)
    x[:, :classes] += torch.nn.functional.one_hot(y, classes)
    return x[:160], y[:160], x[160:], y[160:]


def test_the_paper_s_loss_is_a_ramp_over_pairs_of_probabilities() -> None:
    loss = next(one.loss for one in heads.contenders(True) if one.name == heads.MENG)
    scores, y = torch.tensor([0.1, -0.3, 0.102, 1.0]), torch.tensor([1, 1, 0, 0])
    p = torch.sigmoid(scores)
    by_hand = ((heads.MARGIN - (p[y == 1][:, None] - p[y == 0][None, :])) / heads.MARGIN).clamp(0, 1).mean()
    torch.testing.assert_close(loss(scores, y, torch.ones(2)), by_hand)


@pytest.mark.filterwarnings("ignore::aimfor.errors.ProbabilityWarning")
@pytest.mark.parametrize("kind", [{"positives": 91}, {"drop": 90}])
def test_a_small_cell_has_every_rival_that_the_paper_names(
    kind: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = 2 if "positives" in kind else 3
    monkeypatch.setattr(heads.meng_features, "task", lambda cell, folder: features(classes))
    monkeypatch.setattr(heads, "budget", lambda: Budget(26, 0, batch=16, rates=(1e-2,), looks=2))
    (tmp_path / "stl10").mkdir()
    cell: dict[str, Any] = {"set": "stl10", **kind, "seed": 0}
    assert cell in heads.EXPERIMENT.cells(Options(seeds=1))
    found = heads.run(cell, Options(data=tmp_path))
    for methods in found.values():
        assert {heads.PLAIN, heads.MENG, heads.HINGE, heads.SQUARED} <= methods.keys()
        assert (set(ppd.NAMES) <= methods.keys()) == (classes == 2)
        assert ("LibAUC AUCM" in methods) == (classes == 2 and libauc.installed())
    heads.EXPERIMENT.report([{"cell": cell, "result": found}] * 2, tmp_path)
    text = (tmp_path / "table.md").read_text(encoding="utf8")
    assert "nan" not in text
    assert ("68.4" if classes == 2 else "76.1") in text


def made(gain: float) -> list[dict[str, Any]]:
    """Three cells of two seeds, in which the paper's loss is better than cross-entropy by about ``gain``."""
    return [
        {
            "cell": {"set": name, "positives": 91, "seed": seed},
            "result": {
                "auroc": {
                    heads.PLAIN: {"test": 0.7},
                    heads.MENG: {"test": 0.7 + gain + 0.001 * place},
                    "PPD-SG": {"test": 0.75},
                }
            },
        }
        for seed in range(2)
        for place, name in enumerate(("stl10", "cifar10", "cifar100"))
    ]


def test_judges_pair_over_cells() -> None:
    plain, both = (judging_meng.heads_against("auroc", names) for names in ((heads.PLAIN,), (heads.PLAIN, "PPD-SG")))
    assert plain(made(0.02)).verdict == "confirmed"
    assert both(made(0.02)).verdict == "partly confirmed"
    assert both(made(0.08)).verdict == "confirmed"
    assert plain(made(-0.02)).verdict == "not confirmed"
    assert "+0.0210" in plain(made(0.02)).numbers


def test_judges_of_theorem_2_and_of_reduced_programs() -> None:
    rows = [{"programs": 20, "λ = 1 (80 steps)": 4, "λ = 0.02 (2040 steps)": 20, "gradient descent, 5,000 steps": 0}]
    assert judging_meng.short_steps(rows).verdict == "confirmed"
    assert judging_meng.newton_or_descent(rows).verdict == "confirmed"
    rows[0]["λ = 0.02 (2040 steps)"] = 19
    assert judging_meng.short_steps(rows).verdict.startswith("partly")
    noise = {
        "noise on c": "0.01",
        "its own value lost, largest": "1e-15",
        "plain scheme, λ = 0.05, converged": "1 of 20",
    }
    assert judging_meng.perturbed_costs([{**noise, "unique": "20 of 20"}]).verdict == "confirmed"
    assert judging_meng.perturbed_costs([{**noise, "unique": "3 of 20"}]).verdict == "not confirmed"
    line = {"data": "d", "pairs, or directions": "9", "AUROC of other rows, points": "-0.1"}
    quarter = [{**line, "program": "25% of the pairs", "objective above the optimum": e} for e in ("4.1%", "27.0%")]
    assert judging_meng.auc_reduction(quarter[:1]).verdict == "confirmed"
    assert judging_meng.auc_reduction(quarter).verdict.startswith("partly")
    assert judging_meng.auc_reduction(quarter[1:]).verdict == "not confirmed"
