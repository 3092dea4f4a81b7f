"""Retrieval of classes never seen in training: our losses against those of metric learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.learners.networks.sampler import PerClassBatchSampler
from aimfor.retrieval import evaluate
from aimfor.runs.compare.verdicts import holm, paired_difference

from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from .retrieval_losses import METHODS

TITLE = "Retrieval of unseen classes: MAP@R and recall@1"
SETTING = (
    "Classes of test, validation and training data are different ones. Omniglot (1 alphabet, 1 alphabet, 3 alphabets; "
    "20 drawings a character) and 5,000 pictures of CIFAR-100 (20, 20 and 60 classes; 50 pictures each), five splits, "
    "at half their width and height. Two convolutions (16, 32) of stride 2, embeddings of 64, 12 classes × 5 examples "
    "a batch, 300 Adam steps at 0.002, cosine similarity, no augmentation. Each method's temperature (scale, margin, "
    "bins) is chosen among five by MAP@R on the validation classes; the numbers are of the test classes."
)
SETS = ("omniglot", "cifar100")
SPLITS, STEPS = 5, 300
OURS = "aimfor map@r + classes"


class Encoder(nn.Sequential):
    """Two convolutions of stride 2 and a linear layer: pictures ``(n, channels, side, side)`` to 64 numbers."""

    def __init__(self, channels: int, side: int) -> None:
        width = (side + 3) // 4
        super().__init__(
            nn.Conv2d(channels, 16, 5, stride=2, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * width**2, 64),
        )


def cells(options: Options) -> list[Cell]:
    return [
        {"set": name, "split": split, "seed": seed, "method": method}
        for seed in range(options.seeds)
        for name in SETS
        for split in range(SPLITS)
        for method in METHODS
    ]


def parts(folder: Path, name: str, split: int) -> list[tuple[Tensor, Tensor]]:
    """Training, validation and test pictures with class ids from 0: no class is in two of them.

    Omniglot is split by alphabet. CIFAR-100's classes are dealt to five hands at random, the same ones for every split.
    """
    raw = arrays(folder / name / "train.npz")
    x, y = (torch.from_numpy(np.asarray(raw[key])) for key in ("x", "y"))
    x = (x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)).float() / 255.0
    x = functional.avg_pool2d(x, 2)
    if name == "omniglot":
        alphabet = torch.from_numpy(np.asarray(raw["alphabet"]))
        hand = alphabet.unique(return_inverse=True)[1]
    else:
        hand = torch.from_numpy(np.random.default_rng(0).permutation(100) % SPLITS)[y]
    test, validation = hand == split, hand == (split + 1) % SPLITS
    return [(x[rows], y[rows].unique(return_inverse=True)[1]) for rows in (~test & ~validation, validation, test)]


def train(pictures: list[tuple[Tensor, Tensor]], loss_fn: Any, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """MAP@R and recall@1 of validation and test classes after the last step."""
    x, y = pictures[0]
    model = Encoder(x.shape[1], x.shape[2])
    own = list(loss_fn.parameters()) if isinstance(loss_fn, nn.Module) else []
    optimizer = torch.optim.Adam([*model.parameters(), *own], 2e-3)
    sampler, done = PerClassBatchSampler(y, 12, 5, seed=seed), 0
    while done < STEPS:
        for batch in sampler:
            optimizer.zero_grad()
            loss_fn(model(x[batch]), y[batch]).backward()
            optimizer.step()
            done += 1
            if done == STEPS:
                break
    model.eval()
    with torch.no_grad():
        found = [evaluate(model(images), labels, k=[1]) for images, labels in pictures[1:]]
    return found[0], found[1]


def run(cell: Cell, options: Options) -> Result:
    """The method at each value of its parameter; the best on the validation classes, judged on the test classes."""
    pictures = parts(data_folder(options, cell["set"]), cell["set"], cell["split"])
    classes = int(pictures[0][1].max()) + 1
    values, make = METHODS[cell["method"]]
    tried = []
    for value in values:
        torch.manual_seed(1000 * cell["seed"] + cell["split"])  # the same start for every method
        validation, test = train(pictures, make(classes, value), cell["seed"])
        tried.append((validation["map@r"], value, test["map@r"], test["recall@1"]))
    best = max(tried)
    return {"map@r": best[2], "recall@1": best[3], "parameter": best[1], "tried": tried}


def report(results: list[dict[str, Any]], folder: Path) -> None:
    lines = [f"# {TITLE}", "", SETTING, ""]
    write_table(folder, [*lines, *summary_lines(results, "##")])


def summary_lines(results: list[dict[str, Any]], level: str) -> list[str]:
    """One table for each set of pictures, of the runs that every method has done."""
    lines = []
    for name in SETS:
        found = complete(results, name)
        lines += [f"{level} {name}", "", *(_table(found) if found else ["Not measured yet."]), ""]
    return lines


def complete(results: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """What each method found, by split and seed of one set of pictures; runs that lack a method are left out."""
    runs: dict[tuple[int, int], dict[str, Any]] = {}
    for entry in results:
        cell = entry["cell"]
        if cell["set"] == name:
            runs.setdefault((cell["seed"], cell["split"]), {})[cell["method"]] = entry["result"]
    return [found for _, found in sorted(runs.items()) if set(found) == set(METHODS)]


def _table(found: list[dict[str, Any]]) -> list[str]:
    """Means, and our map@r minus each method in points, paired by split, with a 95 % interval."""
    lines = [f"{len(found)} runs (splits × seeds). Differences are of `{OURS}` minus the method, in points.", ""]
    lines += ["| method | MAP@R | recall@1 | MAP@R, difference | median | Holm p | recall@1, difference |"]
    lines += ["|---|---|---|---|---|---|---|"]
    others = [name for name in METHODS if name != OURS]
    gaps = {key: {name: _gap(found, name, key) for name in others} for key in ("map@r", "recall@1")}
    adjusted = dict(zip(others, holm([gaps["map@r"][name][1] for name in others]), strict=True))
    for name in METHODS:
        means = [f"{np.mean([one[name][key] for one in found]):.3f}" for key in ("map@r", "recall@1")]
        if name == OURS:
            lines.append(f"| {name} | {means[0]} | {means[1]} | | | | |")
            continue
        median = 100 * np.median([one[OURS]["map@r"] - one[name]["map@r"] for one in found])
        first, second = gaps["map@r"][name][0], gaps["recall@1"][name][0]
        lines.append(
            f"| {name} | {means[0]} | {means[1]} | {first} | {median:+.1f} | {adjusted[name]:.2g} | {second} |"
        )
    return lines


def _gap(found: list[dict[str, Any]], name: str, key: str) -> tuple[str, float]:
    ours, theirs = ([one[who][key] for one in found] for who in (OURS, name))
    gap = paired_difference(ours, theirs, test_share=1 / 3)
    return f"{100 * gap.mean:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})", gap.p


EXPERIMENT = Experiment("retrieval", TITLE, "aimfor", cells, run, report, seeds=5)
