"""The direct engine: average precision, counts and masks against a sort, BCE and plain loops (CPU time).

Run: python paper/benchmarks/bench_direct.py [ap | negative | f1 | masks]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from common import median_seconds, peak_extra_megabytes, record
from torch import Tensor

import aimfor
from aimfor.direct import ap_interleave

COMMAND = "python paper/benchmarks/bench_direct.py"


def data(n: int, positive: float = 0.1, shift: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    targets = torch.rand(n, generator=generator) < positive
    scores = torch.randn(n, generator=generator) + shift * targets
    return scores.requires_grad_(), targets


def step(loss_fn: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor) -> Callable[[], None]:
    def run() -> None:
        scores.grad = None
        loss_fn(scores, targets).backward()

    return run


def average_precision() -> None:
    rows = []
    for n, repeats in ((65_536, 11), (1_000_000, 1)):
        scores, targets = data(n)
        loss_fn = aimfor.MetricLoss("ap", aimfor.DirectEngine(0.1, sign=+1))
        seconds = median_seconds(
            {"loss": step(loss_fn, scores, targets), "sort": lambda s=scores: torch.sort(s.detach())},
            repeats,
            1,
        )
        setup = (
            f"import aimfor; n = {n}; y = torch.rand(n) < 0.1; s = (torch.randn(n) + y).requires_grad_()\n"
            "f = aimfor.MetricLoss('ap', aimfor.DirectEngine(0.1, sign=1))\n"
            "f(s[:64], torch.arange(64) < 9).backward()"
        )
        rows.append(
            {
                "n": f"{n:,}",
                "forward + backward, ms": round(1e3 * seconds["loss"], 2),
                "torch.sort, ms": round(1e3 * seconds["sort"], 2),
                "ratio": round(seconds["loss"] / seconds["sort"], 2),
                "extra memory, MB": round(peak_extra_megabytes(setup, "f(s, y).backward()"), 1),
            }
        )
    record("direct_ap", "Direct average precision, sign +1, 10 % positives (wanted: 5 sorts, 50 MB)", COMMAND, rows)


def plain_double_loop(up: list[float], down: list[float], epsilon: float) -> None:
    """The values of Song's Figure 2, cell by cell, with running sums: the least a loop in Python can do."""
    q = len(down)
    reward = epsilon * q / 2
    before = [0.0] * (q + 1)
    for i, score in enumerate(up, 1):
        best, total, row = -1e300, 0.0, []
        for k in range(q + 1):
            if k:
                total += down[k - 1] - score
            value = before[k] + total + reward * i / (i + k)
            if value > best:
                best = value
            row.append(best)
        before = row


def negative_sign() -> None:
    scores, targets = data(10_000, shift=1.5)
    up, down = scores.detach()[targets][:1000], scores.detach()[~targets][:9000]
    up, down = up.sort(descending=True).values, down.sort(descending=True).values
    seconds = median_seconds({"ours": lambda: ap_interleave(up, down, 0.1, sign=-1)}, 21, 2)
    part = 50  # rows of the loop; its time is exactly proportional to the rows
    began = time.process_time()
    plain_double_loop(up[:part].tolist(), down.tolist(), 0.1)
    loop = (time.process_time() - began) * len(up) / part
    auc = float((up[:, None] > down).double().mean())
    row = {
        "p × q": f"{len(up):,} × {len(down):,}",
        "AUC": round(auc, 3),
        "ours, ms": round(1e3 * seconds["ours"], 1),
        "Python loop, ms": round(1e3 * loop),
        "loop / ours": round(loop / seconds["ours"], 1),
    }
    record(
        "direct_ap_negative",
        "Direct average precision, sign −1, against the same recursion in Python (wanted: 5 times faster)",
        COMMAND,
        [row],
    )


def counting() -> None:
    rows = []
    for sign in (1, -1, "both"):
        scores, targets = data(8_192)
        loss_fn = aimfor.MetricLoss("f1", aimfor.DirectEngine(sign=sign))
        seconds = median_seconds(
            {
                "loss": step(loss_fn, scores, targets),
                "bce": step(
                    lambda s, y: torch.nn.functional.binary_cross_entropy_with_logits(s, y.float()), scores, targets
                ),
            },
            25,
            3,
        )
        rows.append(
            {
                "sign": sign,
                "F1, n = 8,192, ms": round(1e3 * seconds["loss"], 2),
                "BCE, ms": round(1e3 * seconds["bce"], 3),
                "ratio": round(seconds["loss"] / seconds["bce"], 1),
            }
        )
    record("direct_f1", "Direct F1 by counts, 10 % positives (wanted: 30 times BCE)", COMMAND, rows)


def masks() -> None:
    rows = []
    generator = torch.Generator().manual_seed(0)
    y, x = torch.meshgrid(torch.arange(480), torch.arange(640), indexing="ij")
    target = ((y - 240.0) ** 2 + (x - 300.0) ** 2 < 110**2)[None]
    scores = torch.randn((1, 480, 640), generator=generator) + 2.0 * target - 1.0
    for sign in (1, -1, "both"):
        free = scores.clone().requires_grad_()
        loss_fn = aimfor.MetricLoss(aimfor.IoU(average="image"), aimfor.DirectEngine(sign=sign))
        seconds = median_seconds({"loss": step(loss_fn, free, target)}, 5, 1)
        rows.append({"sign": sign, "IoU of one mask 480 × 640, s": round(seconds["loss"], 3)})
    record("direct_iou", "Direct IoU of a segmentation mask (wanted: 0.5 s)", COMMAND, rows)


if __name__ == "__main__":
    parts = {"ap": average_precision, "negative": negative_sign, "f1": counting, "masks": masks}
    for name in sys.argv[1:] or parts:
        parts[name]()
