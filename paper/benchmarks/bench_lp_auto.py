"""Where a warm simplex is quicker than the interior point: the measurement behind ``method="auto"``.

Shared rows, ``0 <= x <= 1``, new random costs in every call. CPU-seconds of one thread, medians of five, turn by turn.
"""

from __future__ import annotations

import statistics
import time

import torch
from common import record

from aimfor.lp import Highs, solve
from aimfor.lp.solvers.chain import PAYS

SHAPES = ((2, 32), (5, 20), (25, 40), (20, 100), (5, 500), (100, 200), (50, 20), (200, 50))


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for m, v in SHAPES:
        for batch in (1, 8, 32):
            g = torch.Generator().manual_seed(m + v)
            A = torch.randn(m, v, generator=g, dtype=torch.float64)
            b = torch.rand(v, generator=g, dtype=torch.float64) @ A.mT + 0.1
            methods, times = {"interior": None, "simplex": Highs()}, {"interior": [], "simplex": []}
            for _ in range(6):
                c = torch.randn(batch, v, generator=g, dtype=torch.float64)
                for name, method in methods.items():
                    start = time.process_time()
                    solve(c, A, b, lower=0.0, upper=1.0, method=method)
                    times[name].append(time.process_time() - start)
            seconds = {name: statistics.median(spans[1:]) for name, spans in times.items()}
            size = batch * min(m, v) * (m + v)
            rows.append(
                {
                    "rows × variables": f"{m} × {v}",
                    "batch": batch,
                    "batch · shorter side · both sides": size,
                    "interior point, ms": f"{1e3 * seconds['interior']:.1f}",
                    "warm simplex, ms": f"{1e3 * seconds['simplex']:.1f}",
                    "simplex / interior": f"{seconds['simplex'] / seconds['interior']:.2f}",
                    "auto takes": "Highs" if size <= PAYS else "InteriorPoint",
                }
            )
            print(rows[-1], flush=True)
    title = 'A warm simplex (`Highs`) beside the interior point: what `method="auto"` goes by'
    record("lp_auto", title, "python paper/benchmarks/bench_lp_auto.py", rows)


if __name__ == "__main__":
    main()
