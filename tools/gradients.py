"""Gradients of random calls (metrics × engines × settings × weights × masks) against differences of the printed loss.

    python tools/gradients.py --calls 10000 --seed 0

Each call compares the derivative along a random direction (and along one single score) with Richardson's extrapolation
of central differences of the loss at four steps; nothing of the engines' own derivatives is used. Where the two
extrapolations disagree (a kink or a tie between the steps) the call is counted as skipped and drawn anew. What
`Engine.holds` declares constant is left out: only engines that claim the loss's own gradient are asked.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter

import torch
from torch import Tensor

import aimfor
from aimfor.engine import Engine
from aimfor.metrics import METRICS, Metric, metric_from_name

TOLERANCE = 1e-5


def engines(draw: random.Random) -> list[Engine]:
    """One of each kind, with settings of their own."""
    surrogate = draw.choice(["squared_hinge", "hinge", "squared", "ramp", "logistic"])
    margin = 1.0 if surrogate == "logistic" else draw.choice([0.5, 1.0, 2.0])
    temperature, anchor = draw.choice([0.25, 0.5, 1.0, 3.0]), draw.choice([0.0, 0.0, 0.5, 1.0])
    return [
        aimfor.SortedEngine(surrogate, margin),
        aimfor.SmoothEngine(temperature, anchor=anchor, anchor_temperature=draw.choice([0.25, 1.0])),
        aimfor.SmoothEngine(temperature, indicator=draw.choice(["lower", "upper"])),
        aimfor.LPEngine(margin=draw.choice([0.5, 1.0, 2.0])),
        aimfor.LPEngine(threshold="free"),
        aimfor.RateEngine(draw.choice(["sigmoid", "logistic", "hinge"]), temperature),
    ]


def batch(metric: Metric, draw: random.Random) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(draw.randrange(1 << 30))
    n, c = draw.randint(4, 40), draw.randint(2, 5)
    shape = {"binary": (n,), "multiclass": (n, c), "multilabel": (n, c), "lists": (draw.randint(1, 5), n)}[
        metric.layout
    ]
    scores = draw.choice([0.3, 1.0, 3.0]) * torch.randn(shape, generator=generator, dtype=torch.float64)
    scores = scores + draw.choice([-1.0, 0.0, 0.0, 1.0])
    if metric.layout == "multiclass":
        targets = torch.randint(0, c, (n,), generator=generator)
    else:
        targets = (torch.rand(shape, generator=generator) < draw.choice([0.1, 0.4, 0.8])).long()
    rest = {}
    if draw.random() < 0.4:
        rest["weights"] = torch.rand(shape[:1], generator=generator, dtype=torch.float64) + 0.1
    if draw.random() < 0.3:
        rest["where"] = torch.rand(targets.shape, generator=generator) < 0.8
    return scores, targets, rest


def slope(
    loss_fn: aimfor.MetricLoss, scores: Tensor, targets: Tensor, rest: dict[str, Tensor], along: Tensor
) -> list[float]:
    """Two extrapolations, from steps a factor of four apart."""

    def central(step: float) -> float:
        with torch.no_grad():
            up, down = (float(loss_fn(scores + sign * step * along, targets, **rest)) for sign in (1, -1))
        return (up - down) / (2.0 * step)

    return [(4.0 * central(step / 2) - central(step)) / 3.0 for step in (4e-4, 1e-4)]


def ask(draw: random.Random) -> str:
    """What one call found: "right", "held", "refused", "undefined", "kink", or a sentence."""
    name = draw.choice(METRICS).example
    metric = metric_from_name(name)
    engine = draw.choice([one for one in [*engines(draw), metric.default_engine()] if one.refuses(metric) is None])
    loss_fn = aimfor.MetricLoss(metric, engine).eval()
    scores, targets, rest = batch(metric, draw)
    leaf = scores.clone().requires_grad_()
    try:
        output = loss_fn.detailed(leaf, targets, **rest)
    except aimfor.InputError:
        return "refused"
    if output.status is not aimfor.Status.ok:
        return "undefined"
    if engine.holds(metric, metric.check(scores, targets, **rest)):
        return "held"
    (gradient,) = torch.autograd.grad(output.loss, leaf)
    along = torch.randn(scores.shape, generator=torch.Generator().manual_seed(draw.randrange(1 << 30))).double()
    one = torch.zeros_like(scores).view(-1)
    one[draw.randrange(one.numel())] = 1.0
    for direction in (along / along.norm(), one.view_as(scores)):
        coarse, fine = slope(loss_fn, scores, targets, rest, direction)
        found = float((gradient * direction).sum())
        limit = TOLERANCE * (float(gradient.norm()) + abs(fine)) + 1e-9
        if abs(found - fine) <= limit:
            continue
        if abs(coarse - fine) > limit:
            return "kink"
        return f"{name} by {engine}: gradient {found:.8g}, differences {fine:.8g} (weights and masks: {sorted(rest)})"
    return "right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000, help="how many gradients to compare")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    draw, seen, findings = random.Random(options.seed), Counter[str](), 0
    while seen["right"] + findings < options.calls:
        answer = ask(draw)
        if " " in answer:
            findings += 1
            print(answer)
        else:
            seen[answer] += 1
    print(f"{options.calls} gradients, {findings} beyond tolerance; drawn anew: {dict(seen)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
