"""What the defaults' gradients hold constant: named on docs/smooth.md, with how far they are from the loss's own."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

import aimfor
from aimfor.metrics import METRICS, metric_from_name
from samples import Sample, sample

PAGE = Path(__file__).parent.parent.parent / "docs" / "smooth.md"
ROW = re.compile(r"\| `([^`]+)` \| (the [a-z' ]+) \| (\d+) to (\d+) % \|")
SAID = {name: (held, int(low), int(high)) for name, held, low, high in ROW.findall(PAGE.read_text("utf-8"))}


def held(name: str) -> list[str]:
    metric, engine = metric_from_name(name), aimfor.MetricLoss(name).engine
    s = sample(metric.layout, ties=False)
    return [one for one in engine.holds(metric, metric.check(s.scores, s.targets)) if one != "the bank's share"]


def test_the_page_names_every_default_whose_gradient_is_not_the_printed_losss() -> None:
    found = {entry.example: held(entry.example) for entry in METRICS}
    assert {name: [said[0]] for name, said in SAID.items()} == {name: held for name, held in found.items() if held}


def loss(name: str, s: Sample, scores: torch.Tensor) -> torch.Tensor:
    return aimfor.MetricLoss(name)(scores, s.targets)  # a new one each time: nothing is remembered


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("seed", [0, 7, 41, 112])
def test_the_gradient_is_as_far_from_the_printed_losss_as_the_page_says(name: str, seed: int) -> None:
    s = sample(metric_from_name(name).layout, seed=seed, ties=False)
    leaf = s.scores.clone().requires_grad_()
    gradient = torch.autograd.grad(loss(name, s, leaf), leaf)[0].reshape(-1)
    steps = 1e-5 * torch.eye(gradient.numel(), dtype=torch.float64)
    differences = [
        (loss(name, s, s.scores + one) - loss(name, s, s.scores - one)) / 2e-5
        for one in steps.reshape(-1, *s.scores.shape)
    ]
    true = torch.stack(differences)
    off = 100 * float((gradient - true).norm() / true.norm())
    _, low, high = SAID[name]
    assert low <= off <= high
    widest = {"multilabel_f1": 28, "multilabel_f1_samples": 38}.get(name, 17)
    assert float(gradient @ true / gradient.norm() / true.norm()) > math.cos(math.radians(widest))


@pytest.mark.parametrize("name", ["recall@precision=0.9", "precision@recall=0.8", "tpr@fpr=0.1", "auprc@10"])
def test_scores_that_are_all_alike_do_not_meet_a_floor(name: str) -> None:
    """A floor that widened without end would be half met by anything, and the loss would lead to one score for all."""
    s = sample("binary", n=40, ties=False)
    sparse = torch.arange(40) % 10 == 0
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine())
    alike = float(loss_fn(1e-4 * s.scores, sparse))
    perfect = float(loss_fn(20.0 * (sparse.double() - 0.5) + s.scores, sparse))
    assert perfect < 0.1 < 0.75 < alike
