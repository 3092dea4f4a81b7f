"""The map's losses by their formulas, its choices by a game whose answer is known, its verdicts by hand."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor, nn
from torch.nn import functional

from aimfor.data.settings import Settings
from aimfor.lp import LinearProgram
from aimfor.retrieval import evaluate
from paper import NAMES
from paper.evidence import _chosen, gathered
from paper.experiments.ours.floors import holds
from paper.map import board, curves, labels, libauc, lists, masks, page, regret, tables, unseen
from paper.map.contest import TRIAL_SEED, contest, grid
from paper.map.losses import (
    OF_CLASSES,
    OF_TWO_CLASSES,
    OURS,
    Method,
    auc_margin,
    entropy,
    ldam,
    logit_adjustment,
    plain,
)
from paper.map.task import Checkpoint, Rows, Task, best_of
from paper.map.training import Run, train, train_together
from paper.report.pictures_board import default_gap
from paper.run import load

SHARES = torch.tensor([0.9, 0.1])


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(50, dtype=torch.float64), torch.arange(50) % 5 // 4


def test_weights_of_classes_average_as_torch_does(batch: tuple[Tensor, Tensor]) -> None:
    scores, y = batch
    weights = torch.tensor([0.5, 3.0], dtype=torch.float64)
    two = torch.stack((torch.zeros_like(scores), scores), 1)
    torch.testing.assert_close(entropy(scores, y, weights), functional.cross_entropy(two, y, weights))
    torch.testing.assert_close(entropy(scores, y), functional.cross_entropy(two, y))


@pytest.mark.parametrize("method", OF_CLASSES, ids=lambda method: method.name)
def test_one_score_is_two_classes_of_which_one_is_zero(method: Method, batch: tuple[Tensor, Tensor]) -> None:
    scores, y = batch
    loss = method.make(SHARES.double(), (method.knobs or (0.0,))[-1], "f1")
    two = torch.stack((torch.zeros_like(scores), scores), 1)
    torch.testing.assert_close(loss(scores, y, 0.0), loss(two, y, 0.0))


def test_a_margin_of_the_rare_class_and_a_prior_move_the_scores() -> None:
    scores, y = torch.tensor([0.3, -0.2]), torch.tensor([1, 0])
    margins = torch.tensor([(1 / 9) ** 0.25, 1.0])  # (.1/.9)^¼ of the largest
    by_hand = functional.softplus(-(0.3 - margins[1])) / 2 + functional.softplus(-0.2 + margins[0]) / 2
    torch.testing.assert_close(ldam(SHARES, 1.0, "f1")(scores, y, 0.0), by_hand)
    moved = scores - torch.log(torch.tensor(9.0))
    torch.testing.assert_close(logit_adjustment(SHARES, 1.0, "f1")(scores, y, 0.0), entropy(moved, y))


def test_the_auc_margin_is_the_inner_optimum_of_its_saddle_point(batch: tuple[Tensor, Tensor]) -> None:
    """min over a, b, max over α ≥ 0 of E(h−a)²|+ + E(h−b)²|− + 2α(m + E h|− − E h|+) − α²."""
    scores, y = batch
    h = torch.sigmoid(scores)
    a, b = h[y > 0].mean(), h[y == 0].mean()
    alphas = torch.linspace(0, 3, 300_001, dtype=torch.float64)
    inner = (2 * alphas * (1.0 + b - a) - alphas**2).max()
    expected = ((h[y > 0] - a) ** 2).mean() + ((h[y == 0] - b) ** 2).mean() + inner
    torch.testing.assert_close(auc_margin(SHARES, 1.0, "auroc")(scores, y, 0.0), expected, rtol=1e-8, atol=1e-8)


def test_list_losses_by_their_formulas() -> None:
    scores = torch.tensor([[0.5, 0.1, -0.4, 9.0]])
    grades = torch.tensor([[0, 2, 1, -1]])  # the last is padding
    p = torch.softmax(scores[:, :3], 1)[0]
    torch.testing.assert_close(lists.listnet(scores, grades, 0.0), -(2 / 3 * p[1].log() + 1 / 3 * p[2].log()))
    pairs = [(1, 0), (1, 2), (2, 0)]
    gaps = torch.stack([scores[0, i] - scores[0, j] for i, j in pairs])
    torch.testing.assert_close(lists.ranknet(scores, grades, 0.0), functional.softplus(-gaps).mean())
    s = scores[0]
    by_grade = -(s[1] - torch.logsumexp(s[[1, 2, 0]], 0)) - (s[2] - torch.logsumexp(s[[2, 0]], 0))
    torch.testing.assert_close(lists.listmle(scores, grades, 0.0), by_grade / 10)
    # Cold ranks are the ranks: 1 − NDCG.
    cold = lists.approx_ndcg(torch.ones(1), 1e-3, "ndcg")(scores, grades, 0.0)
    assert float(cold) == pytest.approx(1.0 - lists.exact("ndcg", scores, grades), abs=1e-5)
    # A swap of the items at places 1 and 2 changes NDCG by the difference of gains times that of discounts.
    best = 2.0 + 1.0 / torch.log2(torch.tensor(3.0))
    at = 1.0 / torch.log2(torch.tensor([2.0, 3.0, 4.0]))
    gain = torch.tensor([0.0, 2.0, 1.0]) / best
    swaps = torch.stack([(gain[i] - gain[j]).abs() * (at[i] - at[j]).abs() for i, j in pairs])
    torch.testing.assert_close(lists.lambdaloss(scores, grades, 0.0), (functional.softplus(-gaps) * swaps).sum())


def test_tversky_of_one_half_is_dice_of_the_classes_present() -> None:
    scores, y = torch.randn(40, 3), torch.arange(40) % 2  # the third class is absent
    chance, truth = scores.softmax(1), functional.one_hot(y, 3).float()
    dice = 2 * (chance * truth).sum(0) / (chance.sum(0) + truth.sum(0))
    torch.testing.assert_close(masks.tversky(SHARES, 0.5, "")(scores, y, 0.0), 1.0 - dice[:2].mean())


def test_ious_leave_out_unlabelled_pixels_and_absent_classes() -> None:
    called, y = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 1, 255]])
    found = masks.ious(called, y, 3)
    assert found[:2].tolist() == [0.5, 0.5]
    assert bool(found[2].isnan())


@pytest.mark.parametrize("method", [*OF_TWO_CLASSES, *OURS, *libauc.METHODS], ids=lambda method: method.name)
def test_every_loss_has_nine_trials(method: Method) -> None:
    assert len(set(grid(method, (1e-4, 1e-2)))) == 9


def test_runs_together_are_the_runs_alone() -> None:
    """Nine trials of one task share its batches; runs of five tasks have their own. Clipped where one is steep."""
    generator = torch.Generator().manual_seed(0)

    def task(seed: int) -> Task:
        x, y = torch.randn(60, 4, generator=generator), torch.arange(60) % 5 // 4
        rows = Rows((x,), y)
        network = lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1), nn.Flatten(0))  # noqa: E731
        return Task(rows, {"choose": rows}, network, lambda found: {}, ("m",), SHARES, seed, steps=10, batch=16)

    def steep(scores: Tensor, y: Tensor, done: float) -> Tensor:
        return entropy(scores, y) * (100.0 if done > 0.5 else 1.0)

    one = task(0)
    for runs in (
        [Run(one, steep, 10.0 ** (-k / 2), 7) for k in range(1, 5)],
        [Run(task(seed), steep, 0.03, seed) for seed in range(3)],
    ):
        for balanced in (False, True):
            alone = [train(run, balanced, True, ("choose",)) for run in runs]
            together = train_together(runs, balanced, True, ("choose",))
            assert [len(found) for found in together] == [10] * len(runs)
            for left, right in zip(alone, together, strict=True):
                for a, b in zip(left, right, strict=True):
                    torch.testing.assert_close(a["choose"], b["choose"], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("libauc") is None, reason="LibAUC is not installed")
@pytest.mark.parametrize("method", libauc.METHODS, ids=lambda method: method.name)
def test_libaucs_losses_learn_what_two_numbers_separate(method: Method) -> None:
    y = torch.arange(200) % 10 // 9
    rows = Rows((torch.randn(200, 2, generator=torch.Generator().manual_seed(0)) + 3.0 * y[:, None],), y)
    network = lambda: nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))  # noqa: E731
    task = Task(rows, {"choose": rows}, network, lambda found: {}, ("ap",), SHARES, 0, steps=100, batch=32)
    assert method.own is not None
    checkpoints = method.own(task, 0.1, method.knobs[1], 0, True, ("choose",))
    assert len(checkpoints) == 10
    assert tables.exact("auroc", checkpoints[-1]["choose"], y) > 0.99


def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    rows = Rows((torch.ones(8, 1),), torch.zeros(8, dtype=torch.int64))
    network = lambda: nn.Sequential(nn.Linear(1, 1), nn.Flatten(0))  # noqa: E731
    task = Task(rows, {"choose": rows}, network, lambda found: {}, ("m",), SHARES, 0, steps=5, batch=4)
    gone = Run(task, lambda scores, y, done: (scores * torch.inf).sum(), 0.1, 0)
    well = Run(task, lambda scores, y, done: entropy(scores, y), 0.1, 0)
    (lost, found), (alone,) = (train_together(runs, False, False, ("choose",)) for runs in ([gone, well], [well]))
    assert not bool(lost[-1]["choose"].isfinite().any())
    torch.testing.assert_close(found[-1]["choose"], alone[-1]["choose"])


def test_the_scorer_of_lists_sees_no_padding() -> None:
    x, grades = torch.randn(3, 5, 4), torch.tensor([[1, 0, -1, -1, -1], [0, 2, 1, 0, -1], [1, 0, -1, -1, -1]])
    network = lists.Scorer(4)
    with torch.no_grad():
        found = network(x, grades >= 0)
    for row, column in (grades >= 0).nonzero().tolist():
        torch.testing.assert_close(found[row, column], network.layers(x[row, column][None])[0])
    assert float(found[grades < 0].abs().sum()) == 0.0
    assert [tuple(one.shape) for one in lists.trimmed(found, grades)] == [(3, 4), (3, 4)]
    parts = {name: Rows((x, grades >= 0), grades) for name in ("choose", "judge")}
    judged = lists.evaluate(parts, [dict.fromkeys(parts, found)])["ndcg@10"]
    assert sum(judged["judge"]) / 3 == pytest.approx(judged["choose"]) == lists.exact("ndcg@10", found, grades)


def test_decisions_of_the_closed_form_are_the_linear_programs() -> None:
    generator = torch.Generator().manual_seed(0)
    n, edges = 5, [(i, i + 1) for i in range(25) if (i + 1) % 5] + [(i, i + 5) for i in range(20)]
    flow, supply = torch.zeros(n * n, len(edges), dtype=torch.float64), torch.zeros(n * n, dtype=torch.float64)
    for k, (tail, head) in enumerate(edges):
        flow[tail, k], flow[head, k] = 1.0, -1.0
    supply[0], supply[-1] = 1.0, -1.0
    sectors = torch.eye(5, dtype=torch.float64).repeat_interleave(10, 1)
    ones, one = torch.ones(1, 50, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    programs = {
        "shortest path": LinearProgram(A_eq=flow, b_eq=supply, lower=0.0, upper=1.0),
        "portfolio": LinearProgram(A=sectors, b=0.4 * torch.ones(5).double(), A_eq=ones, b_eq=one, lower=0.0),
    }
    for name in programs:
        size, _, solve = regret.PROBLEMS[name]
        costs = torch.randn(20, size, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(solve(costs), programs[name](c=costs).x, atol=1e-6, rtol=0)


def test_the_knapsack_is_the_integer_programs() -> None:
    costs = torch.randn(20, len(regret.WEIGHTS), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.tensor(regret.WEIGHTS, dtype=torch.float64).T
    within = LinearConstraint(weights.numpy(), ub=regret.CAPACITY)
    for cost, taken in zip(costs, regret.knapsack(costs), strict=True):
        best = milp(cost.numpy(), constraints=within, integrality=torch.ones(len(cost)).numpy(), bounds=Bounds(0, 1))
        assert float(cost @ taken) == pytest.approx(best.fun, abs=1e-9)
        assert bool((weights @ taken <= regret.CAPACITY).all())


def test_regret_is_zero_for_true_costs_and_the_loss_of_a_wrong_way() -> None:
    rows = regret.draw("portfolio", 0)["judge"]
    costs, best = rows.y.chunk(2, 1)
    assert regret.minus_regret(regret.portfolio, costs, rows.y) == pytest.approx(0.0, abs=1e-7)
    worst = (costs * regret.portfolio(-costs)).sum()
    expected = ((costs * best).sum() - worst) / (costs * best).sum().abs()
    assert regret.minus_regret(regret.portfolio, -costs, rows.y) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("method", labels.METHODS, ids=lambda method: method.name)
def test_labels_that_are_not_annotated_do_not_count(method: Method) -> None:
    generator = torch.Generator().manual_seed(0)
    scores, y = torch.randn(40, 3, generator=generator), (torch.rand(40, 3, generator=generator) < 0.3).long()
    y[::4, 1] = -1
    shares = torch.tensor([0.3, 0.2, 0.4])
    other = torch.where(y < 0, torch.randn(40, 3, generator=generator), scores)
    found = [method.make(shares, (method.knobs or (0.0,))[-1], "multilabel_ap")(one, y, 0.0) for one in (scores, other)]
    torch.testing.assert_close(*found)


def test_losses_of_labels_by_their_formulas() -> None:
    scores, y = torch.tensor([[0.4], [-1.0], [0.2]]), torch.tensor([[1], [0], [-1]])
    p = torch.sigmoid(scores[:2, 0])
    by_hand = -(p[0].log() / 0.2 + (1 - p[1]).log() / 0.8) / (1 / 0.2 + 1 / 0.8)
    torch.testing.assert_close(labels.entropy(scores, y, torch.tensor([0.2]), 1.0), by_hand)
    focal = -((1 - p[0]) ** 2 * p[0].log() + p[1] ** 2 * (1 - p[1]).log()) / 2
    torch.testing.assert_close(labels.focal(SHARES, 2.0, "")(scores, y, 0.0), focal)
    m = p[1] - 0.05
    uneven = -(p[0].log() + m**4 * (1 - m).log()) / 2
    torch.testing.assert_close(labels.asymmetric(SHARES, 4.0, "")(scores, y, 0.0), uneven)


def test_f1_of_labels_is_decided_at_the_choosing_rows_thresholds() -> None:
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.9], [0.1, 0.8], [0.0, 0.0]])
    y = torch.tensor([[1, 0], [1, 1], [0, -1], [0, 0]])
    cuts = labels.thresholds(scores, y)
    assert 0.1 <= float(cuts[0]) < 0.8
    assert 0.1 <= float(cuts[1]) < 0.9
    parts = {"choose": Rows((scores,), y), "judge": Rows((scores,), y)}
    found = labels.evaluate(parts, [dict.fromkeys(parts, scores)])
    assert found["multilabel_f1"] == {"choose": 1.0, "judge": 1.0}
    assert found["multilabel_ap"] == {"choose": 1.0, "judge": 1.0}
    assert labels.mean_f1(scores, y, torch.tensor([0.85, 0.5])) == pytest.approx((2 / 3 + 1) / 2)


def test_neighbours_class_by_class_average_to_the_librarys_evaluation() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 6
    outputs = torch.randn(60, unseen.SIZE + 8, generator=generator)
    found, whole = unseen.by_class(outputs, y), evaluate(outputs[:, : unseen.SIZE], y, k=[1])
    for name in unseen.METRICS:
        assert len(found[name]) == 6
        assert float(found[name].mean()) == pytest.approx(whole[name], abs=1e-6)


def test_the_jaccard_metric_is_the_distance_of_probabilities_from_masks() -> None:
    scores, y = torch.randn(40, 3), torch.arange(40) % 2  # the third class is absent
    chance, truth = scores.softmax(1), functional.one_hot(y, 3).float()
    both = torch.minimum(chance, truth).sum(0) / torch.maximum(chance, truth).sum(0)
    expected = 0.25 * functional.cross_entropy(scores, y) + 0.75 * (1 - both[:2].mean())
    torch.testing.assert_close(masks._jaccard_metric(SHARES, 0.0, "")(scores, y, 0.0), expected)


def _values(best_on_judge: int) -> Any:
    """Checkpoints whose scores are their own number; the choosing rows prefer number 2."""
    rows = {"choose": Rows((), torch.zeros(1)), "judge": Rows((), torch.ones(1))}

    def value(scores: Tensor, y: Tensor) -> float:
        return -abs(float(scores) - (2 if not bool(y) else best_on_judge))

    return rows, value


def test_the_checkpoint_is_chosen_by_the_choosing_rows() -> None:
    rows, value = _values(best_on_judge=4)
    found = best_of([{"choose": torch.tensor(k), "judge": torch.tensor(k)} for k in range(5)], rows, value)
    assert found == {"choose": 0.0, "judge": -2.0}


def test_f1_is_decided_at_the_threshold_that_the_choosing_rows_prefer() -> None:
    """The second checkpoint separates the choosing rows at 1.5; one judging row on each side of it is wrong."""
    y = torch.tensor([0, 0, 1, 1])
    parts = {name: Rows((), y) for name in ("choose", "judge")}
    first = {name: torch.tensor([3.0, 2.0, 1.0, 0.0]) for name in parts}
    second = {"choose": torch.tensor([0.0, 1.0, 2.0, 3.0]), "judge": torch.tensor([1.0, 2.0, 1.0, 2.0])}
    found = tables.f1_at_tuned_threshold([first, second], parts)
    assert found == {"choose": 1.0, "judge": pytest.approx(0.5)}
    gone = {name: torch.full((4,), torch.nan) for name in parts}
    assert all(value != value for value in tables.f1_at_tuned_threshold([gone], parts).values())


def test_a_run_that_diverged_is_chosen_only_where_all_did() -> None:
    rows, value = _values(best_on_judge=4)
    gone = {name: torch.tensor(torch.nan) for name in rows}
    found = best_of([gone, {name: torch.tensor(1.0) for name in rows}], rows, value)
    assert found == {"choose": -1.0, "judge": -3.0}
    assert all(one != one for one in best_of([gone], rows, value).values())


def test_trials_are_made_on_their_own_seed_and_the_best_one_is_judged() -> None:
    """A network of one weight that starts at 0 and is drawn to its seed; the higher learning rate gets nearer."""
    loaded: list[int] = []

    def make(seed: int) -> Task:
        loaded.append(seed)
        rows = Rows((torch.ones(8, 1),), torch.zeros(8, dtype=torch.int64))
        parts = {"choose": rows, "judge": rows}

        def evaluate(checkpoints: Sequence[Checkpoint]) -> dict[str, dict[str, float]]:
            return {"m": {name: -float(scores.mean()) for name, scores in checkpoints[-1].items()}}

        def network() -> nn.Module:
            layer = nn.Linear(1, 1, bias=False)
            nn.init.zeros_(layer.weight)
            return nn.Sequential(layer, nn.Flatten(0))

        return Task(rows, parts, network, evaluate, ("m",), SHARES, seed, steps=5, batch=4)

    found = contest(make, Method("cross-entropy", plain), "all", seeds=2)["m"]
    assert loaded == [TRIAL_SEED, 0, 1]
    assert found["rate"] == pytest.approx(1e-2)
    assert len(found["trials"]) == 9
    assert max(found["trials"]) == found["trials"][-1]
    assert all(two > one for one, two in zip(found["once"]["judge"], found["twice"]["judge"], strict=True))


def _entry(method: str, values: list[float], trials: list[float]) -> dict[str, Any]:
    run = {"judge": values, "confirm": values}
    return {
        "cell": {"data": "d", "method": method, "metric": "all"},
        "result": {"ap": {"trials": trials, "once": run, "twice": run}},
    }


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([0.60, 0.61, 0.60, 0.61, 0.60], "helps"),
        ([0.40, 0.41, 0.40, 0.41, 0.40], "hurts"),
        ([0.501, 0.499, 0.5, 0.501, 0.499], "level"),
        ([0.60, 0.40, 0.60, 0.40, 0.50], "undecided"),
    ],
)
def test_the_rival_is_the_cross_entropy_of_the_best_trial(ours: list[float], verdict: str) -> None:
    entries = [
        _entry("metric", ours, [0.9]),
        _entry("cross-entropy", [0.9] * 5, [0.3]),  # better when judged, but its trial was not
        _entry("1/frequency", [0.5] * 5, [0.4]),
        _entry("focal", [0.99] * 5, [0.99]),  # no cross-entropy
    ]
    (found,) = board.contrasts(board.board_of(entries))
    assert (found.rival, found.verdict, found.ending) == ("1/frequency", verdict, verdict)
    assert "1/frequency" in "\n".join(board.value_lines(entries))


def test_small_tables_make_one_contrast_with_a_table_as_a_unit() -> None:
    entries = []
    for table, (ours, theirs) in {"a": (0.6, 0.5), "b": (0.8, 0.7), "c": (0.5, 0.5)}.items():
        for method, value in (("metric", ours), ("cross-entropy", theirs)):
            entry = _entry(method, [value - 0.1, value + 0.1], [0.9])
            entries.append({**entry, "cell": {**entry["cell"], "data": f"imbalanced_small {table}"}})
    (found,) = board.contrasts(board.board_of(entries))
    deviation = 10 / 3**0.5 / 3**0.5  # of 10, 10 and 0 points, over √3
    half = 4.302653 * deviation
    assert found.data == "3 small tables"
    assert (found.once.mean, found.once.high) == pytest.approx((20 / 3, 20 / 3 + half), rel=1e-4)


def test_folds_are_put_together_item_by_item() -> None:
    folds = [_entry("metric", [0.1 * k, 0.5], [0.5]) for k in range(3)]
    for fold in folds:
        fold["cell"]["fold"] = 1
    other = _entry("cross-entropy", [0.3, 0.3], [0.5])
    other["cell"]["fold"] = 0
    (methods,) = board.board_of([*folds, other]).values()
    assert set(methods) == {"metric"}  # the other has been run on one fold of three
    assert methods["metric"]["once"]["judge"] == pytest.approx([0.0, 0.5, 0.1, 0.5, 0.2, 0.5])
    assert methods["metric"]["share"] == 0.0  # no item is judged twice


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("map_")])
def test_a_regime_lists_its_cells_without_data(name: str) -> None:
    from paper import Options

    cells = load(name).cells(Options())
    assert len(cells) == len({str(cell) for cell in cells})
    assert {"metric"} <= {cell["method"] for cell in cells}


def test_the_evidence_page_begins_with_the_regimes_that_were_run(tmp_path: Any) -> None:
    entries = [_entry("metric", [0.6, 0.61, 0.6, 0.61, 0.6], [0.9]), _entry("cross-entropy", [0.5] * 5, [0.3])]
    text = "\n".join(page.map_lines({"map_rare": entries}))
    assert "### Rare positives (`map_rare`)" in text
    assert "+10.4 [+" in text
    assert "### Documents" not in text
    assert (
        "not run yet: `map_regret`, `map_masks`, `map_untuned`, `map_tuned`, `map_lists`, `map_unseen`, `map_labels`"
        in text
    )
    assert page.map_lines({}) == []
    page.draw({"map_rare": entries}, tmp_path / "map.svg")
    assert "rare positives: d, ap" in (tmp_path / "map.svg").read_text()


def test_the_page_on_choosing_shows_the_stored_map() -> None:
    root = Path(__file__).parents[2]
    stored = gathered(root / "paper" / "results")
    choosing = (root / "docs" / "choosing.md").read_text(encoding="utf8")
    assert page.choice_lines(stored) in choosing
    assert page.elsewhere_lines(stored) in choosing
    outcomes = [one for entry in stored["floors"] for one in entry["result"]["floors"].values() if one["given"]]
    kept = sum(holds(one) for one in outcomes)
    assert f"of {len(outcomes)} thresholds that `aimfor train` gave with a promise, {kept} kept it" in choosing
    tables, pictures = (
        re.search(r"a refitted head in (\d+)%", _chosen(stored[name])) for name in ("tables", "meng_table1")
    )
    assert tables
    assert pictures
    assert f"chosen in {tables[1]} % of runs on tables and {pictures[1]} % on images" in choosing
    assert Settings.model_fields["loss"].default == page.mask_default(stored)
    assert f"![{page.caption(stored)}](docs/map.svg)" in (root / "README.md").read_text(encoding="utf8")


def test_a_choice_says_what_to_expect_and_what_was_decided(tmp_path: Path) -> None:
    entries = [_entry("metric", [0.6, 0.61, 0.6, 0.61, 0.6], [0.9]), _entry("cross-entropy", [0.5] * 5, [0.3])]
    path = tmp_path / "page.md"
    marks = "<!-- elsewhere -->\nold\n<!-- elsewhere end -->\n"
    path.write_text(f"a\n<!-- map -->\nold\n<!-- map end -->\n{marks}b\n", encoding="utf8")
    page.write_choices({"map_rare": entries}, path)
    text = path.read_text(encoding="utf8")
    assert "- **Helps** at twice the steps, so it is not speed: d by ap (+10.4 [+9.3, +11.5]).\n\n|" in text
    assert '| `MetricLoss("ap")` | +10.4 | +10.4: helps in 1 | +10.4: helps in 1 |' in text
    assert "old" not in text
    assert text.startswith("a\n<!-- map -->\n- **Helps**")
    assert text.endswith("<!-- elsewhere end -->\nb\n")


def test_the_default_of_masks_is_decided_over_pairs_of_set_and_seed() -> None:
    values = {("a", 0): (0.5, 0.48), ("a", 1): (0.5, 0.5), ("b", 0): (0.7, 0.69)}  # ours, Lovász
    entries = [
        {"cell": {"set": name, "loss": loss, "seed": seed}, "result": {"ways": {"out of fold": {"iou": value}}}}
        for (name, seed), both in values.items()
        for loss, value in zip(("metric", "Lovász"), both, strict=True)
    ]
    assert default_gap(entries[:2]) is None
    gap, by_set = default_gap([*entries, entries[0] | {"cell": {"set": "c", "loss": "metric", "seed": 0}}]) or (
        None,
        {},
    )
    assert gap is not None
    assert (gap.mean, gap.low) == (pytest.approx(1.0), pytest.approx(1.0 - 4.302653 * 1.0 / 3**0.5))  # of 2, 0 and 1
    assert by_set == pytest.approx({"a": 1.0, "b": 1.0})
    assert page.mask_default({"mask_offsets": entries}) == "lovasz"  # not surely
    assert page.mask_default({"mask_offsets": [*entries[:2], *entries[4:]]}) == "lovasz"
    for entry in entries:
        entry["result"]["ways"]["out of fold"]["iou"] += 0.05 * (entry["cell"]["loss"] == "metric")
    assert page.mask_default({"mask_offsets": entries}) == "iou"
    loses = [("a", seed, 0.55) for seed in range(20)] + [("b", 0, 0.49)]  # against 0.5: surely ahead, but not on b
    entries = [
        {"cell": {"set": name, "loss": loss, "seed": seed}, "result": {"ways": {"out of fold": {"iou": iou}}}}
        for name, seed, ours in loses
        for loss, iou in (("metric", ours), ("Lovász", 0.5))
    ]
    gap, _ = default_gap(entries) or (None, {})
    assert gap is not None
    assert gap.low > 0
    assert page.mask_default({"mask_offsets": entries}) == "lovasz"


def test_the_curves_pass_through_the_values_of_their_regimes(tmp_path: Path) -> None:
    stored = gathered(Path(__file__).parents[2] / "paper" / "results")
    regimes = {curves.PATHS: "map_regret", curves.CRIME: "map_untuned"}
    for entry in stored["map_curves"]:
        data, method = entry["cell"]["data"], entry["cell"]["method"]
        metric = curves.CURVES[data][0]
        (values,) = (
            other["result"][metric]
            for other in stored[regimes[data]]
            if other["cell"]["data"] == data and other["cell"]["method"] == method
        )
        assert entry["cell"]["rate"] == pytest.approx(values["rate"])
        for checkpoints, once in zip(entry["result"]["values"], values["once"]["judge"], strict=True):
            assert min(abs(one - once) for one in checkpoints[:5]) < 1e-3
    curves.draw(stored["map_curves"], tmp_path / "curves.svg")
    assert "shortest path" in (tmp_path / "curves.svg").read_text(encoding="utf8")
