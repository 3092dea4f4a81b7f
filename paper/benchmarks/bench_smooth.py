"""What soft decisions and soft ranks cost, beside cross-entropy, a dense smooth AP and brute-force evaluation.

python paper/benchmarks/bench_smooth.py [decisions] [ranks] [retrieval] [peers] [faiss]

``peers`` needs pytorch-metric-learning; ``faiss`` faiss-cpu, here or in the Python that FAISS_PYTHON names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.retrieval import evaluate

sys.path.insert(0, str(Path(__file__).parent))
from common import median_seconds, peak_extra_megabytes, record

COMMAND = "python paper/benchmarks/bench_smooth.py"


def data(n: int, share: float = 0.1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    targets = torch.rand(n, generator=generator) < share
    return (torch.randn(n, generator=generator) + targets).requires_grad_(), targets


def step(loss_fn: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor) -> Callable[[], None]:
    def run() -> None:
        scores.grad = None
        loss_fn(scores, targets).backward()

    return run


def entropy(scores: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype))


def decisions() -> None:
    rows = []
    for n, wanted in ((128, 4), (8_192, 8)):
        scores, targets = data(n)
        soft = aimfor.MetricLoss("f1", aimfor.SmoothEngine())
        unchecked = aimfor.MetricLoss("f1", aimfor.SmoothEngine(), validate=False)
        anchored = aimfor.MetricLoss("f1")
        seconds = median_seconds(
            {
                "bce": step(entropy, scores, targets),
                "soft": step(soft, scores, targets),
                "unchecked": step(unchecked, scores, targets),
                "default": step(anchored, scores, targets),
            },
            201,
            20,
        )
        rows.append(
            {
                "n": f"{n:,}",
                "cross-entropy, µs": round(1e6 * seconds["bce"]),
                "smooth F1": f"{seconds['soft'] / seconds['bce']:.1f} ×",
                "without value checks": f"{seconds['unchecked'] / seconds['bce']:.1f} ×",
                "default (anchor, bank)": f"{seconds['default'] / seconds['bce']:.1f} ×",
                "wanted": f"≤ {wanted} ×",
            }
        )
    record("smooth_f1", "Smooth F1, forward and backward, in units of cross-entropy", COMMAND, rows)


def dense_smooth_ap(scores: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """Smooth-AP as it is usually written: the n × n matrix of differences, and autograd through it."""
    above = torch.sigmoid((scores[None, :] - scores[:, None]) / temperature)
    above = above * (1 - torch.eye(len(scores)))
    positive = targets.to(scores.dtype)
    precision = (1 + above @ positive) / (1 + above.sum(1))
    return 1 - (precision * positive).sum() / positive.sum()


def ranks() -> None:
    rows = []
    for n in (1_024, 8_192):
        scores, targets = data(n)
        loss_fn = aimfor.MetricLoss("ap", aimfor.SmoothEngine())
        assert abs(float(loss_fn(scores, targets).detach()) - float(dense_smooth_ap(scores, targets).detach())) < 1e-4
        seconds = median_seconds(
            {"ours": step(loss_fn, scores, targets), "dense": step(dense_smooth_ap, scores, targets)}, 5, 1
        )
        setup = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            f"import bench_smooth as b, aimfor; s, y = b.data({n})\n"
            "f = aimfor.MetricLoss('ap', aimfor.SmoothEngine())\n"
            "t, z = b.data(64); f(t, z).backward(); b.dense_smooth_ap(t, z).backward()"
        )
        memory = {
            name: peak_extra_megabytes(setup, f"{call}(s, y).backward()")
            for name, call in (("ours", "f"), ("dense", "b.dense_smooth_ap"))
        }
        rows.append(
            {
                "n": f"{n:,}",
                "ours, ms": round(1e3 * seconds["ours"], 1),
                "dense, ms": round(1e3 * seconds["dense"], 1),
                "times faster": round(seconds["dense"] / seconds["ours"], 1),
                "ours, MB": round(memory["ours"], 1),
                "dense, MB": round(memory["dense"], 1),
                "times less memory": round(memory["dense"] / max(memory["ours"], 0.1)),
            }
        )
    record("smooth_ap", "Smooth AP of one list, 10 % positives, against the dense n × n form", COMMAND, rows)


def retrieval() -> None:
    rows = []
    for n in (5_000, 20_000):
        x, y = torch.randn(n, 128), torch.arange(n) % (n // 10)
        start = time.process_time()
        evaluate(x, y, k=[1, 10])
        seconds = time.process_time() - start
        setup = (
            "import torch; from aimfor.retrieval import evaluate\n"
            f"x, y = torch.randn({n}, 128), torch.arange({n}) % {n // 10}\n"
            "evaluate(x[:100], y[:100] % 10, k=[1])"
        )
        rows.append(
            {
                "n × n × 128": f"{n:,}",
                "CPU seconds": round(seconds, 2),
                "per 10⁹ similarities": round(seconds / n**2 * 1e9, 1),
                "extra memory, MB": round(peak_extra_megabytes(setup, "evaluate(x, y, k=[1, 10])")),
            }
        )
    record("retrieval", "Exact MAP@R, R-precision, recall@1 and @10 of every row against all others", COMMAND, rows)


def peers() -> None:
    """Of a batch of embeddings, n lists of n; as many classes as examples of each, where the package is right."""
    from pytorch_metric_learning.losses import FastAPLoss, SmoothAPLoss

    rows = []
    for side in (8, 12, 16, 20):  # with 961 embeddings the package takes 17 GB
        n = side * side
        x, y = torch.randn(n, 64).requires_grad_(), torch.arange(side).repeat_interleave(side)
        ours, theirs = aimfor.RetrievalLoss("ap", temperature=0.05), SmoothAPLoss(temperature=0.05)
        losses = {"ours": ours, "theirs": theirs, "fast": FastAPLoss()}
        seconds = median_seconds({name: step(loss, x, y) for name, loss in losses.items()}, 5 if side < 20 else 1, 1)
        setup = (
            "import aimfor; from pytorch_metric_learning.losses import SmoothAPLoss\n"
            "f, g = aimfor.RetrievalLoss('ap'), SmoothAPLoss()\n"
            f"x, y = torch.randn({n}, 64).requires_grad_(), torch.arange({side}).repeat_interleave({side})\n"
            "t, z = torch.randn(16, 64).requires_grad_(), torch.arange(4).repeat_interleave(4)\n"
            "f(t, z).backward(); g(t, z).backward()"
        )
        memory = {name: peak_extra_megabytes(setup, f"{name}(x, y).backward()") for name in "fg"}
        rows.append(
            {
                "n (embeddings)": n,
                "ours, ms": round(1e3 * seconds["ours"], 1),
                "package, ms": round(1e3 * seconds["theirs"], 1),
                "times faster": round(seconds["theirs"] / seconds["ours"], 1),
                "its FastAP (other loss), ms": round(1e3 * seconds["fast"], 1),
                "ours, MB": round(memory["f"], 1),
                "package, MB": round(memory["g"], 1),
                # Its memory grows as n³: what was measured, times (8,192 / n)³.
                "package at n = 8,192, TB": round(memory["g"] * 2**20 * (8_192 / n) ** 3 / 1e12, 1),
            }
        )
    title = "Smooth AP of a batch of embeddings (RetrievalLoss) against pytorch-metric-learning's SmoothAPLoss"
    record("smooth_ap_peers", title, f"{COMMAND} peers", rows)


FAISS = """
import sys, time, faiss, numpy
faiss.omp_set_num_threads(1)
n = int(sys.argv[1])
x = numpy.random.default_rng(0).standard_normal((n, 128), dtype=numpy.float32)
x /= numpy.linalg.norm(x, axis=1, keepdims=True)
start = time.process_time()
index = faiss.IndexFlatIP(128)
index.add(x)
index.search(x, 11)
print(time.process_time() - start)
"""


def beside_faiss() -> None:
    """Ten classmates of each row, so that both look for the eleven nearest: faiss is timed for the search alone."""
    rows = []
    for n in (5_000, 20_000, 100_000):
        x, y = torch.randn(n, 128), torch.arange(n) % (n // 10)
        torch.set_num_threads(1)
        start = time.process_time()
        evaluate(x, y, k=[1, 10])
        ours = time.process_time() - start
        python = os.environ.get("FAISS_PYTHON", sys.executable)
        done = subprocess.run([python, "-c", FAISS, str(n)], capture_output=True, text=True, check=True)
        theirs = float(done.stdout)
        rows.append(
            {
                "n × n × 128": f"{n:,}",
                "evaluate, CPU seconds": round(ours, 2),
                "faiss-cpu IndexFlatIP, search alone": round(theirs, 2),
                "ratio": round(ours / theirs, 1),
            }
        )
    title = "Exact recall@1 and @10, MAP@R and R-precision of every row against all others, beside faiss-cpu"
    record("retrieval_faiss", title, f"{COMMAND} faiss", rows)


if __name__ == "__main__":
    parts = {"decisions": decisions, "ranks": ranks, "retrieval": retrieval, "peers": peers, "faiss": beside_faiss}
    for name in sys.argv[1:] or ("decisions", "ranks", "retrieval"):
        parts[name]()
