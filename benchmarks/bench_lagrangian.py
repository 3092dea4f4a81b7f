"""The lagrangian engine: convergence to the linear program's optimum, and what it costs.

python benchmarks/bench_lagrangian.py convergence     20 problems, both modes, and the papers' plain Lagrangian
python benchmarks/bench_lagrangian.py cost            projection beside torch.sort, regularizer beside an epoch
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from common import median_seconds, record
from torch import Tensor

import aimfor
from aimfor.lagrangian import Decay, LagrangianEngine, Linear, bound_from_scores, linear_optimum, project_cap

EPOCHS, STEPS = 300, 4


def linear_problem(seed: int) -> tuple[Tensor, Tensor]:
    """Two overlapping Gaussian groups, 100 to 200 examples, 2 to 7 features and a bias."""
    draw = torch.Generator().manual_seed(seed)
    rows, features = (int(torch.randint(low, high, (), generator=draw)) for low, high in ((100, 201), (2, 8)))
    share, distance = (0.15 + 0.35 * torch.rand(2, generator=draw, dtype=torch.float64)).tolist()
    labels = torch.rand(rows, generator=draw) < share
    direction = torch.nn.functional.normalize(torch.randn(features, generator=draw, dtype=torch.float64), dim=0)
    x = torch.randn(rows, features, generator=draw, dtype=torch.float64)
    x = x + 3.0 * distance * (2.0 * labels.double()[:, None] - 1.0) * direction
    return torch.cat((x, x.new_ones(rows, 1)), 1), labels


def train(x: Tensor, labels: Tensor, seed: int, **options: Any) -> tuple[Tensor, LagrangianEngine]:
    """A linear scorer by SGD in four batches an epoch, steps falling to zero; (scores, engine)."""
    torch.manual_seed(seed)
    engine = LagrangianEngine(labels, primal_step=Linear(0.1, EPOCHS), **options)
    loss_fn = aimfor.MetricLoss(aimfor.FBeta(1.0), engine, validate=False).double()
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0 - epoch / EPOCHS)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(labels)).tensor_split(STEPS):
            optimizer.zero_grad()
            loss_fn(x[index] @ weights, labels[index], index=index).backward()
            optimizer.step()
        loss_fn.end_epoch()
        falling.step()
    return (x @ weights).detach(), engine


def measure(seed: int, **options: Any) -> dict[str, float]:
    x, labels = linear_problem(seed)
    best = linear_optimum(x, labels)
    scores, engine = train(x, labels, seed, **options)
    duals, last = engine.duals[0], engine.history.last()
    return {
        "objective": abs(last["value"] / best.value - 1.0),
        "certified": float(bound_from_scores(scores, labels).value) / best.value - 1.0,
        "mu": abs(-last["mu"] / best.value - 1.0),
        "sum_tau": abs(float(duals.tau.detach().mean()) - 1.0),
        "lambda_min": float(duals.lam.min()),
        "projections": last["projections"],
    }


SETTINGS: dict[str, dict[str, Any]] = {
    "once per epoch (mode ravi)": {"mode": "ravi"},
    "every step (mode ravi-full)": {"mode": "ravi-full"},
    "venkatesh": {"mode": "venkatesh"},
    "papers: plain Lagrangian, dual step 0.5/e": {"mode": "ravi", "penalty": 0.0, "dual_step": Decay(0.5)},
}


def convergence(problems: int = 20) -> None:
    rows = []
    for name, options in SETTINGS.items():
        runs = [measure(seed, **options) for seed in range(problems)]
        rows.append(
            {
                "projection": name,
                "problems": problems,
                "objective off, worst": f"{max(run['objective'] for run in runs):.2%}",
                "objective off, median": f"{statistics.median(run['objective'] for run in runs):.2%}",
                "certified value above optimum, worst": f"{max(run['certified'] for run in runs):.2%}",
                "certified, median": f"{statistics.median(run['certified'] for run in runs):.2%}",
                "-mu off, worst": f"{max(run['mu'] for run in runs):.2%}",
                "|sum tau - 1|, worst": f"{max(run['sum_tau'] for run in runs):.2%}",
                "smallest lambda": f"{min(run['lambda_min'] for run in runs):.3g}",
                "projections per run": f"{statistics.median(run['projections'] for run in runs):.0f}",
            }
        )
        record(
            "lagrangian_convergence",
            "Lagrangian engine: distance from the optimum of Ravi's problem (2) as HiGHS solves it, linear models",
            "python benchmarks/bench_lagrangian.py convergence",
            rows,
        )


def cost() -> None:
    rows = []
    for n in (10_000, 1_000_000):
        torch.manual_seed(0)
        tau, epsilon = torch.randn(n), torch.tensor(0.0)
        times = median_seconds(
            {
                "sort": lambda tau=tau: torch.sort(tau),
                "plain": lambda tau=tau, epsilon=epsilon: project_cap(epsilon, tau),
                "engine": lambda tau=tau, epsilon=epsilon, n=n: project_cap(epsilon, tau, weight=n),
                "active": lambda tau=tau, n=n: project_cap(torch.tensor(-3.0), tau, weight=n),
            },
            repeats=7,
            warmup=1,
        )
        rows += [
            {"what": f"project_cap, {name}, n = {n:,}", "ms": f"{1e3 * times[key]:.3g}",
             "beside": "torch.sort", "ratio": f"{times[key] / times['sort']:.2f}"}
            for name, key in (("weight 1", "plain"), ("weight n", "engine"), ("weight n, almost all above", "active"))
        ]  # fmt: skip
    for name, hidden in (("4096-11 (single layer)", 0), ("4096-500-11", 500)):
        rows.append(regularizer(name, hidden, 100))
    record(
        "lagrangian_cost",
        "Lagrangian engine: cost of a projection, and of the regularizer in an epoch of S-MNIST",
        "python benchmarks/bench_lagrangian.py cost",
        rows,
    )


def regularizer(name: str, hidden: int, batch: int) -> dict[str, Any]:
    """An epoch of S-MNIST's shape (64 × 64 pixels) on 1,000 rows of a data set of 120,000, with and without."""
    rows, size = 1000, 120_000
    images, digits = torch.rand(rows, 4096), torch.randint(10, (rows,))
    labels = torch.rand(size) < 0.5

    def epoch(regularized: bool) -> Callable[[], None]:
        layers = [torch.nn.Linear(4096, hidden), torch.nn.ReLU()] if hidden else []
        model = torch.nn.Sequential(*layers, torch.nn.Linear(hidden or 4096, 11))
        metric = aimfor.MetricLoss(aimfor.FBeta(1.0), LagrangianEngine(labels))
        objective = aimfor.Regularized(torch.nn.CrossEntropyLoss(), metric, 1e-3)
        erm = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def run() -> None:
            for index in torch.arange(rows).split(batch):
                optimizer.zero_grad()
                out = model(images[index])
                if regularized:
                    loss = objective(out[:, :10], digits[index], out[:, 10], labels[index], index=index)
                else:
                    loss = erm(out[:, :10], digits[index])
                loss.backward()
                optimizer.step()

        return run

    times = median_seconds({"with": epoch(True), "without": epoch(False)}, repeats=7, warmup=1)
    return {
        "what": f"epoch with the regularizer, {name}, batch {batch}",
        "ms": f"{1e3 * times['with']:.3g}",
        "beside": "the same without",
        "ratio": f"{times['with'] / times['without']:.2f}",
    }


if __name__ == "__main__":
    if sys.argv[1:] not in (["convergence"], ["cost"]):
        raise SystemExit(__doc__)
    {"convergence": convergence, "cost": cost}[sys.argv[1]]()
