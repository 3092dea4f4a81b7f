"""Numbers of the report against scikit-learn, scipy, closed forms and simulation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import beta
from sklearn import metrics as sk
from sklearn.dummy import DummyClassifier

import aimfor
from aimfor.targets.evaluate import brier, constant_value, evaluate, log_loss, metric_interval, reliability
from aimfor.targets.intervals import bootstrap_interval
from aimfor.targets.objective import Objective


def two_classes(n: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, Any]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(np.int64)
    scores = (rng.normal(size=n) + 1.5 * y).round(2)
    return torch.from_numpy(scores), torch.from_numpy(y), 1 / (1 + np.exp(2.2 - 1.5 * scores))


def three_classes(n: int = 300, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, Any]:
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    scores = torch.from_numpy(rng.normal(size=(n, 3)) + 2 * np.eye(3)[y])
    return scores, torch.from_numpy(y), scores.softmax(1).numpy()


def beside(found: Any) -> dict[str, Any]:
    return {row.name: row for row in found.beside}


def test_numbers_beside_the_metric_are_scikit_learns() -> None:
    scores, y, p = two_classes()
    found = beside(evaluate(Objective.of("f1"), scores, y, 0.7, probabilities=p))
    share = float(y.double().mean())
    wanted = {
        "AUROC": (sk.roc_auc_score(y, scores), 0.5),
        "average precision": (sk.average_precision_score(y, scores), share),
        "Brier score": (sk.brier_score_loss(y, p), share * (1 - share)),
        "log loss": (sk.log_loss(y, p), sk.log_loss(y, np.full(len(y), share))),
    }
    assert {name: (row.value, row.constant) for name, row in found.items()} == {
        name: pytest.approx(pair) for name, pair in wanted.items()
    }
    assert [row.higher_is_better for row in found.values()] == [True, True, False, False]


def test_numbers_of_several_classes_are_scikit_learns() -> None:
    scores, y, p = three_classes()
    found = evaluate(Objective.of("auroc_ovr"), scores, y, 0.0, probabilities=p)
    decided = scores.argmax(1)
    assert found.confusion == sk.confusion_matrix(y, decided).tolist()
    precision, recall, f1, support = sk.precision_recall_fscore_support(y, decided)
    for k, row in enumerate(found.per_class):
        assert row.support == support[k]
        assert row.decided == int((decided == k).sum())
        assert (row.precision, row.recall, row.f1) == pytest.approx((precision[k], recall[k], f1[k]))
        assert row.auroc == pytest.approx(sk.roc_auc_score(y == k, scores[:, k]))
    shown = beside(found)
    assert shown["accuracy"].value == pytest.approx(sk.accuracy_score(y, decided))
    assert shown["accuracy"].constant == pytest.approx(float((y == 0).double().mean()))
    assert shown["Brier score"].value == pytest.approx(float(((p - np.eye(3)[y]) ** 2).sum(1).mean()))
    assert shown["log loss"].value == pytest.approx(sk.log_loss(y, p))


@pytest.mark.parametrize(
    ("name", "strategy", "metric"),
    [
        ("f1", "constant", lambda y, d: sk.f1_score(y, d)),
        ("accuracy", "most_frequent", lambda y, d: sk.accuracy_score(y, d)),
        ("ap", "constant", lambda y, d: sk.average_precision_score(y, d.astype(float))),
        ("auroc", "constant", lambda y, d: sk.roc_auc_score(y, d.astype(float))),
        ("recall@precision=0.2", "constant", lambda y, d: 1.0),
        ("recall@precision=0.9", "constant", lambda y, d: 0.0),
    ],
)
def test_baseline_is_what_a_dummy_classifier_reaches(name: str, strategy: str, metric: Any) -> None:
    _, y, _ = two_classes()
    x = np.zeros((len(y), 1))
    dummy = DummyClassifier(strategy=strategy, constant=1 if strategy == "constant" else None).fit(x, y.numpy())
    assert constant_value(Objective.of(name), y) == pytest.approx(metric(y.numpy(), dummy.predict(x)))


def test_interval_of_accuracy_is_exact() -> None:
    scores, y, _ = two_classes()
    found = evaluate(Objective.of("accuracy"), scores, y, 0.7, thorough=True)
    right = int(((scores > 0.7) == (y > 0)).sum())
    n = len(y)
    assert found.interval == pytest.approx(
        (beta.ppf(0.025, right, n - right + 1), beta.ppf(0.975, right + 1, n - right))
    )


def test_accuracy_beside_another_metric_has_an_exact_interval_too() -> None:
    scores, y, _ = three_classes()
    row = beside(evaluate(Objective.of("f1_macro"), scores, y, 0.0, thorough=True))["accuracy"]
    right, n = int((scores.argmax(1) == y).sum()), len(y)
    wanted = beta.ppf(0.025, right, n - right + 1), beta.ppf(0.975, right + 1, n - right)
    assert row.interval == pytest.approx(wanted)


@pytest.mark.parametrize(("name", "left"), [("auroc", ["average precision"]), ("ap", ["AUROC"])])
def test_what_the_model_was_trained_for_is_not_shown_twice(name: str, left: list[str]) -> None:
    scores, y, _ = two_classes()
    assert list(beside(evaluate(Objective.of(name), scores, y, 0.0))) == left


def delong_deviation(scores: Any, y: Any) -> float:
    """Standard error of AUROC by the placements of each row (DeLong 1988): no resampling at all."""
    positive, negative = scores[y == 1], scores[y == 0]
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    return float(np.sqrt(wins.mean(1).var(ddof=1) / len(positive) + wins.mean(0).var(ddof=1) / len(negative)))


def test_interval_of_auroc_agrees_with_the_closed_form() -> None:
    """Of the rows and one more positive: below all others for the lower end, above them for the upper one."""
    scores, y, _ = two_classes(800)
    ends = evaluate(Objective.of("auroc"), scores, y, 0.0, thorough=True).interval
    for end, extreme, sign in zip(ends, (-9.0, 9.0), (-1, 1), strict=True):
        extended, labels = np.append(scores.numpy(), extreme), np.append(y.numpy(), 1)
        deviation = delong_deviation(extended, labels)
        # 400 draws know a 2.5 % quantile to about a tenth of the deviation: 0.35 of it is more than three of those.
        assert abs(end - (sk.roc_auc_score(labels, extended) + sign * 1.96 * deviation)) < 0.35 * deviation


def test_the_interval_of_few_perfect_positives_leaves_room_for_those_that_were_not_seen() -> None:
    """One positive more, ranked last, is drawn up to three times among eleven."""
    y = torch.tensor([0] * 30 + [1] * 10)
    low, high = evaluate(Objective.of("auroc"), y.double(), y, 0.5, thorough=True).interval
    assert 1 - 4 / 11 < low < 1 - 2 / 11
    assert high == 1.0


@pytest.mark.parametrize("name", ["auroc", "ap"])
def test_intervals_of_twenty_positives_hold_the_truth(name: str) -> None:
    """Of 60 tables drawn from one law; draws of the rows alone held it in a half (AUROC) and three quarters (AP)."""
    objective, held, plain = Objective.of(name), 0, 0
    rng = np.random.default_rng(0)

    def drawn(positives: int, negatives: int) -> tuple[torch.Tensor, torch.Tensor]:
        y = np.repeat([0, 1], [negatives, positives])
        return torch.from_numpy(rng.normal(size=len(y)) + 4.0 * y), torch.from_numpy(y)

    truth = objective.value(*drawn(2_000, 38_000))
    for _ in range(60):
        scores, y = drawn(20, 380)
        low, high = metric_interval(objective, scores, y, 0.0) or (1.0, 0.0)
        held += low <= truth <= high
        of_rows = bootstrap_interval(lambda rows: objective.value(scores[rows], y[rows]), len(y))  # noqa: B023
        plain += of_rows is not None and of_rows[0] <= truth <= of_rows[1]
    assert held >= 55
    assert plain < held


def test_a_large_part_is_judged_by_small_draws_of_the_same_width() -> None:
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=20_000))
    low, high = bootstrap_interval(lambda rows: float(values[rows].mean()), len(values), most_rows=1_000) or (0, 0)
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(20_000), rel=0.15)
    assert abs((low + high) / 2 - float(values.mean())) < 0.3 / np.sqrt(20_000) * 1.96 + 0.1 / np.sqrt(1_000)


def test_no_interval_where_all_draws_agree_or_most_are_undefined() -> None:
    y = torch.tensor([0] * 30 + [1] * 10)
    same = evaluate(Objective.of("auroc"), y.double(), torch.zeros_like(y), 0.5, thorough=True)
    assert same.interval is None
    assert bootstrap_interval(lambda rows: float("nan"), 10) is None
    assert bootstrap_interval(lambda rows: 0.0781, 2) is None
    assert [bootstrap_interval(lambda rows: float(rows.double().mean()), n) for n in (0, 1)] == [None, None]


def test_percentile_intervals_are_written_once() -> None:
    source = Path(aimfor.__file__).parent
    found = [path.name for path in source.rglob("*.py") if re.search(r"0\.025|1 - level\) / 2", path.read_text())]
    assert found == ["intervals.py"]


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_reliability_bins_part_all_rows_and_count_right(share: float) -> None:
    rng = np.random.default_rng(1)
    p = np.clip(rng.beta(0.5, 0.5 / share - 0.5, 3000), 1e-6, 1 - 1e-6).round(3)
    y = (rng.random(3000) < p).astype(float)
    bins = reliability(p, y)
    assert 5 <= len(bins) <= 10
    assert sum(one.n for one in bins) == 3000
    assert min(one.n for one in bins) >= 10
    start, order = 0, np.argsort(p, kind="stable")
    for one in bins:
        inside = order[start : start + one.n]
        start += one.n
        assert one.stated == pytest.approx(p[inside].mean())
        assert one.seen == pytest.approx(y[inside].mean())
        k, n = int(y[inside].sum()), len(inside)
        assert one.high == pytest.approx(beta.ppf(0.975, k + 1, n - k) if k < n else 1.0)
        rest = np.setdiff1d(np.arange(3000), inside)
        assert not np.isin(p[rest], p[inside]).any()  # equal probabilities are never parted
    # The probabilities are true here: few bars miss the diagonal.
    assert sum(not one.low <= one.stated <= one.high for one in bins) <= 2
    assert bins[-1].n < 240  # fewer than a tenth of the rows: likely positives have bins of their own


def test_reliability_of_several_classes_is_of_the_decision() -> None:
    _, y, p = three_classes()
    bins = reliability(p, y.numpy().astype(float))
    assert sum(one.n * one.seen for one in bins) == pytest.approx(float((p.argmax(1) == y.numpy()).sum()))
    assert sum(one.n * one.stated for one in bins) == pytest.approx(p.max(1).sum())


def test_few_rows_and_constant_probabilities_are_one_bin() -> None:
    assert len(reliability(np.full(50, 0.3), np.zeros(50))) == 1
    assert [one.n for one in reliability(np.array([0.1, 0.9]), np.array([0.0, 1.0]))] == [2]


def test_scores_of_certain_and_wrong_probabilities_are_finite() -> None:
    assert log_loss(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(-np.log(1e-15))
    assert brier(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == 1.0


@pytest.mark.parametrize("label", [0, 1])
def test_rows_of_one_class_have_curves_and_no_warning(label: int) -> None:
    found = evaluate(Objective.of("ap"), torch.linspace(-1, 1, 9), torch.full((9,), label), 0.0)
    assert np.isfinite([one for line in found.curves.values() for one in line]).all()
