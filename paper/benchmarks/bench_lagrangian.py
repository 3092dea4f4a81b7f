"""The lagrangian engine on linear models, where HiGHS knows the optimum of Ravi's problem (2).

python paper/benchmarks/bench_lagrangian.py convergence     all modes, four batches an epoch
python paper/benchmarks/bench_lagrangian.py projections     once per epoch against every step, fifty batches an epoch
python paper/benchmarks/bench_lagrangian.py schedules       numbers of inner loops (Venkatesh §3.1)
python paper/benchmarks/bench_lagrangian.py plain           the papers' plain Lagrangian over a grid of dual steps
python paper/benchmarks/bench_lagrangian.py rate            Theorem 6: how the distance falls with the number of epochs

Settings were fixed on problems 100 to 102; what is recorded is measured on problems 200 to 219.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from common import record
from torch import Tensor

import aimfor
from aimfor.lagrangian import (
    LagrangianEngine,
    LinearDecay,
    PowerDecay,
    bound_from_scores,
)
from paper.experiments.ravi.linear_optimum import LinearOptimum, linear_optimum
from paper.report.statistics import paired

EPOCHS, STEPS = 300, 4
#: Problems that no setting was chosen on.
FRESH = range(200, 220)
#: Others, for runs to convergence: five times the epochs were settled on two slow problems among the first.
LONG, LONGER = range(300, 320), 5 * EPOCHS
#: Problems for choosing.
CHOOSING = range(100, 103)


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


@cache
def solved(seed: int) -> LinearOptimum:
    return linear_optimum(*linear_problem(seed))


def train(
    x: Tensor, labels: Tensor, seed: int, epochs: int = EPOCHS, steps: int = STEPS, adam: float = 0.0, **options: Any
) -> tuple[Tensor, LagrangianEngine]:
    """A linear scorer in ``steps`` batches an epoch, steps falling to zero; (scores, engine).

    SGD at 0.4 an epoch for the scorer and the engine's own steps for τ and ε; or, with ``adam``, Adam at that rate for
    all of them, as Ravi says.
    """
    torch.manual_seed(seed)
    engine = LagrangianEngine(
        labels, primal_step=LinearDecay(0.1, epochs), primal="optimizer" if adam else "own", **options
    )
    loss_fn = aimfor.MetricLoss(aimfor.FBeta(1.0), engine, validate=False).double()
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([weights, *engine.parameters()], lr=adam) if adam else None
    for epoch in range(epochs):
        falling = 1.0 - epoch / epochs
        for index in torch.randperm(len(labels)).tensor_split(steps):
            loss = loss_fn(x[index] @ weights, labels[index], index=index)
            if optimizer is None:  # plain SGD, written out: most of the time is spent in small steps
                (gradient,) = torch.autograd.grad(loss, weights)
                weights.detach().sub_(gradient, alpha=0.1 * STEPS / steps * falling)
                continue
            optimizer.param_groups[0]["lr"] = adam * falling
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss_fn.end_epoch()
    return (x @ weights).detach(), engine


def measure(seed: int, **options: Any) -> dict[str, float]:
    x, labels = linear_problem(seed)
    best = solved(seed)
    scores, engine = train(x, labels, seed, **options)
    duals, history = engine.duals[0], engine.history
    last, late = history.last(), history["sum_tau"][-100:]
    return {
        "objective": abs(last["value"] / best.value - 1.0),
        "certified": float(bound_from_scores(scores, labels).value) / best.value - 1.0,
        "mu": abs(-last["mu"] / best.value - 1.0),
        "sum_tau": abs(float(duals.tau.detach().mean()) - 1.0),
        "swing": max(late) - min(late),
        "lambda_min": float(duals.lam.min()),
        "projections": last["projections"],
    }


def summary(runs: list[dict[str, float]]) -> dict[str, Any]:
    def both(key: str) -> tuple[str, str]:
        return f"{max(run[key] for run in runs):.2%}", f"{statistics.median(run[key] for run in runs):.2%}"

    objective, certified, tau = both("objective"), both("certified"), both("sum_tau")
    return {
        "problems": len(runs),
        "objective off, worst": objective[0],
        "objective off, median": objective[1],
        "certified value above optimum, worst": certified[0],
        "certified, median": certified[1],
        "-mu off, worst": both("mu")[0],
        "|sum tau - 1|, worst": tau[0],
        "smallest lambda": f"{min(run['lambda_min'] for run in runs):.3g}",
        "projections per run": f"{statistics.median(run['projections'] for run in runs):.0f}",
    }


def over(problems: Iterable[int], **options: Any) -> list[dict[str, float]]:
    return [measure(seed, **options) for seed in problems]


SETTINGS: dict[str, dict[str, Any]] = {
    "once per epoch (mode ravi)": {"mode": "ravi"},
    "every step (mode ravi-full)": {"mode": "ravi-full"},
    "none, a multiplier for the cap (mode venkatesh)": {"mode": "venkatesh"},
}


def convergence() -> None:
    rows = []
    for problems, epochs in ((FRESH, EPOCHS), (LONG, LONGER)):
        for name, options in SETTINGS.items():
            rows.append({"projection": name, "epochs": epochs, **summary(over(problems, epochs=epochs, **options))})
            record(
                "lagrangian_convergence",
                "Lagrangian engine: distance from the optimum of Ravi's problem (2) as HiGHS solves it, linear models",
                "python paper/benchmarks/bench_lagrangian.py convergence",
                rows,
            )


def projections() -> None:
    """The papers' Figure 3, columns 2 and 4: fifty batches an epoch, hence 51 times fewer projections."""
    names = list(SETTINGS)[:2]
    found = {name: over(FRESH, steps=50, epochs=80, **SETTINGS[name]) for name in names}
    once, every = ([run["certified"] for run in found[name]] for name in names)
    gap = paired(once, every)
    rows = [
        {
            "projection": name,
            "batches an epoch": 50,
            "epochs": 80,
            **summary(found[name]),
            "certified value, once minus every step": str(gap) if name == names[0] else "",
        }
        for name in names
    ]
    record(
        "lagrangian_projections",
        "Lagrangian engine: one projection an epoch against one a step, 51 times as many, on linear problems",
        "python paper/benchmarks/bench_lagrangian.py projections",
        rows,
    )


