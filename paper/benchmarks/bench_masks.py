"""Losses of masks of classes at their real size: time and memory beside cross-entropy, Dice and Lovász.

python paper/benchmarks/bench_masks.py

Dice and Lovász are those of segmentation-models-pytorch, whose package need not be importable as a whole.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import median_seconds, peak_extra_megabytes, record

COMMAND = "python paper/benchmarks/bench_masks.py"
SIZES = ((8, 11, 48, 64, 9), (8, 21, 256, 256, 5), (4, 19, 512, 1_024, 3))

SETUP = """
import sys; sys.path.append({here!r})
from bench_masks import losses, problem
loss_fn, (scores, targets) = losses()[{name!r}], problem({shape})
loss_fn(*problem((2, {classes}, 8, 8))).backward()
"""


@functools.cache
def smp_losses() -> Any:
    """The package's losses; its own __init__ imports networks, which need torchvision."""
    package = importlib.util.find_spec("segmentation_models_pytorch")
    if package is None or package.origin is None:
        return None
    shell = types.ModuleType(package.name)
    shell.__path__ = [str(Path(package.origin).parent)]
    sys.modules[package.name] = shell
    return importlib.import_module(f"{package.name}.losses")


def losses() -> dict[str, Any]:
    import aimfor

    found = {"cross-entropy": torch.nn.functional.cross_entropy}
    found |= {name: aimfor.MetricLoss(name) for name in ("miou", "f1_macro")}
    peers = smp_losses()
    if peers is not None:
        found |= {"Dice (smp)": peers.DiceLoss("multiclass"), "Lovász (smp)": peers.LovaszLoss("multiclass")}
    return found


def problem(shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(shape[1], (shape[0], *shape[2:]), generator=generator)
    return torch.randn(shape, generator=generator).requires_grad_(), targets


def step(loss_fn: Any, scores: torch.Tensor, targets: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        scores.grad = None
        loss_fn(scores, targets).backward()

    return run


def main() -> None:
    rows = []
    for *size, repeats in SIZES:
        shape = tuple(size)
        scores, targets = problem(shape)
        steps = {name: step(loss_fn, scores, targets) for name, loss_fn in losses().items()}
        seconds = median_seconds(steps, repeats, 1)
        here, plain = str(Path(__file__).parent), seconds["cross-entropy"]
        for name, spent in seconds.items():
            setup = SETUP.format(here=here, name=name, shape=shape, classes=shape[1])
            rows.append(
                {
                    "scores": " × ".join(map(str, shape)),
                    "loss": name,
                    "ms": round(1e3 * spent, 1),
                    "× cross-entropy (≤ 2)": round(spent / plain, 2),
                    "MB": round(peak_extra_megabytes(setup, "loss_fn(scores, targets).backward()")),
                }
            )
    record("masks", "Losses of masks of classes, forward and backward", COMMAND, rows)


if __name__ == "__main__":
    main()
