"""Meng's Fig. 3c on the AUC program: fewer pairs, or fewer directions by sliced inverse regression.

A batch of 80 rows, half of them positive, is a program over w and 1,600 pairs; its w is judged by the whole batch's
objective and by AUROC on all other rows. Pairs are drawn at random, their costs scaled up (the fair way to leave rows
out: dropping rows of the matrix alone, as `bench_lp_large.py` does on random programs, also loses their costs).
Directions come from the batch itself: by its two labels there is one; digits have ten slices, and a test says how many.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from common import record
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

from aimfor import AUROC
from aimfor.lp import PairRows, solve
from paper.rivals.inverse_regression import dimension, inverse_regression

HALF, BATCHES, LIMIT = 40, 10, 10.0
SHARES = (0.5, 0.25, 0.1)
#: Features of the Gaussians, and components of the digits: eight do not separate a batch.
WIDTH, COMPONENTS = 20, 8
#: Features, labels, slices.
Data = tuple[Tensor, Tensor, Tensor]


def gaussians() -> Data:
    """Two clouds of one covariance, where one direction is sufficient."""
    draw = torch.Generator().manual_seed(0)
    y = torch.rand(4000, generator=draw) < 0.5
    shift = 1.5 * torch.nn.functional.normalize(torch.randn(WIDTH, generator=draw, dtype=torch.float64), dim=0)
    x = torch.randn(len(y), WIDTH, generator=draw, dtype=torch.float64) + y[:, None] * shift
    return x @ torch.randn(WIDTH, WIDTH, generator=draw, dtype=torch.float64) / WIDTH**0.5, y, y.long()


def tumours() -> Data:
    """Five features that do not separate a batch: texture, smoothness, compactness, symmetry, fractal dimension."""
    raw = load_breast_cancer()
    return (
        torch.from_numpy(raw.data)[:, [1, 4, 5, 8, 9]],
        torch.from_numpy(raw.target) == 1,
        torch.from_numpy(raw.target),
    )


def digits() -> Data:
    """0 to 4 against 5 to 9, on the first principal components; slices are the ten digits."""
    raw = load_digits()
    x, y = torch.from_numpy(raw.data), torch.from_numpy(raw.target)
    centred = x - x.mean(0)
    return centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:COMPONENTS].T, y < 5, y


DATA: dict[str, Callable[[], Data]] = {"two Gaussians": gaussians, "breast cancer": tumours, "digits": digits}


def best(high: Tensor, low: Tensor, share: float, draw: torch.Generator) -> tuple[Tensor, float]:
    """w of the program over all pairs, or over a share of them drawn at random, and its value."""
    p, q, d = len(high), len(low), high.shape[1]
    box = torch.full((d,), LIMIT, dtype=torch.float64)
    if share == 1.0:
        rows, count = PairRows(torch.cat((high, low)), p), p * q
    else:
        picked = torch.randperm(p * q, generator=draw)[: round(share * p * q)]
        gaps, count = low[picked % q] - high[picked // q], len(picked)
        columns = torch.cat((torch.arange(d).expand(count, d), d + torch.arange(count)[:, None]), 1)
        values = torch.cat((gaps, -torch.ones(count, 1, dtype=torch.float64)), 1)
        ends = torch.arange(0, count * (d + 1) + 1, d + 1)
        rows = torch.sparse_csr_tensor(ends, columns.reshape(-1), values.reshape(-1), (count, d + count))
    cost = torch.cat((torch.zeros(d), torch.full((count,), 1.0 / count))).double()
    lower = torch.cat((-box, torch.zeros(count).double()))
    upper = torch.cat((box, torch.full((count,), torch.inf).double()))
    found = solve(cost, rows, -torch.ones(count).double(), lower=lower, upper=upper)
    return found.x[:d], float(found.value)


def objective(high: Tensor, low: Tensor, w: Tensor) -> float:
    return float((1.0 - (high @ w)[:, None] + (low @ w)[None, :]).clamp_min(0.0).mean())


#: Name of a program, its size (pairs, or directions), its w and its value.
Solved = tuple[str, int, Tensor, float]


def drawn(data: Data, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of a batch, positives first; all features by its own mean and deviation; the other rows."""
    x, y, _ = data
    sides = [(y == side).nonzero()[:, 0] for side in (True, False)]
    rows = torch.cat([side[torch.randperm(len(side), generator=draw)[:HALF]] for side in sides])
    others = torch.ones(len(y), dtype=torch.bool)
    others[rows] = False
    return rows, (x - x[rows].mean(0)) / x[rows].std(0), others


def ways(batch: Tensor, slices: dict[str, Tensor], draw: torch.Generator) -> list[Solved]:
    high, low = batch[:HALF], batch[HALF:]
    found: list[Solved] = []
    for share in (1.0, *SHARES):
        w, value = best(high, low, share, draw)
        found.append((f"{share:.0%} of the pairs", round(share * HALF * HALF), w, value))
    for name, cut in slices.items():
        values, axes = inverse_regression(batch, cut)
        kept = axes[:, : dimension(values, len(batch), len(cut.unique()))]
        v, value = best(high @ kept, low @ kept, 1.0, draw)
        found.append((f"all pairs, directions by {name}", kept.shape[1], kept @ v, value))
    return found


def measured(data: Data) -> dict[str, list[tuple[float, ...]]]:
    """By way and batch: size, error of the value, excess of the objective, and points of AUROC against all pairs."""
    _, y, classes = data
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(BATCHES):
        draw = torch.Generator().manual_seed(seed)
        rows, x, others = drawn(data, draw)
        slices = {"labels": y[rows].long()} | ({"classes": classes[rows]} if int(classes.max()) > 1 else {})
        solved = ways(x[rows], slices, draw)
        high, low = x[rows].split(HALF)
        areas = [100 * float(AUROC().value(x[others] @ w, y[others])) for _, _, w, _ in solved]
        value = solved[0][3]
        for (way, size, w, own), area in zip(solved, areas, strict=True):
            row = size, abs(own / value - 1), objective(high, low, w) / value - 1, area - areas[0]
            found.setdefault(way, []).append(row)
    return found


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, make in DATA.items():
        for way, found in measured(make()).items():
            size, error, excess, points = zip(*found, strict=True)
            rows.append(
                {
                    "data": name,
                    "program": way,
                    "pairs, or directions": f"{statistics.median(size):g}",
                    "error of the value": f"{statistics.median(error):.1%}",
                    "objective above the optimum": f"{statistics.median(excess):.1%}",
                    "AUROC of other rows, points": f"{statistics.fmean(points):+.2f}",
                }
            )
    title = f"The AUC program reduced (Meng, Fig. 3c): median of {BATCHES} batches, points as means"
    record("lp_sdr", title, "python paper/benchmarks/bench_lp_sdr.py", rows)


if __name__ == "__main__":
    main()
