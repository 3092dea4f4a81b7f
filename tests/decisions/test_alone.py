"""Costs alone, accept-reject-ask, categories, best effort."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import aimfor
from aimfor.constraints import precision, recall
from aimfor.constraints.parse import parse_objective
from aimfor.decisions import ABSTAIN, Problem, decide_categories, decide_labels, decide_or_abstain, decide_or_ask
from aimfor.decisions.rows import checked_rows
from aimfor.decisions.task import learning_pairs
from aimfor.errors import InputError


def drawn(seed: int, n: int = 1500, shift: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([8, seed])
    y = rng.random(n) < 0.3
    return rng.normal(size=n) + shift * y, y


def test_a_rate_alone_is_bounded_by_clopper_and_pearson_at_the_threshold_of_the_other_rows() -> None:
    scores, y = drawn(0)
    decision = aimfor.decide(scores, y, minimize="error_rate", confidence=0.9)
    ((learn, rows),) = learning_pairs(checked_rows("scores", scores, y), "split")
    wrong = int(((rows.scores > decision.threshold) != rows.targets).sum())
    high = stats.beta.isf(0.1, wrong + 1, len(rows) - wrong)
    assert decision.guarantee is not None
    assert decision.certificate is not None
    promised = float(decision.guarantee.promise.split("<= ")[1])
    assert high <= promised < high * 1.001
    cuts = np.append(learn.scores, -9.0)
    errors = ((learn.scores > cuts[:, None]) != learn.targets).mean(1)
    assert ((learn.scores > decision.threshold) != learn.targets).mean() == pytest.approx(errors.min())
    assert decision.certificate.met


def test_a_cost_alone_is_promised_no_lower_than_it_is() -> None:
    """5·fnr + fpr of two normal distributions."""
    problem, wrong, far = Problem("minimize", parse_objective("5*fnr + fpr")), 0, []
    for seed in range(40):
        decision = problem.decide(*drawn(seed), guarantee=0.95)
        assert decision.threshold is not None
        assert decision.guarantee is not None
        true = 5 * stats.norm.cdf(decision.threshold - 2.0) + stats.norm.sf(decision.threshold)
        promised = float(decision.guarantee.promise.split("<= ")[1])
        wrong += promised < true
        far.append(promised / true)
    assert wrong <= stats.binom.isf(1e-4, 40, 0.05)
    assert float(np.median(far)) < 1.5


def test_a_cost_alone_by_group_by_folds_and_by_clusters() -> None:
    scores, y = drawn(1, 3000)
    group, cluster = np.arange(3000) % 2, np.arange(3000) // 3
    one = aimfor.decide(scores, y, minimize="fnr + fpr", groups={"g": group}, per_group="g")
    assert sorted(one.thresholds) == [0.0, 1.0]
    assert aimfor.decide(scores, y, minimize="fnr + fpr", learn=np.arange(3000) % 3).threshold is not None
    together = aimfor.decide(scores, y, minimize="fnr + fpr", cluster=cluster)
    assert "independent clusters" in str(together.guarantee)


def test_accept_reject_ask_keeps_both_promises_and_asks_about_few() -> None:
    wrong, asked = 0, []
    for seed in range(15):
        rule = decide_or_ask(*drawn(seed, 2500, 2.5), accept="precision >= 0.9", reject="npv >= 0.95", guarantee=0.9)
        assert rule.high is not None
        assert rule.low is not None
        assert rule.low <= rule.high
        above = 0.3 * stats.norm.sf(rule.high - 2.5), 0.7 * stats.norm.sf(rule.high)
        below = 0.3 * stats.norm.cdf(rule.low - 2.5), 0.7 * stats.norm.cdf(rule.low)
        wrong += above[0] / sum(above) < 0.9 or below[1] / sum(below) < 0.95
        asked.append(rule.undecided)
    assert wrong <= stats.binom.isf(1e-4, 15, 0.1)
    assert 0.0 < float(np.mean(asked)) < 0.25


def test_accept_reject_ask_where_little_or_much_can_be_promised() -> None:
    scores, y = drawn(2)
    rule = decide_or_ask(scores, y, accept="precision >= 0.999", reject="npv >= 0.9")
    assert rule.high is None
    assert "cannot be guaranteed" in str(rule.accept.guarantee)
    assert set(rule(scores).tolist()) == {0, ABSTAIN}
    easy = decide_or_ask(scores, y, accept="precision >= 0.4", reject="npv >= 0.8")
    assert easy.low is not None
    assert easy.high is not None
    assert easy.low <= easy.high
    with pytest.raises(InputError, match="guarantee"):
        decide_or_ask(scores, y, accept="precision >= 0.9", reject="npv >= 0.9", guarantee=95)


def test_categories_share_the_error_and_small_ones_have_no_share() -> None:
    scores, y = drawn(3, 4000)
    shop = np.where(np.arange(4000) < 30, "new", np.where(np.arange(4000) % 2 == 0, "north", "south"))
    problem = Problem("maximize", recall, [precision >= 0.75])
    found = decide_categories(problem, scores, y, shop)
    assert list(found.decisions) == ["north", "south"]
    assert "30 rows" in found.left_out["new"]
    own = problem.decide(scores[shop == "north"], y[shop == "north"], guarantee=0.975)
    assert found.decisions["north"].threshold == own.threshold
    decided = found(scores, shop)
    assert not decided[shop == "new"].any()
    assert (decided[shop == "north"] == (scores[shop == "north"] > own.threshold)).all()
    with pytest.raises(InputError, match="'west'"):
        found(scores[:1], np.array(["west"]))
    learned = decide_categories(problem, scores, y, shop, learn=(*drawn(4, 4000), shop))
    assert learned.decisions["south"].threshold is not None


def test_best_effort_keeps_the_bound_on_the_rows_or_misses_it_by_least() -> None:
    scores, y = drawn(5, 400)
    none = Problem("maximize", recall, [precision >= 0.9]).decide(scores, y, guarantee=0.95)
    assert none.threshold is None
    assert none.guarantee is not None
    (cut,) = none.guarantee.best_effort
    above = scores > cut
    order = y[np.argsort(-scores)]
    keeps = order.cumsum() >= 0.9 * np.arange(1, 401)
    most = order.cumsum()[keeps].max()  # of all thresholds that keep the bound on these rows
    assert y[above].mean() >= 0.89  # the parts are weighted to one size
    assert y[above].sum() >= 0.75 * most  # a grid of thresholds
    rng = np.random.default_rng(0)
    noise = Problem("maximize", recall, [precision >= 0.9])
    hopeless = noise.decide(rng.normal(size=600), rng.random(600) < 0.5, guarantee=0.95)
    assert hopeless.guarantee is not None
    assert len(hopeless.guarantee.best_effort) == 1


def test_several_classes_and_abstention_count_clusters() -> None:
    rng = np.random.default_rng(0)
    document = np.repeat(np.arange(600), 5)
    y = (rng.random(3000) < np.repeat(rng.beta(2, 2, 600), 5)).astype(int)
    votes = rng.normal(size=(3000, 2)) + 2.5 * np.eye(2)[y]
    floors = Problem("maximize", recall, [precision.on(label="yes") >= 0.8])
    by_rows = decide_labels(floors, votes, y, ["no", "yes"]).decisions["yes"]
    by_document = decide_labels(floors, votes, y, ["no", "yes"], cluster=document).decisions["yes"]
    assert "independent clusters" in str(by_document.guarantee)
    assert "independent clusters" not in str(by_rows.guarantee)
    rule = decide_or_abstain(votes, y, error=0.1, cluster=document)
    assert "independent clusters" in str(rule.decision.guarantee)
