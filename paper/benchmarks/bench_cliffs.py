"""Whether the time of a loss depends on how its scores lie: outliers, spreads 1e-3 to 1e6, temperatures 1e-3 to 1e3.

python paper/benchmarks/bench_cliffs.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import aimfor

sys.path.insert(0, str(Path(__file__).parent))
from common import median_seconds, record

COMMAND = "python paper/benchmarks/bench_cliffs.py"
POWERS = range(-3, 7)


def scores_of(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    targets = torch.rand(n, generator=generator) < 0.1
    return torch.randn(n, generator=generator) + targets, targets


def step(loss_fn: aimfor.MetricLoss, scores: Tensor, targets: Tensor) -> Callable[[], None]:
    leaf = scores.clone().requires_grad_()

    def run() -> None:
        leaf.grad = None
        loss_fn(leaf, targets).backward()

    return run


def outliers() -> None:
    rows = []
    for n, repeats in ((8_192, 31), (100_000, 7)):
        scores, targets = scores_of(n)
        far = scores.clone()
        far[0] = 200.0
        for name in ("ap", "map@r", "precision@1", "ndcg@10"):
            loss_fn = aimfor.MetricLoss(name)
            lies = {"ordinary": scores, "one": far, "wide": 6 * scores, "ties": scores.round()}
            lies["apart"] = 1e6 * scores
            seconds = median_seconds(
                {lie: step(loss_fn, x, targets) for lie, x in lies.items()} | {"sort": scores.sort}, repeats, 2
            )
            ordinary = seconds["ordinary"]
            rows.append(
                {
                    "loss": name,
                    "n": f"{n:,}",
                    "ordinary scores, ms": round(1e3 * ordinary, 2),
                    "in sorts": round(ordinary / seconds["sort"], 1),
                    "one score of 200": f"{seconds['one'] / ordinary:.2f} ×",
                    "deviation 6": f"{seconds['wide'] / ordinary:.2f} ×",
                    "ties": f"{seconds['ties'] / ordinary:.2f} ×",
                    "deviation 1e6": f"{seconds['apart'] / ordinary:.2f} ×",
                    "wanted": "≤ 2 ×",
                }
            )
    record("cliffs", "What unusual scores cost a default loss, in units of ordinary ones", COMMAND, rows)


def sweep() -> None:
    scores, targets = scores_of(100_000)
    plain = aimfor.SmoothEngine()
    runs = {("spread", power): step(aimfor.MetricLoss("ap", plain), 10.0**power * scores, targets) for power in POWERS}
    for power in POWERS[:7]:
        loss_fn = aimfor.MetricLoss("ap", aimfor.SmoothEngine(10.0**power))
        runs["temperature", power] = step(loss_fn, scores, targets)
    names = {f"{what} {power}": run for (what, power), run in runs.items()}
    seconds = median_seconds(names, 7, 1)
    one = seconds["spread 0"]
    rows = [
        {
            "10 to the": power,
            "spread": f"{seconds[f'spread {power}'] / one:.2f} ×",
            "temperature": f"{seconds[f'temperature {power}'] / one:.2f} ×"
            if f"temperature {power}" in seconds
            else "",
        }
        for power in POWERS
    ]
    title = f"Smooth AP of 100,000 scores by their spread and by the temperature; 1 × is {1e3 * one:.1f} ms"
    record("cliffs_sweep", title, COMMAND, rows)


if __name__ == "__main__":
    outliers()
    sweep()
