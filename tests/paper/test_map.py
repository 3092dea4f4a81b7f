"""The map's losses by their formulas, its choices by a game whose answer is known, its verdicts by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from paper import NAMES
from paper.map import board, lists, masks
from paper.map.contest import TRIAL_SEED, Checkpoint, Rows, Task, best_of, contest, grid
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


@pytest.mark.parametrize("method", [*OF_TWO_CLASSES, *OURS], ids=lambda method: method.name)
def test_every_loss_has_nine_trials(method: Method) -> None:
    assert len(set(grid(method, (1e-4, 1e-2)))) == 9


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
            last = float(checkpoints[-1]["judge"].mean())
            return {"m": dict.fromkeys(parts, -last)}

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
    (found,) = board.contrasts(board.found_in(entries))
    assert (found.rival, found.verdict) == ("1/frequency", verdict)
    assert "1/frequency" in "\n".join(board.summary_lines(entries))


def test_folds_are_the_seeds_of_their_data_set() -> None:
    folds = [_entry("metric", [0.1 * k], [0.5]) for k in range(3)]
    (methods,) = board.found_in(folds).values()
    assert methods["metric"]["once"]["judge"] == pytest.approx([0.0, 0.1, 0.2])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("map_")])
def test_a_regime_lists_its_cells_without_data(name: str) -> None:
    from paper import Options

    cells = load(name).cells(Options())
    assert len(cells) == len({str(cell) for cell in cells})
    assert {"metric"} <= {cell["method"] for cell in cells}


def test_the_evidence_page_begins_with_the_regimes_that_were_run(tmp_path: Any) -> None:
    entries = [_entry("metric", [0.6, 0.61, 0.6, 0.61, 0.6], [0.9]), _entry("cross-entropy", [0.5] * 5, [0.3])]
    text = "\n".join(board.map_lines({"map_rare": entries}))
    assert "### Rare positives (`map_rare`)" in text
    assert "+10.4 [+" in text
    assert "map_lists" not in text
    assert board.map_lines({}) == []
    board.draw({"map_rare": entries}, tmp_path / "map.svg")
    assert "rare positives: d, ap" in (tmp_path / "map.svg").read_text()
