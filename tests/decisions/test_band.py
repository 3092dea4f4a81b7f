"""The simultaneous band: its bounds by another route, its promise after looking, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

import aimfor
from aimfor.constraints import fpr, precision, recall
from aimfor.decisions import Band, Problem
from aimfor.decisions.rows import checked_rows
from aimfor.decisions.task import learning_pairs
from aimfor.errors import InputError

SHIFT, PREVALENCE = 1.5, 0.3


def drawn(seed: int, n: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([3, seed])
    y = rng.random(n) < PREVALENCE
    return rng.normal(size=n) + SHIFT * y, y


def true_precision(cut: np.ndarray) -> np.ndarray:
    hits, others = PREVALENCE * stats.norm.sf(cut - SHIFT), (1 - PREVALENCE) * stats.norm.sf(cut)
    return np.asarray(hits / (hits + others))


def test_each_bound_is_clopper_and_pearsons_at_its_share_of_the_error() -> None:
    scores, y = drawn(0)
    band = Problem("maximize", recall, [precision >= 0.8, fpr <= 0.1]).band(scores, y, confidence=0.9)
    ((_, rows),) = learning_pairs(checked_rows("scores", scores, y), "split")
    alpha = 0.1 / (2 * len(band.thresholds))
    for place, cut in enumerate(band.thresholds):
        above, right = rows.scores > cut, rows.targets
        k, n = int((above & right).sum()), int(above.sum())
        assert band.lines["precision >="].bound[place] == pytest.approx(stats.beta.ppf(alpha, k, n - k + 1) if k else 0)
        k, n = int((above & ~right).sum()), int((~right).sum())
        high = stats.beta.isf(alpha, k + 1, n - k) if k < n else 1.0
        assert band.lines["fpr <="].bound[place] == pytest.approx(high)
        assert band.objective[place] == pytest.approx((above & right).sum() / right.sum())


def test_all_bounds_hold_together_as_often_as_they_say() -> None:
    """The worst choice that one can make after looking: a threshold whose bound is wrong, if there is one."""
    problem, wrong, pointwise = Problem("maximize", recall, [precision >= 0.8]), 0, 0
    for seed in range(300):
        band = problem.band(*drawn(seed))
        truth = true_precision(np.array(band.thresholds))
        line = band.lines["precision >="]
        wrong += bool((np.array(line.bound) > truth + 1e-12).any())
        pointwise += bool((np.array(line.value) > truth + 0.05).any())
    assert wrong <= stats.binom.isf(1e-4, 300, 0.05)
    assert pointwise > 100  # the values themselves stray: there is something to bound


def test_the_choice_is_the_best_that_keeps_what_is_asked_for() -> None:
    band = Band(
        0.95, (0.0, 1.0, 2.0, 3.0), "maximize", (0.9, 0.6, 0.3, math.nan),
        {"precision >=": aimfor.decisions.band.Line((0.5, 0.8, 0.95, 1.0), (0.4, 0.7, 0.9, 0.99))},
    rows=100)  # fmt: skip
    assert [band.best(f"precision >= {floor}") for floor in (0.1, 0.7, 0.71, 0.95)] == [0.0, 1.0, 2.0, None]
    assert band.best(precision >= 0.7) == 1.0
    assert band.to_dict()["objective"] == [0.9, 0.6, 0.3, None]
    json.dumps(band.to_dict(), allow_nan=False)
    with pytest.raises(InputError, match="a bound on precision >="):
        band.best("recall >= 0.5")


def test_gaps_five_values_and_clusters_have_bands() -> None:
    rng = np.random.default_rng(0)
    y, sex = rng.random(3000) < 0.4, rng.integers(2, size=3000)
    marks = np.clip(np.round(rng.normal(size=3000) + 2 * y), 1, 5)
    asked = {"maximize": "recall", "subject_to": ["gap(fpr, sex) <= 0.1", "precision >= 0.6"]}
    band = aimfor.decide(marks, y, **asked, groups={"sex": sex}, band=True).band
    assert band is not None
    assert set(band.lines) == {"gap(fpr, sex) <=", "precision >="}
    assert band.best("gap(fpr, sex) <= 0.15", "precision >= 0.5") is not None
    cluster = np.repeat(np.arange(1000), 3)
    wider = aimfor.decide(marks, y, **asked, groups={"sex": sex}, cluster=cluster, band=True).band
    assert wider is not None
    assert len(band.thresholds) in (5, 6)
    assert 0.3 < wider.lines["precision >="].bound[2] < wider.lines["precision >="].value[2]


def test_a_band_is_part_of_the_answer_only_where_it_is_asked_for() -> None:
    scores, y = drawn(1)
    decision = aimfor.decide(scores, y, maximize="recall", subject_to="precision >= 0.6", band=True)
    assert decision.band is not None
    assert json.loads(json.dumps(decision.to_dict(), allow_nan=False))["band"]["confidence"] == 0.95
    assert "band" not in aimfor.decide(scores, y, maximize="recall", subject_to="precision >= 0.6").to_dict()


def test_what_a_band_cannot_be() -> None:
    scores, y = drawn(2)
    problem = Problem("maximize", recall, [precision >= 0.8])
    with pytest.raises(InputError, match="fold ids with a band"):
        problem.band(scores, y, learn=np.arange(len(y)) % 3)
    with pytest.raises(InputError, match="without constraints"):
        Problem("maximize", recall).band(scores, y)
    with pytest.raises(InputError, match="confidence"):
        problem.band(scores, y, confidence=95)
    with pytest.raises(InputError, match="one threshold for everyone"):
        aimfor.decide(scores, y, maximize="recall", subject_to="precision >= 0.8", groups={"g": y}, per_group="g",
                      band=True)  # fmt: skip
