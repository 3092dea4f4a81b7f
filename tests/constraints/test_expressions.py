"""Rates as expressions: values equal hand counts, print as the formula, and refuse what cannot be."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from aimfor import checks
from aimfor.constraints.counts import Counts, Levels, empty_levels, encode, no_counts
from aimfor.constraints.expressions import Rate
from aimfor.constraints.inequalities import inequalities_of, refuse_contradictions
from aimfor.errors import InputError
from aimfor.rates import (
    accuracy,
    error_rate,
    fnr,
    fp,
    fpr,
    npv,
    positive_rate,
    precision,
    recall,
    tnr,
    tp,
    tpr,
)
from aimfor.rates.counting import counts_from_state, counts_state, encoded, tallied


def example(n: int = 60) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    scores = torch.randn(n, dtype=torch.float64)
    targets = torch.rand(n) < 0.4
    return scores, targets, {"sex": torch.arange(n) % 2, "site": torch.randint(3, 6, (n,))}


def count(scores: torch.Tensor, targets: torch.Tensor, groups: dict[str, torch.Tensor], **rest: torch.Tensor) -> Counts:
    batch = checks.binary(scores, targets, groups=groups, **rest)
    codes, levels = encoded(batch, empty_levels(tuple(sorted(groups))))
    return tallied(batch, batch.scores >= 0, codes, levels)


def by_hand(rate: str, predicted: torch.Tensor, y: torch.Tensor) -> float:
    def share(hit: torch.Tensor, among: torch.Tensor) -> float:
        return float((hit & among).sum()) / float(among.sum())

    everyone = torch.ones_like(y)
    return {
        "recall": lambda: share(predicted, y),
        "fnr": lambda: share(~predicted, y),
        "fpr": lambda: share(predicted, ~y),
        "tnr": lambda: share(~predicted, ~y),
        "precision": lambda: share(y, predicted),
        "npv": lambda: share(~y, ~predicted),
        "positive_rate": lambda: share(predicted, everyone),
        "accuracy": lambda: share(predicted == y, everyone),
        "error_rate": lambda: share(predicted != y, everyone),
    }[rate]()


ALL = [recall, fnr, fpr, tnr, precision, npv, positive_rate, accuracy, error_rate]


@pytest.mark.parametrize("rate", ALL, ids=repr)
def test_a_rate_equals_the_share_counted_by_hand_overall_and_in_every_group(rate: Rate) -> None:
    scores, targets, groups = example()
    counts = count(scores, targets, groups)
    assert float(rate.value(counts)) == pytest.approx(by_hand(rate.name, scores >= 0, targets), abs=1e-15)
    for sex, site in itertools.product((0, 1), (3, 4, 5)):
        inside = (groups["sex"] == sex) & (groups["site"] == site)
        expected = by_hand(rate.name, scores[inside] >= 0, targets[inside])
        assert float(rate.on(sex=sex, site=site).value(counts)) == pytest.approx(expected, abs=1e-15)
    inside = groups["site"] == 4
    assert float(rate.on(site=4).value(counts)) == pytest.approx(
        by_hand(rate.name, scores[inside] >= 0, targets[inside])
    )


def test_arithmetic_is_linear() -> None:
    counts = count(*example())
    value = float((0.5 * recall + tnr / 2 - 0.1 - fpr.on(sex=1)).value(counts))
    expected = 0.5 * float(recall.value(counts)) + 0.5 * float(tnr.value(counts)) - 0.1
    assert value == pytest.approx(expected - float(fpr.on(sex=1).value(counts)))
    assert float((1 - fpr).value(counts)) == pytest.approx(float(tnr.value(counts)))
    assert (recall - recall + fpr).terms == fpr.terms
    for divisor in (0.25, 0.5, 1, 4):
        assert recall / divisor == (1 / divisor) * recall


def test_expressions_print_as_the_formula() -> None:
    assert repr(precision >= 0.9) == "precision >= 0.9"
    assert repr(fpr.gap("sex") <= 0.02) == "gap(fpr, sex) <= 0.02"
    assert repr(recall.on(sex=1) >= recall.on(sex=0) - 0.05) == "recall[sex=1] - recall[sex=0] >= -0.05"
    assert repr(0.5 * recall + 0.5 * tnr) == "0.5*recall + 0.5*tnr"
    assert repr(precision.worst("site") >= 0.8) == "worst(precision, site) >= 0.8"
    assert repr(fpr.on("young")) == "fpr[young=1]"
    assert repr(-recall + 0.25) == "-recall + 0.25"
    assert tpr is recall


def test_weights_count_as_repetition_and_masked_entries_not_at_all() -> None:
    scores, targets, groups = example()
    weights = torch.randint(1, 4, scores.shape).double()
    times = weights.long()
    repeated = count(
        scores.repeat_interleave(times),
        targets.repeat_interleave(times),
        {k: v.repeat_interleave(times) for k, v in groups.items()},
    )
    assert np.array_equal(count(scores, targets, groups, weights=weights).table, repeated.table)
    where = torch.rand(scores.shape) < 0.7
    kept = count(scores[where], targets[where], {k: v[where] for k, v in groups.items()})
    masked = count(scores, targets, groups, where=where)
    assert np.array_equal(masked.table, kept.on(masked.levels).table)


def test_counts_of_batches_add_up_whatever_labels_a_batch_lacks() -> None:
    scores, targets, groups = example()
    order = groups["site"].argsort()  # the first batches hold one site only
    total = no_counts(("sex", "site"))
    for rows in order.split(7):
        total = total.plus(count(scores[rows], targets[rows], {k: v[rows] for k, v in groups.items()}))
    whole = count(scores, targets, groups)
    assert total.levels == whole.levels
    assert np.array_equal(total.table, whole.table)
    assert np.array_equal(counts_from_state(counts_state(total)).table, whole.table)


def test_a_label_never_seen_has_no_examples() -> None:
    counts = count(*example())
    assert float(recall.on(sex=7).trials(counts)) == 0
    assert math.isnan(float(recall.on(sex=7).value(counts)))


def slack_by_difference(part: object, counts: Counts, place: tuple[int, ...], label: int) -> float:
    """Moving one example's decision and looking."""
    table = counts.table.copy()
    source, target = ((2, 0), (3, 1))[1 - label]
    step = 1e-6
    table[(*place, source)] -= step
    table[(*place, target)] += step
    moved = Counts(counts.levels, table)
    return float((part.slack(moved) - part.slack(counts)) / step)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "constraint",
    [
        recall >= 0.8,
        fpr.on(sex=1) <= 0.1,
        precision >= 0.9,
        precision.on(site=4) <= 0.9,
        npv >= 0.4,
        accuracy - 0.5 * fnr.on(sex=0) >= 0.3,
        fpr.gap("site") <= 0.02,
        precision.gap("sex") <= 0.1,
        error_rate.worst("site") <= 0.4,
        fp <= 5,
        tp - 0.9 * fp >= 0,
    ],
    ids=repr,
)
def test_sensitivity_is_the_derivative_of_the_slack(constraint: object) -> None:
    counts = count(*example(400))
    for part in inequalities_of(constraint, counts.levels):  # type: ignore[arg-type]
        gradient = part.sensitivity(counts)
        for sex, site, label in itertools.product(range(2), range(3), (0, 1)):
            expected = slack_by_difference(part, counts, (sex, site), label)
            assert float(gradient[sex, site, label]) == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_slack_of_a_bounded_ratio_has_the_sign_of_its_margin() -> None:
    for _ in range(50):
        counts = Counts(Levels(), torch.rand(4, dtype=torch.float64).numpy())
        (part,) = inequalities_of(precision >= 0.6, counts.levels)
        assert math.copysign(1, float(part.slack(counts))) == math.copysign(1, float(part.margin(counts)))


