"""What the lagrangian engine costs: a projection beside torch.sort, the regularizer beside an epoch of S-MNIST.

python paper/benchmarks/bench_lagrangian_cost.py projection
python paper/benchmarks/bench_lagrangian_cost.py batches   Ravi §7.3: of every batch, or of the whole set once an epoch
python paper/benchmarks/bench_lagrangian_cost.py epoch
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from common import median_seconds, record
from torch import Tensor

import aimfor
from aimfor.lagrangian import LagrangianEngine, project_cap
from paper.experiments.ravi import s_mnist


def projection() -> None:
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
        "python paper/benchmarks/bench_lagrangian_cost.py projection",
        rows,
    )


def batches() -> None:
    """An epoch's projections of batches of B = log n and √n (one is timed, there are n/B), beside one of all n."""
    rows = []
    for n in (10_000, 100_000, 1_000_000):
        torch.manual_seed(0)
        tau, epsilon = torch.randn(n), torch.tensor(0.0)
        sizes = {"log n": round(math.log(n)), "√n": round(math.sqrt(n))}
        parts = {name: tau[:size].clone() for name, size in sizes.items()} | {"all": tau}
        times = median_seconds(
            {name: lambda part=part, epsilon=epsilon: project_cap(epsilon, part) for name, part in parts.items()},
            repeats=9,
            warmup=2,
        )
        for name, size in sizes.items():
            every = times[name] * n / size
            rows.append(
                {
                    "n": f"{n:,}",
                    "B": f"{name} = {size}",
                    "every batch, ms an epoch": f"{1e3 * every:.3g}",
                    "once an epoch, ms": f"{1e3 * times['all']:.3g}",
                    "ratio": f"{every / times['all']:.2g}",
                    "ratio of comparisons, n log B / n log n": f"{math.log(size) / math.log(n):.2f}",
                }
            )
    record(
        "lagrangian_batches",
        "Lagrangian engine: an epoch's projections, of every batch or once of all (Ravi, §7.3)",
        "python paper/benchmarks/bench_lagrangian_cost.py batches",
        rows,
    )


# ---------------------------------------------------------------- the regularizer in an epoch of S-MNIST

#: (what, pixels, hidden, batch, size of the data set); 600 steps an epoch is what Venkatesh §3.1 says.
SHAPES = (
    ("as `python -m paper s_mnist`: 784-11", 784, 0, 100, 6_000),
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
            "python paper/benchmarks/bench_lagrangian_cost.py epoch",
            rows,
        )


if __name__ == "__main__":
    commands = {"projection": projection, "batches": batches, "epoch": epoch}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]]()
