"""The sentence that stands first in the terminal, in notebooks and on the page."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from aimfor.report.write import verdict
from aimfor.runs.evaluation import EnsembleEvaluation, Estimate, LabelsEvaluation, Members
from aimfor.targets.evaluate import evaluate
from aimfor.targets.importance import Importance
from aimfor.targets.objective import Objective


def of(metric: str, scores: torch.Tensor, y: torch.Tensor, threshold: float, **how: Any) -> EnsembleEvaluation:
    part = evaluate(Objective.of(metric), scores, y, threshold, **how)
    return EnsembleEvaluation(
        metric=metric,
        notes=[],
        expected=Estimate(part.metric, part.interval),
        test=part,
        importance=Importance(),
        threshold=threshold,
        threshold_text="",
        ensemble=Members([], 3, ""),
        rows={},
    )


def test_two_classes_say_what_the_threshold_finds_and_how_often_it_is_right() -> None:
    y = (torch.arange(100) < 20).long()
    scores = torch.where(torch.arange(100) < 15, 1.0, -1.0) + 2.0 * (
        (torch.arange(100) >= 90) & (torch.arange(100) < 95)
    )
    said = verdict(of("f1", scores, y, 0.0))
    assert said == (
        "Expect f1 0.75 on new rows; without a model it would be 0.33. "
        "At its threshold it finds 75 of 100 positives, and 75 of 100 that it flags are right."
    )
    assert verdict(of("f1", scores, y, 9.0)).endswith("At its threshold it flags no row.")
    low = verdict(of("f1", scores, y, 0.0, thorough=True))
    assert "with 95 % confidence" in low


def test_what_is_not_defined_is_called_so() -> None:
    none = of("auroc", torch.arange(4.0), torch.zeros(4, dtype=torch.long), 1.5)
    assert verdict(none) == "Expect auroc undefined on new rows; without a model it would be undefined."


@pytest.mark.parametrize(("interval", "words"), [((0.5, 0.75), " (0.50 to 0.75 with 95 % confidence)"), (None, "")])
def test_pictures_say_what_was_seen(interval: tuple[float, float] | None, words: str) -> None:
    found = LabelsEvaluation(metric="ap", notes=[], test=Estimate(0.625, interval), labels=[], pictures={})
    assert verdict(found) == f"On pictures that it has not seen it reaches ap 0.62{words}, the mean over 0 labels."
