"""Several classes: a floor for each class that keeps its promise, and decisions that are left to a person."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

import aimfor
from aimfor.errors import InputError
from aimfor.rates import ABSTAIN, decide_labels, decide_or_abstain, precision, recall

CLASSES = ["rest", "theft", "fraud"]
FLOORS = aimfor.maximize(recall, [precision.on(label="fraud") >= 0.9, precision.on(label="theft") >= 0.8])


def sample(n: int, seed: int = 0, shift: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.multinomial(torch.tensor([0.6, 0.25, 0.15]), n, replacement=True, generator=generator)
    scores = torch.randn(n, 3, generator=generator, dtype=torch.float64) + shift * torch.nn.functional.one_hot(y, 3)
    return scores, y


def test_each_class_passes_its_own_exact_test_at_its_share_of_the_error() -> None:
    scores, y = sample(4000)
    found = decide_labels(FLOORS, scores, y, CLASSES, learn=sample(4000, 1))
    assert list(found.decisions) == ["theft", "fraud"]  # in the order of the columns
    decided = found(scores)
    assert not bool(decided[:, 0].any())
    for place, floor in ((1, 0.8), (2, 0.9)):
        above = decided[:, place]
        hits = int((y[above] == place).sum())
        assert stats.binom.sf(hits - 1, int(above.sum()), floor) <= 0.025
        alone = aimfor.maximize(recall, precision >= floor)
        learn = sample(4000, 1)
        own = alone.decide(scores[:, place], y == place, guarantee=0.975, learn=(learn[0][:, place], learn[1] == place))
        assert found.decisions[CLASSES[place]].threshold == own.threshold
    assert "guaranteed at 97.5% confidence" in str(found)


def test_rows_may_have_several_labels() -> None:
    scores, y = sample(4000)
    marks = torch.nn.functional.one_hot(y, 3)
    matrix = decide_labels(FLOORS, scores, marks, CLASSES)
    assert matrix.decisions == decide_labels(FLOORS, scores, y, CLASSES).decisions


def test_a_class_without_threshold_decides_for_no_row_and_the_others_stand() -> None:
    scores, y = sample(400)
    scores[:, 1] = torch.randn(400, generator=torch.Generator().manual_seed(9))
    easy = aimfor.maximize(recall, [precision.on(label="fraud") >= 0.3, precision.on(label="theft") >= 0.4])
    found = decide_labels(easy, scores, y, CLASSES)
    assert found.decisions["theft"].threshold is None
    assert found.decisions["fraud"].threshold is not None
    assert found(scores).sum(0).tolist()[:2] == [0, 0]


def test_decisions_that_are_made_are_right_as_often_as_promised() -> None:
    """Known truth: with two classes, each N(±1.5, 1), P(wrong | |s| > c) is a closed form."""
    wrong = given = 0
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        y = torch.rand(1500, generator=generator) < 0.5
        scores = torch.randn(1500, generator=generator, dtype=torch.float64) + 3.0 * y - 1.5
        rule = decide_or_abstain(scores, y.long(), error=0.02)
        if rule.decision.threshold is not None:
            given += 1
            c = rule.decision.threshold
            false, true = stats.norm.sf(c + 1.5), stats.norm.sf(c - 1.5)
            wrong += false / (false + true) > 0.02
    assert given >= 50
    assert wrong <= 8  # 3 expected at most; more than 8 has probability 0.4 %


def test_abstention_by_hand_and_for_several_classes() -> None:
    scores, y = sample(3000)
    rule = decide_or_abstain(scores, y, error=0.02, learn=sample(3000, 1))
    answers = rule(scores)
    decided = answers != ABSTAIN
    assert rule.coverage == pytest.approx(float(decided.double().mean()))
    assert 0.3 < rule.coverage < 1.0
    assert torch.equal(answers[decided], scores.argmax(1)[decided])
    errors = int((answers != y)[decided].sum())
    assert stats.binom.cdf(errors, int(decided.sum()), 0.02) <= 0.05
    probabilities = torch.sigmoid(scores[:, 2] - 1.5)
    other = decide_or_abstain(probabilities, (y == 2).long(), error=0.05, boundary=0.5)
    answers = other(probabilities)
    assert torch.equal(answers[answers != ABSTAIN], (probabilities > 0.5).long()[answers != ABSTAIN])


def test_decisions_that_are_all_right_are_no_mistake_and_too_few_leave_all_to_a_person() -> None:
    y = torch.arange(400) % 2
    scores = torch.linspace(0.1, 3.0, 400) * (2 * y - 1)
    assert decide_or_abstain(scores, y, error=0.02).coverage > 0.5
    none = decide_or_abstain(scores[:100], y[:100], error=0.01)
    assert none.coverage == 0.0
    assert (none(scores) == ABSTAIN).all()
    assert "No threshold" in str(none.decision.guarantee)


def test_bad_input_is_named() -> None:
    scores, y = sample(200)

    def refuse(match: str, problem: aimfor.rates.RateProblem, *arguments: object, **options: object) -> None:
        with pytest.raises(InputError, match=match):
            decide_labels(problem, *arguments, **options)  # type: ignore[arg-type]

    refuse("fraud", aimfor.maximize(recall, precision.on(label="fruad") >= 0.9), scores, y, CLASSES)
    refuse("on one class", aimfor.maximize(recall, precision >= 0.9), scores, y, CLASSES)
    refuse("at least one", aimfor.maximize(recall), scores, y, CLASSES)
    refuse(r"scores of shape \(200, 3\).*\(n, 2\), one column per class", FLOORS, scores, y, CLASSES[:2])
    refuse(r"scores of shape \(200,\).*one column per class", FLOORS, scores[:, 0], y, CLASSES)
    for targets in (y[:-1], torch.cat((y, y)), y[:, None], y[:, None].expand(200, 2), y.double()):
        with pytest.raises(InputError, match="class ids below 3") as caught:
            decide_labels(FLOORS, scores, targets, CLASSES)
        assert str(tuple(targets.shape)) in str(caught.value)
    refuse("one of the classes", FLOORS, scores[:, :1], (y == 0)[:, None], CLASSES[:1])
    refuse("no name", FLOORS, scores[:, :0], y, [])
    refuse("class ids below 3", FLOORS, scores, y + 1, CLASSES)
    for guarantee in (-0.2, 0.5, 1.0, 1.5):
        refuse("guarantee", FLOORS, scores, y, CLASSES, guarantee=guarantee)
    refuse("infinite", FLOORS, torch.where(scores > 2, torch.inf, scores), y, CLASSES)
    with pytest.raises(InputError, match="error"):
        decide_or_abstain(scores, y, error=0.0)
    with pytest.raises(InputError, match="targets of shape"):
        decide_or_abstain(scores, y[:10])
    found = decide_labels(aimfor.maximize(recall, precision.on(label="fraud") >= 0.5), scores, y, CLASSES)
    with pytest.raises(InputError, match="one column per class"):
        found(scores[:, :2])
