"""Meng's Theorem 2: the paper's scheme by its step λ, gradient descent beside it, and c perturbed for one optimum.

python paper/benchmarks/bench_lp_steps.py steps     programs solved by λ, and how the gradient falls (docs/lp_steps.svg)
python paper/benchmarks/bench_lp_steps.py unique    programs with many optima, before and after c is perturbed
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from common import record
from torch import Tensor

from aimfor.lp import plain_scheme, solve

SIZES = ((60, 10), (200, 20), (500, 20))
STEPS = (1.0, 0.5, 0.1, 0.05, 0.02)
PROGRAMS, EPSILON, RIDGE, TOLERANCE = 20, 1e-2, 1e-3, 1e-6
#: Iterations at which the gradient is looked at.
LOOKS = (1, 2, 5, 10, 20, 50, 100, 200, 400, 800, 1600, 3200)
DESCENT = 5_000
#: Size of the noise on c, relative to its largest entry.
NOISES = (0.0, 1e-6, 1e-4, 1e-2, 1e-1)
COMMAND = "python paper/benchmarks/bench_lp_steps.py"


def program(rows: int, variables: int, seed: int, held: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Feasible, with a dual of ``held`` positive entries: with as many as variables one optimum, with fewer a face."""
    draw = torch.Generator().manual_seed(seed)
    A = torch.randn(rows, variables, generator=draw, dtype=torch.float64)
    inside = torch.randn(variables, generator=draw, dtype=torch.float64)
    slack = torch.rand(rows, generator=draw, dtype=torch.float64)
    held = variables if held is None else held
    slack[:held] = 0.0
    dual = torch.zeros(rows, dtype=torch.float64)
    dual[:held] = torch.rand(held, generator=draw, dtype=torch.float64) + 0.5
    return -A.T @ dual, A, A @ inside + slack


def programs(size: tuple[int, int], held: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Twenty of them as one batch."""
    drawn = [program(*size, seed, held) for seed in range(PROGRAMS)]
    c, A, b = (torch.stack(parts) for parts in zip(*drawn, strict=True))
    return c, A, b


def newton(batch: tuple[Tensor, Tensor, Tensor], step: float, iterations: int) -> Tensor:
    """‖∇g‖/ε of each program after so many of the paper's steps."""
    return plain_scheme(*batch, epsilon=EPSILON, ridge=RIDGE, step=step, iterations=iterations).gradient_norm


def descent(batch: tuple[Tensor, Tensor, Tensor], looks: tuple[int, ...]) -> list[Tensor]:
    """‖∇g‖/ε after so many steps of gradient descent on the same penalty, at 1/L."""
    c, A, b = batch
    y, rate = torch.zeros_like(c), 1.0 / torch.linalg.matrix_norm(A, 2).square()[:, None]
    found = []
    for step in range(1, max(looks) + 1):
        over = ((A @ y[:, :, None])[:, :, 0] - b).clamp_min(0.0)
        y = y - rate * ((A.mT @ over[:, :, None])[:, :, 0] + EPSILON * c)
        if step in looks:
            over = ((A @ y[:, :, None])[:, :, 0] - b).clamp_min(0.0)
            found.append(((A.mT @ over[:, :, None])[:, :, 0] + EPSILON * c).abs().amax(1) / EPSILON)
    return found


def steps() -> None:
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        batch = programs(size)
        row: dict[str, Any] = {"rows × variables": f"{size[0]} × {size[1]}", "programs": PROGRAMS}
        for step in STEPS:
            iterations = int(40 / step) + 40
            ends = newton(batch, step, iterations)
            row[f"λ = {step:g} ({iterations} steps)"] = int((ends < TOLERANCE).sum())
        (slow,) = descent(batch, (DESCENT,))
        row[f"gradient descent, {DESCENT:,} steps"] = int((slow < TOLERANCE).sum())
        row["its gradient norm, median"] = f"{float(slow.median()):.1e}"
        rows.append(row)
    record("lp_steps", "Meng's scheme by its step: programs solved", f"{COMMAND} steps", rows)
    curves()


def curves() -> None:
    """The median over the programs of the middle size."""
    batch = programs(SIZES[1])
    by_step = {f"λ = {step:g}": [float(newton(batch, step, at).median()) for at in LOOKS] for step in STEPS}
    by_step["gradient descent"] = [float(one.median()) for one in descent(batch, LOOKS)]
    rows = [
        {"steps": at, **{name: f"{values[place]:.1e}" for name, values in by_step.items()}}
        for place, at in enumerate(LOOKS)
    ]
    size = f"{SIZES[1][0]} × {SIZES[1][1]}"
    title = f"Meng's Theorem 2: ‖∇g‖/ε by the number of steps, median of {PROGRAMS} programs of {size}"
    record("lp_steps_curves", title, f"{COMMAND} steps", rows)


def unique() -> None:
    """A dual with fewer positive entries than variables: the optimum is a face, as where the paper perturbs c."""
    rows = []
    for size in SIZES[:2]:
        c, A, b = programs(size, size[1] // 2)
        exact = solve(c, A, b, lower=-20.0, upper=20.0)
        for noise in NOISES:
            draw = torch.Generator().manual_seed(1)
            shaken = c + noise * c.abs().amax(1, keepdim=True) * torch.randn(c.shape, generator=draw).to(c)
            found = solve(shaken, A, b, lower=-20.0, upper=20.0)
            loss = ((c * found.x).sum(1) - exact.value).abs() / exact.value.abs().clamp_min(1.0)
            ends = newton((shaken, A, b), STEPS[3], 840)
            rows.append(
                {
                    "rows × variables": f"{size[0]} × {size[1]}",
                    "noise on c": f"{noise:g}",
                    "unique": f"{int(found.unique.sum())} of {PROGRAMS}",
                    "its own value lost, largest": f"{float(loss.max()):.0e}",
                    "plain scheme, λ = 0.05, converged": f"{int((ends < TOLERANCE).sum())} of {PROGRAMS}",
                }
            )
    record("lp_unique", "Programs with a face of optima, c perturbed (Meng, Theorem 2)", f"{COMMAND} unique", rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    commands = {"steps": steps, "unique": unique}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]]()