#: Calls of end_epoch() for each dual step, as a function of its number; all have the same 300 epochs.
SCHEDULES: dict[str, tuple[str, Callable[[int], int]]] = {
    "1 always": ("constant", lambda number: 1),
    "2 always": ("constant", lambda number: 2),
    "5 always": ("constant", lambda number: 5),
    "10 always": ("constant", lambda number: 10),
    "1, 1, …, 2, 2, …: one more every 50": ("growing", lambda number: 1 + (number - 1) // 50),
    "1, 1, …, 2, 2, …: one more every 10": ("growing", lambda number: 1 + (number - 1) // 10),
    "1, 2, 3, …": ("growing", lambda number: number),
    "1, 2, 4, …, 32": ("growing", lambda number: int(2 ** min(number - 1, 5))),
}


def schedules() -> None:
    found = {name: over(FRESH, mode="venkatesh", inner=inner) for name, (_, inner) in SCHEDULES.items()}
    base = [run["certified"] for run in found["1 always"]]
    rows = []
    for name, runs in found.items():
        ours = [run["certified"] for run in runs]
        gap = paired(ours, base)
        rows.append(
            {
                "inner loops": name,
                "kind": SCHEDULES[name][0],
                "problems": len(runs),
                "certified value above optimum, mean": f"{statistics.mean(ours):.3%}",
                "median": f"{statistics.median(ours):.3%}",
                "worst": f"{max(ours):.3%}",
                "|sum tau - 1|, worst": f"{max(run['sum_tau'] for run in runs):.2%}",
                'minus "1 always", share of the optimum': str(gap),
                "lower end": f"{gap.low:+.5f}",
            }
        )
    record(
        "lagrangian_schedules",
        "Lagrangian engine, mode venkatesh: schedules of the number of inner loops, 300 epochs each, linear problems",
        "python paper/benchmarks/bench_lagrangian.py schedules",
        rows,
    )


GRID = (0.03, 0.3, 1.0, 3.0)


def plain() -> None:
    """penalty = 0, the papers' formula: for each way to step, the c that is best on CHOOSING, measured on FRESH."""
    ways: dict[str, dict[str, Any]] = {"SGD": {}, "Adam 0.01 on all (Ravi)": {"adam": 0.01}}
    dual: dict[str, Callable[[float], Any]] = {"c/e": PowerDecay, "c": lambda c: c}
    rows = [
        {"steps": "SGD", "dual step": "3, with penalty 3 (ours)", "best c": "", **_ends(over(FRESH[:10], mode="ravi"))}
    ]
    for way, options in ways.items():
        for shape, step in dual.items():
            tried = {c: over(CHOOSING, mode="ravi", penalty=0.0, dual_step=step(c), **options) for c in GRID}
            middle = {c: statistics.median(run["certified"] for run in runs) for c, runs in tried.items()}
            best = min(middle, key=lambda c: middle[c])
            runs = over(FRESH[:10], mode="ravi", penalty=0.0, dual_step=step(best), **options)
            rows.append({"steps": way, "dual step": shape, "best c": f"{best:g}", **_ends(runs)})
            record(
                "lagrangian_plain",
                "The papers' plain Lagrangian (penalty 0) on linear problems: the best dual step c of "
                + ", ".join(f"{c:g}" for c in GRID),
                "python paper/benchmarks/bench_lagrangian.py plain",
                rows,
            )


#: Each twice the last; the theorem promises a distance that falls like a power −1/2.
LENGTHS = (25, 50, 100, 200, 400, 800)


def rate() -> None:
    """Distance of the certified value from the optimum after T epochs, and its power of T, per problem."""
    ways: dict[str, dict[str, Any]] = {
        "augmented, penalty 3 (ours)": {},
        "plain, dual step 0.3 (the best constant one of `plain`)": {"penalty": 0.0, "dual_step": 0.3},
    }
    rows = []
    for way, options in ways.items():
        by_length = [[max(run["certified"], 1e-12) for run in over(FRESH, epochs=t, **options)] for t in LENGTHS]
        # A scorer with all scores on one side has no certificate: its distance is infinite, and so is no power of T.
        whole = [gaps for gaps in zip(*by_length, strict=True) if all(map(math.isfinite, gaps))]
        powers = sorted(
            statistics.linear_regression([math.log(t) for t in LENGTHS], [math.log(gap) for gap in gaps]).slope
            for gaps in whole
        )
        medians = {f"T = {t}": f"{statistics.median(gaps):.2%}" for t, gaps in zip(LENGTHS, by_length, strict=True)}
        middle = (
            f"{statistics.median(powers):+.2f} ({powers[len(powers) // 4]:+.2f} to {powers[-len(powers) // 4]:+.2f})"
        )
        within = f"{sum(power <= -0.5 for power in powers)} of {len(FRESH)}"
        rows.append({"Lagrangian": way, **medians, "power of T, median (quartiles)": middle, "−1/2 or less": within})
    record(
        "lagrangian_rate",
        "Theorem 6 (O(1/√T)): certified value above the optimum after T epochs, median of 20 linear problems",
        "python paper/benchmarks/bench_lagrangian.py rate",
        rows,
    )


def _ends(runs: list[dict[str, float]]) -> dict[str, str]:
    """Where runs ended, and how far Στ still moved in the last hundred epochs."""
    names = {
        "certified above optimum, median": "certified",
        "objective off, median": "objective",
        "|sum tau - 1|, median": "sum_tau",
        "swing of sum tau over the last 100 epochs, median": "swing",
    }
    found = {name: f"{statistics.median(run[key] for run in runs):.2%}" for name, key in names.items()}
    return {**found, "certified within 1 %": f"{sum(run['certified'] < 0.01 for run in runs)} of {len(runs)}"}


if __name__ == "__main__":
    commands = {
        "convergence": convergence,
        "projections": projections,
        "schedules": schedules,
        "plain": plain,
        "rate": rate,
    }
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]]()
