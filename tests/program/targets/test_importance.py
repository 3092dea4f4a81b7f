"""Permutation importance: scikit-learn's, a closed form, columns of several outputs, and its budget."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.inspection import permutation_importance as reference
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor

from aimfor.targets.importance import Importance, permutation_importance


def auroc(scores: Tensor, y: Tensor) -> float:
    return float(roc_auc_score(y, scores)) if 0 < int(y.sum()) < len(y) else float("nan")


def data(n: int = 1500) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    y = (x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=n) > 0.5).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(y)


def test_agrees_with_scikit_learn_and_its_intervals_hold_the_truth() -> None:
    x, y = data()
    model = LogisticRegression().fit(x, y)
    found = permutation_importance(
        lambda rows: torch.from_numpy(model.decision_function(rows.numpy())), auroc, x, y, ["a", "b", "c", "d"]
    )
    wanted = reference(model, x.numpy(), y.numpy(), scoring="roc_auc", n_repeats=40, random_state=0).importances_mean
    assert [one.column for one in found.columns][:2] == ["a", "b"]
    for one in found.columns:
        expected = wanted["abcd".index(one.column)]
        assert one.loss == pytest.approx(expected, abs=0.01)
        assert one.low <= expected <= one.high
        assert one.high - one.low < 0.1
    assert found.rows == 1500
    assert found.shuffles == 5


def test_outputs_of_one_column_are_shuffled_together() -> None:
    """Two outputs that cancel unless they move together: shuffled one by one, the difference would be noise."""
    x = torch.randn(400, 1, generator=torch.Generator().manual_seed(0))
    y = (torch.rand(400, generator=torch.Generator().manual_seed(1)) < 0.5).long()
    twin = torch.cat((x, -x, y[:, None].float()), 1)
    found = permutation_importance(lambda rows: rows.sum(1), auroc, twin, y, ["twin", "twin", "truth"])
    by_name = {one.column: one for one in found.columns}
    assert by_name["twin"].loss == 0.0
    assert by_name["truth"].loss == pytest.approx(0.5, abs=0.1)


def test_a_column_the_model_ignores_has_importance_zero_exactly() -> None:
    x, y = data(300)
    found = permutation_importance(lambda rows: rows[:, 0], auroc, x, y, ["a", "b", "c", "d"])
    assert found.columns[0].column == "a"
    assert all((one.loss, one.low, one.high) == (0.0, 0.0, 0.0) for one in found.columns[1:])


def test_budget_gives_up_rows_then_shuffles_then_says_so() -> None:
    x, y = data()
    scored = []

    def scores(rows: Tensor) -> Tensor:
        scored.append(len(rows))
        return rows[:, 0]

    found = permutation_importance(scores, auroc, x, y, ["a", "b", "c", "d"], budget=12_000)
    assert (found.rows, found.shuffles) == (600, 5)
    assert sum(scored) <= 12_000 + 600  # and once as they are
    found = permutation_importance(scores, auroc, x, y, ["a", "b", "c", "d"], budget=3_200)
    assert (found.rows, found.shuffles) == (200, 4)
    assert "4 columns" in permutation_importance(scores, auroc, x, y, ["a", "b", "c", "d"], budget=1_500).left_out


def test_is_repeatable_can_be_stopped_and_says_where_the_metric_is_undefined() -> None:
    x, y = data(300)
    once, again = (permutation_importance(lambda rows: rows.sum(1), auroc, x, y, list("abcd")) for _ in range(2))
    assert once == again

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        permutation_importance(lambda rows: rows.sum(1), auroc, x, y, list("abcd"), stopped=stop)
    found = permutation_importance(lambda rows: rows.sum(1), auroc, x, torch.zeros(300), list("abcd"))
    assert found == Importance(left_out="the metric is undefined on the rows that were looked at")
