"""Time and memory of the losses against the number of scores, beside every peer that is installed.

    python paper/benchmarks/bench_curves.py [--most 1000000]

One process measures all times, interleaved; memory is measured in a process for each point. A loss goes on to the next
n while a call takes less than `PATIENCE` seconds. Peers that are not installed are named in the record.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from common import peak_extra_megabytes, record
from peers import versions

SIZES = (128, 1024, 8192, 65_536, 1_000_000)
PATIENCE = 1.0
Step = Callable[[], object]


@dataclass(frozen=True)
class Entrant:
    """A loss: code that makes `loss_fn` from n, the call of it, and what must be installed."""

    name: str
    needs: str
    setup: str
    call: str = "loss_fn(scores, targets).backward()"
    most: int = SIZES[-1]


BCE = "loss_fn = lambda s, t: torch.nn.functional.binary_cross_entropy_with_logits(s, t.float())"
LIBAUC = "from libauc.losses import {0}; loss_fn = {0}({1})"
AP_PERF = (
    "from ap_perf import MetricLayer; from ap_perf.common_metrics import f1_score; loss_fn = MetricLayer(f1_score)"
)
COLUMNS = "loss_fn(torch.sigmoid(scores)[:, None], targets[:, None]{0}).backward()"  # as LibAUC's pages have it
ENTRANTS = (
    Entrant("cross-entropy (torch)", "torch", BCE),
    Entrant("AUROC, sorted", "aimfor", "loss_fn = aimfor.MetricLoss('auroc')"),
    Entrant("F1, smooth", "aimfor", "loss_fn = aimfor.MetricLoss('f1')"),
    Entrant("AP, smooth", "aimfor", "loss_fn = aimfor.MetricLoss('ap')"),
    Entrant("AP, direct", "aimfor", "loss_fn = aimfor.MetricLoss('ap', aimfor.DirectEngine(sign=1))"),
    Entrant("NDCG, smooth", "aimfor", "loss_fn = aimfor.MetricLoss('ndcg')"),
    Entrant("NDCG, direct", "aimfor", "loss_fn = aimfor.MetricLoss('ndcg', aimfor.DirectEngine())"),
    Entrant("F1, lp", "aimfor", "loss_fn = aimfor.MetricLoss('f1', aimfor.LPEngine())"),
    Entrant("AUROC: LibAUC AUCM", "libauc", LIBAUC.format("AUCMLoss", "device='cpu'"), COLUMNS.format("")),
    Entrant(
        "AUROC: LibAUC pairwise",
        "libauc",
        LIBAUC.format("PairwiseAUCLoss", "'squared_hinge'"),
        COLUMNS.format(""),
        8192,
    ),
    Entrant(
        "AP: LibAUC",
        "libauc",
        LIBAUC.format("APLoss", "data_len=n, device='cpu'") + "; index = torch.arange(n)",
        COLUMNS.format(", index"),
        8192,
    ),
    Entrant("F1: AP-Perf", "ap_perf", AP_PERF, "loss_fn(scores, targets.float()).backward()", 128),
)
DATA = (
    "import torch, aimfor, warnings; warnings.simplefilter('ignore'); torch.manual_seed(0); "
    "scores = torch.randn({n}, requires_grad=True); targets = (torch.rand({n}) < 0.1).long(); n = {n}"
)


def step(entrant: Entrant, n: int) -> Step:
    names: dict[str, object] = {}
    exec(f"{DATA.format(n=n)}\n{entrant.setup}", names)
    code = compile(f"scores.grad = None\n{entrant.call}", entrant.name, "exec")
    return lambda: exec(code, names)


def seconds(function: Step) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def times(entrants: list[Entrant], n: int) -> dict[str, float]:
    """Medians of CPU time; every entrant takes its turn in every round. A slow one has fewer rounds."""
    steps = {entrant.name: step(entrant, n) for entrant in entrants}
    first = {name: min(seconds(function), seconds(function)) for name, function in steps.items()}
    found: dict[str, list[float]] = {name: [taken] for name, taken in first.items()}
    for turn in range(15 if n < 65_536 else 5):
        for name, function in steps.items():
            if turn < 0.5 / max(first[name], 1e-3):
                found[name].append(seconds(function))
    return {name: statistics.median(taken) for name, taken in found.items()}


def megabytes(entrant: Entrant, n: int) -> float:
    return peak_extra_megabytes(f"{DATA.format(n=n)}\n{entrant.setup}", entrant.call)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    sizes = [n for n in SIZES if n <= parser.parse_args().most]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    packages = versions(list(dict.fromkeys(entrant.needs for entrant in ENTRANTS)))
    there = [entrant for entrant in ENTRANTS if packages[entrant.needs] is not None]
    rows: list[dict[str, object]] = []
    going = there
    for n in sizes:
        going = [entrant for entrant in going if n <= entrant.most]
        found = times(going, n)
        rows += [row(entrant, n, found) for entrant in going]
        keep(rows, packages, sizes[-1])
        going = [entrant for entrant in going if found[entrant.name] < PATIENCE]


def row(entrant: Entrant, n: int, found: dict[str, float]) -> dict[str, object]:
    return {
        "loss": entrant.name,
        "n": n,
        "ms": float(f"{1000 * found[entrant.name]:.3g}"),
        "× cross-entropy": round(found[entrant.name] / found["cross-entropy (torch)"], 1),
        "extra MB": round(megabytes(entrant, n), 1) if n >= 8192 else "",
    }


def keep(rows: list[dict[str, object]], packages: dict[str, str | None], most: int) -> None:
    """Recorded after every n, so that an interrupted run leaves what it has."""
    peers = {name: found for name, found in packages.items() if name not in ("torch", "aimfor")}
    there = ", ".join(f"{name} {found}" for name, found in peers.items() if found is not None)
    absent = [name for name, found in peers.items() if found is None]
    title = "Time and memory against the number of scores, 10 % positives, forward and backward"
    title += f" (peers: {there or 'none'}; not installed: {', '.join(absent) or 'none'})"
    order = [entrant.name for entrant in ENTRANTS]
    ordered = sorted(rows, key=lambda one: order.index(str(one["loss"])))
    record("curves", title, f"python paper/benchmarks/bench_curves.py --most {most}", ordered)


if __name__ == "__main__":
    main()
