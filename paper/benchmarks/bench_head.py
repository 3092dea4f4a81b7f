"""HeadFitter at n = 100,000 × 512 features: seconds for the whole choice, and per solved problem."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from common import record
from sklearn.linear_model import LogisticRegression

import aimfor


def data(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated features as a trained network gives them, and labels with noise, about 10 % positive."""
    torch.manual_seed(0)
    x = torch.randn(n, d) @ torch.randn(d, d).div(d**0.5)
    noisy = x @ torch.randn(d).div(d**0.5) + torch.randn(n)
    return x, (noisy > noisy.quantile(0.9)).long()


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and CPU seconds."""
    began = time.process_time()
    return function(), time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for n, d, metrics in ((10_000, 512, ("auroc", "f1")), (100_000, 512, ("auroc",))):
        x, y = data(n + 20_000, d)
        train, judge = (x[:n], y[:n]), (x[n:], y[n:])
        rival = LogisticRegression(C=1 / (1e-3 * n), tol=1e-5, max_iter=1000)
        _, peer = timed(lambda rival=rival, train=train: rival.fit(train[0].numpy(), train[1].numpy()))
        for metric in metrics:
            fitter = aimfor.HeadFitter(metric)
            fit, seconds = timed(lambda f=fitter, train=train, judge=judge: f.fit(*train, validation=judge))
            convex = [c for c in fit.record.candidates if c.convex]
            pairs = max(c.gradient for c in convex if c.objective == "all pairs")
            rows.append(
                {
                    "metric": metric,
                    "n": n,
                    "features": d,
                    "problems solved": len(fit.record.candidates),
                    "seconds": round(seconds, 1),
                    "seconds per problem": round(seconds / len(fit.record.candidates), 2),
                    "evaluations per convex problem (median)": statistics.median(c.evaluations for c in convex),
                    "largest gradient, all pairs": f"{pairs:.0e}",
                    "scikit-learn logistic regression, one problem (s)": round(peer, 1),
                    "peak MB of the process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                }
            )
    record("head", "HeadFitter: the last layer refitted on all data", "python paper/benchmarks/bench_head.py", rows)


if __name__ == "__main__":
    main()
