"""The lagrangian engine: convergence to the linear program's optimum, and what it costs.

python benchmarks/bench_lagrangian.py convergence     20 problems, both modes, and the papers' plain Lagrangian
python benchmarks/bench_lagrangian.py cost            projection beside torch.sort
python benchmarks/bench_lagrangian.py epoch           what the regularizer adds to an epoch of S-MNIST
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from common import median_seconds, record
from torch import Tensor

import aimfor
from aimfor.lagrangian import Decay, LagrangianEngine, Linear, bound_from_scores, linear_optimum, project_cap
from aimfor.reproduce import s_mnist

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
    record(
        "lagrangian_cost",
        "Lagrangian engine: cost of a projection",
        "python benchmarks/bench_lagrangian.py cost",
        rows,
    )


# ---------------------------------------------------------------- the regularizer in an epoch of S-MNIST

#: (what, pixels, hidden, batch, size of the data set); 600 steps an epoch is what Venkatesh §3.1 says.
SHAPES = (
    ("as `aimfor reproduce s_mnist`: 784-11", 784, 0, 100, 6_000),
    ("as `--full`: 3136-11", 3136, 0, 100, 120_000),
    ("64 x 64 images: 4096-11", 4096, 0, 100, 120_000),
    ("64 x 64 images, 600 steps an epoch: 4096-11", 4096, 0, 200, 120_000),
    ("hidden layer, as `--full`: 3136-500-11", 3136, 500, 100, 120_000),
)
#: Steps that are timed; an epoch's time is computed from them and one `end_epoch()`.
TIMED = 20


class _Empty(torch.autograd.Function):
    """What any regularizer with a gradient of its own in Python costs at least."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return scores.new_zeros(())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient * grad, None


def epochs(pixels: int, hidden: int, batch: int, size: int) -> dict[str, float]:
    """Seconds of an epoch without the regularizer, with it, and with the least that a regularizer can do."""
    images, digits, labels = (
        torch.rand(TIMED * batch, pixels),
        torch.randint(10, (TIMED * batch,)),
        torch.rand(size) < 0.5,
    )
    erm, gradient, tau = torch.nn.CrossEntropyLoss(), torch.randn(batch), torch.ones(size)

    def plain(out: Tensor, index: Tensor) -> Tensor:
        return erm(out[:, :10], digits[index])

    def joined(out: Tensor, index: Tensor) -> Tensor:
        return torch.add(plain(out, index), torch.dot(out[:, 10], gradient), alpha=1e-3)

    def floor(out: Tensor, index: Tensor) -> Tensor:
        tau.index_add_(0, index, tau.index_select(0, index), alpha=-1e-3)
        return torch.add(plain(out, index), _Empty.apply(out[:, 10], gradient), alpha=1e-3)

    def parts() -> tuple[torch.nn.Module, torch.optim.Optimizer, Iterator[Tensor]]:
        model = s_mnist._model("hidden" if hidden else "linear", pixels, hidden)
        return model, torch.optim.Adam(model.parameters(), lr=1e-3), batches()

    def batches() -> Iterator[Tensor]:
        while True:
            yield from torch.randperm(len(images)).split(batch)

    def by(loss_of: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], None]:
        model, optimizer, source = parts()

        def run() -> None:
            for index in itertools.islice(source, TIMED):
                loss = loss_of(model(images[index]), index)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return run

    def ours(validate: bool) -> tuple[Callable[[], None], aimfor.Regularized]:
        model, optimizer, source = parts()
        metric = aimfor.MetricLoss(aimfor.FBeta(1.0), LagrangianEngine(labels), validate=validate)
        objective, data = aimfor.Regularized(erm, metric, 1e-3), (images, digits, labels)
        return lambda: s_mnist.steps(model, objective, optimizer, itertools.islice(source, TIMED), data), objective

    (checked, objective), (trusting, _) = ours(True), ours(False)
    runs = {"without": by(plain), "with": checked, "validate=False": trusting, "joined": by(joined), "floor": by(floor)}
    times = median_seconds(runs, repeats=41, warmup=3)
    seconds = {name: time * (size / batch / TIMED) for name, time in times.items()}
    objective.metric_loss.engine.end_epoch(torch.randn(size))
    seconds["end_epoch"] = median_seconds({"end": objective.end_epoch}, repeats=9, warmup=1)["end"]
    return seconds


def epoch() -> None:
    rows = []
    for what, pixels, hidden, batch, size in SHAPES:
        found, steps = epochs(pixels, hidden, batch, size), size / batch
        base, end = found["without"], found["end_epoch"]
        rows.append(
            {
                "epoch": f"{what}, batch {batch}, {size:,} examples",
                "without, us a step": f"{1e6 * base / steps:.0f}",
                "regularizer, us a step": f"{1e6 * (found['with'] - base) / steps:.0f}",
                "end_epoch, us a step": f"{1e6 * end / steps:.0f}",
                "ratio": f"{(found['with'] + end) / base:.2f}",
                "ratio, validate=False": f"{(found['validate=False'] + end) / base:.2f}",
                "ratio, extra output in the loss, nothing else": f"{found['joined'] / base:.2f}",
                "ratio, empty Function and two index operations": f"{found['floor'] / base:.2f}",
            }
        )
        record(
            "lagrangian_epoch",
            "Lagrangian engine: what the regularizer adds to a training epoch of S-MNIST (gathering the batch, both "
            "passes, Adam, end_epoch; no evaluation)",
            "python benchmarks/bench_lagrangian.py epoch",
            rows,
        )


if __name__ == "__main__":
    commands = {"convergence": convergence, "cost": cost, "epoch": epoch}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]]()
