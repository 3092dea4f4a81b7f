"""The plain loop of `from_scratch`, its judging and its table, against slower routes to the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from aimfor.metrics import METRICS
from aimfor.metrics.fbeta import PairwiseFBeta
from paper import Options
from paper.experiments.scratch import from_scratch, judging, loop
from paper.experiments.scratch.problems import PROBLEMS, Problem, draw, labels_of
from paper.report import scratch_board


def problem(outputs: int = 1, n: int = 60) -> Problem:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3 * n, 4, generator=generator)
    y = torch.arange(3 * n) % (outputs if outputs > 1 else 2)
    x[:, 0] += y
    parts = [(x[start::3], y[start::3]) for start in range(3)]
    return Problem(*parts, outputs, 5)


#: Registered after the last whole run: their defaults are those of their family, and docs/smooth.md says so.
NOT_JUDGED = {"pauc@fpr=0.1", "miou", "mcc", "f1_weighted", "qwk", "recall@5", "hit@1", "eer"}


def test_every_other_registered_metric_is_judged_once() -> None:
    assert sorted(judging.NAMES) == sorted({entry.example for entry in METRICS} - NOT_JUDGED)
    assert {name for one in PROBLEMS for name in judging.names_for(one)} == set(judging.NAMES)


@pytest.mark.parametrize("outputs", [1, 3])
def test_perceptrons_side_by_side_learn_as_each_alone(outputs: int) -> None:
    one = problem(outputs)
    losses: list[nn.Module] = [loop.Entropy(one, False), loop.Entropy(one, True)]
    together = loop.train(one, losses, 16, steps=20)
    torch.manual_seed(one.seed)
    first, last = nn.Linear(4, loop.HIDDEN), nn.Linear(loop.HIDDEN, outputs)
    model = nn.Sequential(first, nn.ReLU(), last)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    generator, (x, y) = torch.Generator().manual_seed(one.seed), one.train
    order = torch.zeros(0, dtype=torch.int64)
    for _ in range(20):
        if len(order) < 16:
            order = torch.randperm(len(x), generator=generator)
        some, order = order[:16], order[16:]
        optimizer.zero_grad()
        losses[1](model(x[some]).squeeze(1), y[some]).backward()
        optimizer.step()
    alone = model(one.judge[0]).squeeze(1)
    torch.testing.assert_close(together[1][-1][1], alone, rtol=1e-4, atol=1e-5)


def test_weighted_entropy_gives_classes_the_same_share() -> None:
    one = Problem(*[(torch.zeros(8, 1), torch.tensor([1, 0, 0, 0, 0, 0, 0, 0]))] * 3, 1, 0)
    loss = loop.Entropy(one, True)
    gradient = torch.func.grad(lambda s: loss(s, one.train[1]))(torch.zeros(8))
    assert float(gradient[0]) == pytest.approx(-float(gradient[1:].sum()))


def test_checkpoint_and_threshold_come_from_the_rows_to_choose_with() -> None:
    one = problem()
    y = one.choose[1].float()
    good, bad = 2 * y + 3.0, -y  # threshold 4 decides right in the first look, none does in the second
    found = judging.judge("f1", [(bad, bad), (good, 2 * one.judge[1].float() + 3.0)], one)
    assert found == {"tuned": 1.0, "at 0": pytest.approx(2 / 3)}
    assert set(judging.judge("auroc", [(good, good)], one)) == {"tuned"}


def test_first_places_are_judged_in_lists_of_mixed_rows() -> None:
    y = (torch.arange(200) >= 150).long()  # class by class, as the rows come
    scores = torch.arange(200.0).flip(0)
    scores[150] = 1000.0  # first in its own list; the other list has a negative first
    assert judging.rules("precision@1")[0](scores, y) == 0.5
    assert judging.rules("ap")[0](scores, y) < 0.5


def test_thresholds_of_groups_against_brute_force() -> None:
    generator = torch.Generator().manual_seed(2)
    scores, y = torch.randn(30, 3, generator=generator), torch.arange(30) % 3
    found = judging._pairwise_thresholds(scores, y)
    metric = PairwiseFBeta()
    best = float(metric.value(scores - found, y))
    for column in range(3):
        for candidate in torch.cat((scores[:, column] + 1e-4, scores[:, column] - 1e-4)):
            other = found.clone()
            other[column] = candidate
            assert float(metric.value(scores - other, y)) <= best + 1e-9


def test_parts_are_disjoint_and_stratified() -> None:
    y = torch.arange(200) % 4
    parts = draw(y, 3)
    assert sorted(torch.cat(parts).tolist()) == list(range(200))
    assert [torch.bincount(y[part]).tolist() for part in parts] == [[30] * 4, [10] * 4, [10] * 4]
    assert labels_of(torch.tensor([2, 9])).sum(1).tolist() == [3, 2]


@pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")
def test_a_small_cell_runs_and_reports(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.train, "__defaults__", (6,))
    monkeypatch.setattr(loop, "LOOKS", 2)
    options = Options(seeds=1, data=real_data)
    cell = {"problem": "digits", "batch": 128, "seed": 0}
    assert cell in from_scratch.cells(options)
    result = from_scratch.run(cell, options)
    from_scratch.report([{"cell": cell, "result": result}], tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert all(f"| {name} |" in text for name in judging.OF_ONE)
    assert "Surely worse after Holm: nowhere" in text


def test_the_table_finds_what_is_worse() -> None:
    def entry(seed: int, ours: float) -> dict[str, Any]:
        rivals = {name: {"tuned": 0.5 + 0.001 * seed, "at 0": 0.4} for name in scratch_board.RIVALS}
        cell = {"problem": "digits", "batch": 64, "seed": seed}
        return {"cell": cell, "result": {"f1": {**rivals, "default": {"tuned": ours, "at 0": ours - 0.02}}}}

    worse = scratch_board.summary_lines([entry(seed, 0.3) for seed in range(5)])
    assert worse[-1] == "5 runs. Surely worse after Holm: f1 on digits than cross-entropy, " + (
        "f1 on digits than weighted."
    )
    assert "| f1 | 1 | -20.20 | -20.2 to -20.2 | -20.20 | -20.2 to -20.2 | 2 / 0 | -2.00 | -2.0 | -12.0 |" in worse[0]
    assert scratch_board.summary_lines([])[0].startswith("Not measured")


def test_first_places_are_judged_in_many_lists_of_the_same_rows() -> None:
    n, lists = 300, 3
    generator = torch.Generator().manual_seed(2)
    y = (torch.rand(n, generator=generator) < 0.05).long()
    scores = torch.randn(n, generator=generator) + y
    rows = judging.dealt(n).reshape(judging.DEALS, n)
    hits = []
    for deal, one in enumerate(rows):
        assert torch.equal(one.bincount(minlength=lists * (deal + 1))[lists * deal :], torch.full((lists,), 100))
        for place in one.unique():
            some = one == place
            if y[some].any():
                hits.append(float(y[some][scores[some].argmax()]))
    assert not torch.equal(rows[0], rows[1] - lists)  # another deal, other lists
    assert judging.rules("precision@1")[0](scores, y) == pytest.approx(sum(hits) / len(hits))
