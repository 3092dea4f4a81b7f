"""One small cell of each experiment, on the real data; skipped where the data is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from aimfor.errors import InputError
from paper import NAMES, Options, evidence
from paper import run as runner
from paper.claims import judging
from paper.claims.catalogue import CLAIMS
from paper.data import images
from paper.experiments.meng import table1 as meng_table1
from paper.experiments.meng import table2 as meng_table2
from paper.experiments.ours import mq2008, tables
from paper.protocol.protocol import Budget
from paper.report import constraints_board, scoreboard

TINY = Budget(4, 2, batch=16, large=32, rates=(1e-2,), looks=2)
CELLS: dict[Any, dict[str, Any]] = {
    tables: {"set": "ecoli4", "seed": 0},
    mq2008: {"fold": 2, "seed": 0},
    meng_table1: {"set": "cats_vs_dogs", "positives": 71, "seed": 0},
    meng_table2: {"set": "stl10", "drop": 60, "seed": 0},
}


@pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")
@pytest.mark.parametrize("module", CELLS, ids=lambda module: module.__name__.split(".")[-1])
def test_a_small_cell_runs_and_reports(
    module: Any, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "budget", lambda options: TINY)
    cell = CELLS[module]
    options = Options(seeds=1, data=real_data)
    assert cell in module.cells(options)
    result = module.run(cell, options)
    for found in result.values():
        assert 0.0 <= found["default"]["test"] <= 1.0
    module.report([{"cell": cell, "result": result, "seconds": 1.0}], tmp_path)
    assert "best rival" in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize("module", CELLS, ids=lambda module: module.__name__.split(".")[-1])
def test_missing_data_is_named_before_anything_runs(module: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data: got"):
        module.run(CELLS[module], Options(data=tmp_path))


def test_images_are_thinned_to_the_wanted_share(real_data: Path) -> None:
    train, judge, test = images.binary_parts(real_data, "cifar10", 0.91, 0, 200)
    both = torch.cat((train.y, judge.y))
    assert int(both.sum()) == 200
    assert int((both == 0).sum()) == round(200 * 9 / 91)
    assert float(test.y.float().mean()) == 0.5
    three = images.three_class_parts(real_data, "stl10", 0.8, 0, 100)
    assert torch.bincount(torch.cat((three[0].y, three[1].y))).tolist() == [20, 20, 100]


def test_folds_hold_whole_queries_of_their_own_parts(real_data: Path) -> None:
    for number in (1, 4):
        parts = mq2008.fold(real_data, number)
        assert sum(len(part) for part in parts) == 564  # 784 queries, 220 without a relevant document
        for part in parts:
            assert bool((part.y.max(1).values > 0).all())
            assert bool((part.x[part.y < 0] == 0).all())


def test_ranking_losses_ignore_padding_and_prefer_the_right_order() -> None:
    grades = torch.tensor([[2, 0, 1, -1], [0, 1, -1, -1]])
    good, bad = grades.float(), -grades.float()
    for method in mq2008.RANKERS:
        moved = good.masked_fill(grades < 0, 7.0)
        shares = torch.ones(3)
        assert float(method.loss(good, grades, shares)) < float(method.loss(bad, grades, shares))
        assert float(method.loss(moved, grades, shares)) == pytest.approx(float(method.loss(good, grades, shares)))


def test_every_listed_experiment_loads_and_names_itself() -> None:
    for name in NAMES:
        experiment = runner.load(name)
        assert experiment.name == name
        assert experiment.title
        assert experiment.paper


def meng_entries(ours: float, plain: float, balanced: float) -> list[dict[str, Any]]:
    def found(seed: int) -> dict[str, Any]:
        return {
            "papers": {"ramp from scratch": ours + 0.001 * seed, "squared_hinge from scratch": ours},
            "rivals": {"cross-entropy": plain, "balanced batches": balanced},
            "rival": {"name": "cross-entropy", "validation": 0.5, "test": plain},
            "default": {"name": "head on cross-entropy", "validation": 0.6, "test": ours},
        }

    cells = [{"set": "cifar10", "positives": 91, "seed": seed} for seed in range(3)]
    return [{"cell": cell, "result": {"auroc": found(cell["seed"])}} for cell in cells]


@pytest.mark.parametrize(
    ("ours", "plain", "balanced", "verdict"),
    [
        (0.8, 0.7, 0.7, "confirmed"),
        (0.8, 0.7, 0.9, "in part, not against balanced batches"),
        (0.6, 0.7, 0.7, ""),
    ],
)
def test_verdicts_follow_from_the_numbers_and_the_distance(
    ours: float, plain: float, balanced: float, verdict: str
) -> None:
    far = CLAIMS[0]
    assert not far.near
    for claim, word in ((far, judging.NOT_HERE), (replace(far, near=True), judging.REFUTED)):
        found = claim.judged({"meng_table1": meng_entries(ours, plain, balanced)}).verdict
        assert found == (verdict if verdict == "confirmed" else f"{word}: {verdict}" if verdict else word)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ("+0.0 [-0.009, +0.009]", "confirmed"),
        ("-0.005 [-0.009, -0.001]", "confirmed"),  # surely worse, by less than the margin
        ("+0.0 [-0.02, +0.02]", "not testable here: the interval is wider than the margin"),
        ("-0.05 [-0.09, -0.01]", "not confirmed"),
        ("+0.05 [+0.01, +0.09]", "not confirmed"),
    ],
)
def test_as_good_needs_a_narrow_interval(interval: str, verdict: str) -> None:
    assert judging.as_good(f"0.8 against 0.8 {interval} (6 runs)", 0.01) == verdict
    judge = judging.equivalent(lambda entries: judging.Judgement(interval, "confirmed"), 0.01)
    assert judge([]).verdict == verdict


def test_too_few_seeds_give_no_verdict() -> None:
    entries = meng_entries(0.8, 0.7, 0.7)[:2]
    assert CLAIMS[0].judged({"meng_table1": entries}).verdict == judging.TOO_FEW


def test_evidence_lists_every_claim_and_computes_the_scoreboard() -> None:
    page = evidence.render({"meng_table1": meng_entries(0.8, 0.7, 0.9)})
    for claim in CLAIMS:
        assert claim.claim in page
    assert "+0.1000" in page
    assert "a refitted head in 100%" in page
    assert evidence.render({}).count(judging.NOT_RUN) >= 10


def test_the_page_begins_with_the_map_and_folds_its_tables_within_their_sections() -> None:
    page = (Path(__file__).parents[2] / "EVIDENCE.md").read_text(encoding="utf8").splitlines()
    screen = page[: page.index("### Predict, then optimise (`map_regret`)")]
    assert "![Points gained or lost against tuned cross-entropy](docs/map.svg)" in screen
    assert len(screen) < 50
    inside = False
    for line in page:
        assert not (inside and line.startswith("#"))
        assert line.startswith("<details>") != inside if "details>" in line else True
        inside = (inside or line.startswith("<details>")) and line != "</details>"
        assert inside or not line.startswith("| ") or line in screen
    assert not inside


def test_the_page_says_where_the_default_falls_short() -> None:
    def score(metric: str, median: float, better: int, worse: int) -> scoreboard.Score:
        three = (median, median, median)
        return scoreboard.Score(metric, 9, "5", three, median, better, worse, (0, 0), 5, 4, three, three, 0, 0)

    found = evidence._shortcomings([score("good", 0.1, 3, 0), score("few", 0.1, 2, 0), score("bad", 0.0, 4, 1)])
    assert found == [
        "Not above the best rival in the median cell: bad.",
        "Significantly better in fewer than a third of the cells: few (2 of 9).",
        "Significantly worse in a cell: bad (1 of 9, after Holm's correction 0).",
    ]
    assert evidence._shortcomings([score("good", 0.1, 3, 0)]) == []


def test_every_verdict_is_one_of_three_and_every_claim_says_how_far_it_is() -> None:
    allowed = {judging.CONFIRMED, judging.REFUTED, judging.NOT_HERE, judging.NOT_RUN}
    assert all(claim.distance and claim.setting for claim in CLAIMS)
    results = evidence.gathered(Path(__file__).parents[2] / "paper" / "results")
    assert {claim.judged(results).verdict.split(":")[0] for claim in CLAIMS} <= allowed


def test_constraints_are_judged_by_certificates_and_paired_objectives() -> None:
    def side(objective: float, verdict: str) -> dict[str, Any]:
        return {"objective": objective, "verdict": verdict, "accuracy": objective}

    def floor(seed: int, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
        cell = {"task": "floor", "data": "adult", "model": "mlp", "seed": seed}
        return {"cell": cell, "result": {"recall >= 0.8": {"aimfor": ours, "rival": theirs}}}

    def gap(seed: int) -> dict[str, Any]:
        cell = {"task": "gap", "data": "compas", "model": "linear", "seed": seed}
        names = constraints_board.GAP_METHODS
        return {"cell": cell, "result": {names[0]: side(0.5, "met"), names[1]: side(0.7 + 0.01 * seed, "missed")}}

    entries = [floor(s, side(0.9, "met"), side(0.8 + 0.01 * s, "met" if s else "undecided")) for s in range(4)]
    text = constraints_board.constraints_board([*entries, *(gap(s) for s in range(2))])
    assert "| adult | mlp | recall >= 0.8 | 100% | 75% | +0.0850 [" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| adult")]
    assert row.endswith("| better |")
    (row,) = [line for line in text.splitlines() if line.startswith("| compas")]
    assert "| 100% | 0% | -0.2050 [" in row
