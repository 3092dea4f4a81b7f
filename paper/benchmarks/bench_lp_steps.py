"""Meng's Theorem 2: the paper's scheme by its step λ, and gradient descent beside Newton, on random programs."""

from __future__ import annotations

import torch
from common import record

from aimfor.lp import plain_scheme

SIZES = ((60, 10), (200, 20), (500, 20))
STEPS = (1.0, 0.5, 0.1, 0.05, 0.02)
PROGRAMS, EPSILON, RIDGE, TOLERANCE = 20, 1e-2, 1e-3, 1e-6


def program(rows: int, variables: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Feasible, bounded, with a dual of as many positive entries as variables: one optimum, surely."""
    draw = torch.Generator().manual_seed(seed)
    A = torch.randn(rows, variables, generator=draw, dtype=torch.float64)
    inside = torch.randn(variables, generator=draw, dtype=torch.float64)
    slack = torch.rand(rows, generator=draw, dtype=torch.float64)
    slack[:variables] = 0.0
    dual = torch.zeros(rows, dtype=torch.float64)
    dual[:variables] = torch.rand(variables, generator=draw, dtype=torch.float64) + 0.5
    return -A.T @ dual, A, A @ inside + slack


def descent(c: torch.Tensor, A: torch.Tensor, b: torch.Tensor, iterations: int) -> float:
    """‖∇g‖/ε after so many steps of gradient descent on the same penalty, at 1/L."""
    y, rate = torch.zeros_like(c), 1.0 / float(torch.linalg.matrix_norm(A, 2)) ** 2
    for _ in range(iterations):
        slope = A.T @ (A @ y - b).clamp_min(0.0) + EPSILON * c
        y = y - rate * slope
    return float(slope.abs().max()) / EPSILON


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for size in SIZES:
        programs = [program(*size, seed) for seed in range(PROGRAMS)]
        row: dict[str, object] = {"rows × variables": f"{size[0]} × {size[1]}", "programs": PROGRAMS}
        for step in STEPS:
            iterations = int(40 / step) + 40
            ends = [
                float(plain_scheme(*one, epsilon=EPSILON, ridge=RIDGE, step=step, iterations=iterations).gradient_norm)
                for one in programs
            ]
            row[f"λ = {step:g} ({iterations} steps)"] = sum(end < TOLERANCE for end in ends)
        slow = sorted(descent(*one, 5_000) for one in programs)
        row["gradient descent, 5,000 steps"] = sum(end < TOLERANCE for end in slow)
        row["its gradient norm, median"] = f"{slow[PROGRAMS // 2]:.1e}"
        rows.append(row)
    record("lp_steps", "Meng's scheme by its step: programs solved", "python paper/benchmarks/bench_lp_steps.py", rows)


if __name__ == "__main__":
    main()