@pytest.mark.parametrize(
    ("attempt", "word"),
    [
        (lambda: precision >= 1.1, "1.1"),
        (lambda: recall <= -0.1, "-0.1"),
        (lambda: fpr.gap("sex") <= -0.2, "gap"),
        (lambda: fpr.gap("sex") >= 0.2, "bounded from above"),
        (lambda: recall.worst("site") >= 2, "2"),
        (lambda: recall > 0.5, "strict"),
        (lambda: recall < 0.5, "strict"),
        (lambda: bool(recall >= 0.5), "two constraints"),
        (lambda: 0.1 <= fpr <= 0.2, "two constraints"),
        (lambda: recall + fpr >= 2.5, "[0, 2]"),
        (lambda: recall - fpr <= -1.5, "[-1, 1]"),
        (lambda: recall - recall >= 0.1, "depends on a rate"),
        (lambda: recall / fpr, "difference"),
        (lambda: recall / 0, "divisor"),
        (lambda: recall / -2, "divisor"),
        (lambda: recall >= float("nan"), "nan"),
        (lambda: recall >= "0.9", "0.9"),
        (lambda: recall.on(), "no group"),
        (lambda: recall.on(sex=1).on(sex=0), "twice"),
        (lambda: recall.on(sex=1).gap("sex"), "restricted"),
        (lambda: recall.gap(["sex"]), "name of a group"),
        (lambda: recall + fpr.gap("sex"), "stands alone"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(attempt: object, word: str) -> None:
    with pytest.raises(InputError) as caught:
        attempt()  # type: ignore[operator]
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "pair",
    [
        (recall >= 0.9, recall <= 0.8),
        (recall >= 0.9, fnr >= 0.2),
        (accuracy >= 0.9, error_rate >= 0.2),
        (2 * recall >= 1.8, recall <= 0.8),
        (recall - fpr >= 0.5, fpr - recall >= -0.4),
        (precision.worst("site") >= 0.9, precision.worst("site") <= 0.8),
    ],
    ids=repr,
)
def test_contradictory_constraints_are_named(pair: tuple[object, object]) -> None:
    with pytest.raises(InputError) as caught:
        refuse_contradictions(pair)  # type: ignore[arg-type]
    assert repr(pair[0]) in str(caught.value)
    assert repr(pair[1]) in str(caught.value)


def test_compatible_constraints_pass_and_a_repeated_one_does_not() -> None:
    refuse_contradictions([recall >= 0.8, recall <= 0.8, fnr >= 0.2, fpr.on(sex=1) <= 0.1, fpr.on(sex=0) >= 0.2])
    with pytest.raises(InputError, match="twice"):
        refuse_contradictions([recall >= 0.8, recall >= 0.8])


def test_a_missing_group_and_a_continuous_one_are_named() -> None:
    scores, _, groups = example()
    given = {name: labels.numpy() for name, labels in groups.items()}
    with pytest.raises(InputError, match="'race'"):
        encode(given, len(scores), empty_levels(("race",)))
    with pytest.raises(InputError, match="categories"):
        encode({"age": np.arange(20_000.0)}, 20_000, empty_levels(("age",)))
