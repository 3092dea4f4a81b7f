"""What a rate problem costs per training step, what a guaranteed threshold costs, how often a certificate is wrong."""

from __future__ import annotations

import numpy as np
import torch
from common import median_seconds, record
from torch import Tensor, nn

import aimfor
from aimfor.constraints.counts import Counts, Levels
from aimfor.decisions.certificate import certify
from aimfor.rates import Verdict, accuracy, error_rate, fpr, precision, recall

BATCH, FEATURES, HIDDEN = 512, 100, 64


def cross_entropy(scores: Tensor, targets: Tensor, **_: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype))


def step_cost() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, FEATURES), (torch.rand(BATCH) < 0.3).long()
    groups = {"sex": (torch.rand(BATCH) < 0.5).long()}
    losses = {
        "cross-entropy": cross_entropy,
        "maximize recall, precision >= 0.9": aimfor.maximize(recall, precision >= 0.9),
        "minimize error, gap(fpr, sex) <= 0.02": aimfor.minimize(error_rate, fpr.gap("sex") <= 0.02),
        "MetricLoss('recall@precision=0.9')": aimfor.MetricLoss("recall@precision=0.9"),
        "MetricLoss('auprc@10')": aimfor.MetricLoss("auprc@10"),
    }
    functions = {}
    scores = torch.randn(BATCH, requires_grad=True)
    for name, loss in losses.items():
        model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        optimizer = torch.optim.Adam(model.parameters())
        needs = {"groups": groups} if "gap" in name else {}

        def step(loss=loss, model=model, optimizer=optimizer, needs=needs) -> None:
            optimizer.zero_grad()
            loss(model(x).squeeze(1), y, **needs).backward()
            optimizer.step()

        def alone(loss=loss, needs=needs) -> None:
            loss(scores, y, **needs).backward()

        for _ in range(12):  # past the first epoch, where the prices settle
            step()
        if hasattr(loss, "end_epoch"):
            loss.end_epoch()
        functions[name], functions[f"{name} alone"] = step, alone
    seconds = median_seconds(functions, repeats=60)
    own, loss_alone = seconds["cross-entropy"], seconds["cross-entropy alone"]
    rows = [
        {
            "loss": name,
            "step, ms": f"{1e3 * seconds[name]:.2f}",
            "step / cross-entropy's": f"{seconds[name] / own:.2f}",
            "loss alone / cross-entropy's": f"{seconds[f'{name} alone'] / loss_alone:.2f}",
        }
        for name in losses
    ]
    title = f"Rate problems: one training step (MLP {FEATURES}-{HIDDEN}-1, Adam) at batch {BATCH}"
    record("rates_cost", title, "python paper/benchmarks/bench_rates.py", rows)


def calibration() -> None:
    """Constraints that are false by a hair: every verdict "met" is an error."""
    chances = np.array([[0.15, 0.03, 0.1, 0.33], [0.15, 0.0375, 0.1, 0.1025]])
    levels = Levels(("sex",), ((0.0, 1.0),))
    truth = Counts(levels, torch.tensor(chances * 1e9))

    def exact(rate: object) -> float:
        return float(rate.value(truth))

    gap = abs(exact(fpr.on(sex=1)) - exact(fpr.on(sex=0)))
    problems = {
        "precision": [precision >= exact(precision) + 1e-6],
        "recall, fpr and accuracy": [
            recall >= exact(recall) + 1e-6,
            fpr <= exact(fpr) - 1e-6,
            accuracy >= exact(accuracy) + 1e-6,
        ],
        "gap of fpr": [fpr.gap("sex") <= gap - 1e-6],
    }
    rows = []
    for name, constraints in problems.items():
        generator = np.random.default_rng(0)
        wrong = 0
        for _ in range(1000):
            drawn = generator.multinomial(1500, (chances / chances.sum()).reshape(-1)).reshape(2, 4)
            certificate = certify(recall, constraints, Counts(levels, torch.tensor(drawn, dtype=torch.float64)))
            wrong += any(finding.verdict is Verdict.met for finding in certificate.findings)
        rows.append({"constraints": name, "repetitions": 1000, "wrongly met": f"{wrong / 10:.1f} %", "allowed": "5 %"})
    title = "Certificates at 95 %: how often 'met' is wrong when every constraint is false by a hair"
    record("rates_calibration", title, "python paper/benchmarks/bench_rates.py", rows)


def decide_cost(n: int = 1_000_000, repeats: int = 5) -> None:
    """A guaranteed threshold from a million scores, beside one sort of them."""
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(n, generator=generator) < 0.2
    scores = torch.randn(n, generator=generator, dtype=torch.float64) + 1.8 * y
    groups = {"sex": (torch.rand(n, generator=generator) < 0.4).long()}
    three = [precision >= 0.7, fpr.gap("sex") <= 0.02, recall.worst("sex") >= 0.3]
    functions = {
        "one sort": lambda: scores.sort(),
        "precision >= 0.8": lambda: aimfor.maximize(recall, precision >= 0.8).decide(scores, y, guarantee=0.95),
        "three constraints, two groups": lambda: aimfor.maximize(recall, three).decide(
            scores, y, groups=groups, guarantee=0.95
        ),
    }
    assert all(functions[name]().threshold is not None for name in list(functions)[1:])
    seconds = median_seconds(functions, repeats=repeats)
    rows = [
        {"scores": f"{n:,}", "decision": name, "seconds": f"{value:.2f}", "sorts": f"{value / seconds['one sort']:.1f}"}
        for name, value in seconds.items()
    ]
    title = "Guaranteed thresholds: seconds for a million scores (30 % of them order the tests)"
    record("rates_decide", title, "python paper/benchmarks/bench_rates.py", rows)


if __name__ == "__main__":
    step_cost()
    calibration()
    decide_cost()
