"""Rows of one table or small picture: `map_rare` (curves), `map_untuned` (F1 at 0) and `map_tuned` (F1 at a threshold).

Their data sets, the networks that learn them, and the parts into which a seed splits them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor

from ..data.tables import arrays
from . import libauc
from .contest import Entrants, regime
from .losses import OF_CLASSES, OF_TWO_CLASSES, OURS
from .task import Checkpoint, Rows, Task, best_of, best_where_tuned

#: Training rows that are used at most, drawn once.
MOST = 10_000
Raw = tuple[Tensor, Tensor]
#: The small tables whose training file has at least 60 positives.
SMALL = "imbalanced_small"
SMALL_TABLES = tuple(
    f"{SMALL} {name}"
    for name in """yeast3 page_blocks0 segment0 vowel0 shuttle_c0_vs_c4 satimage letter optdigits penbased phoneme
    spambase us_crime ozone_level_8hr yeast_ml8 wine_quality wilt""".split()  # noqa: SIM905
)


def perceptron(inputs: int, outputs: int) -> nn.Module:
    last = nn.Linear(64, outputs)
    layers = [nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), last]
    return nn.Sequential(*layers, nn.Flatten(0)) if outputs == 1 else nn.Sequential(*layers)


def small_cnn() -> nn.Module:
    """For 14 × 14 pictures, given as rows of 196 numbers."""
    convolutions = [nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(nn.Unflatten(1, (1, 14, 14)), *convolutions, nn.Linear(256, 1), nn.Flatten(0))


@functools.cache
def read(folder: Path, name: str) -> tuple[Raw, Raw]:
    """Training and test file of a data set, by the map's name for it."""
    source, _, variant = name.partition(" ")
    if source == "digits":
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x, y = torch.from_numpy(bunch.data).float(), torch.from_numpy(bunch.target).long()
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
        last = order[len(order) * 4 // 5 :]
        return (x[order[: -len(last)]], y[order[: -len(last)]]), (x[last], y[last])
    if source == SMALL:
        raw = arrays(folder / source / f"{variant}.npz")
        x, y = torch.from_numpy(raw["X"]).float(), torch.from_numpy(raw["y"]).long()
        train = torch.from_numpy(raw["train"])
        return (x[train], y[train]), (x[~train], y[~train])
    parts = [_split(folder, source, split) for split in ("train", "test")]
    if variant == "long tail":
        parts = [_thinned(x, y, 0.6 ** torch.arange(10)) for x, y in parts]
    elif variant:  # one digit against the rest, its positives thinned to a share
        digit, share = int(variant.split()[0]), 0.01
        parts = [(x, (y == digit).long()) for x, y in parts]
        odds = [share / (1 - share) * float((y == 0).sum() / (y == 1).sum()) for _, y in parts]
        parts = [_thinned(x, y, torch.tensor([1.0, odd])) for (x, y), odd in zip(parts, odds, strict=True)]
    return parts[0], parts[1]


def _split(folder: Path, source: str, split: str) -> Raw:
    raw = arrays(folder / source / f"{split}.npz")
    if "X" in raw:
        return torch.from_numpy(raw["X"]).float(), torch.from_numpy(np.asarray(raw["y"])).long()
    x = torch.from_numpy(raw["x"]).float()[:, None] / 255.0
    return functional.avg_pool2d(x, 2).flatten(1), torch.from_numpy(np.asarray(raw["y"])).long()


def _thinned(x: Tensor, y: Tensor, kept: Tensor) -> Raw:
    rows = torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < kept[y]
    return x[rows], y[rows]


def load_task(folder: Path, name: str, metrics: tuple[str, ...], seed: int, *, tuned: bool = False) -> Task:
    """Three fifths of the training file to train, one to choose, one to judge; the test file to confirm.

    With ``tuned`` the one metric is F1 at the threshold that is best on the choosing rows.
    """
    (x, y), (x_test, y_test) = read(folder, name)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=generator)[:MOST]
    order = order[y[order].argsort(stable=True)]  # class by class, so that every fifth row is a stratified fifth
    fifth = torch.arange(len(order)) % 5
    fit = order[fifth >= 2]
    mean, deviation = x[fit].mean(0), x[fit].std(0)
    deviation = torch.where(deviation > 0, deviation, 1.0)

    def rows(features: Tensor, labels: Tensor) -> Rows:
        return Rows((((features - mean) / deviation).clamp(-10, 10),), labels)

    parts = {
        "choose": rows(x[order[fifth == 0]], y[order[fifth == 0]]),
        "judge": rows(x[order[fifth == 1]], y[order[fifth == 1]]),
        "confirm": rows(x_test, y_test),
    }
    shares = torch.bincount(y[fit]).float() / len(fit)
    outputs = 1 if len(shares) == 2 else len(shares)
    make = (
        small_cnn if name.startswith("mnist ") and outputs == 1 else functools.partial(perceptron, x.shape[1], outputs)
    )

    def evaluate(checkpoints: Sequence[Checkpoint]) -> dict[str, dict[str, float]]:
        if tuned:
            return {"f1": f1_at_tuned_threshold(checkpoints, parts)}
        return {metric: best_of(checkpoints, parts, functools.partial(exact, metric)) for metric in metrics}

    return Task(
        train=rows(x[fit], y[fit]),
        parts=parts,
        network=make,
        evaluate=evaluate,
        metrics=metrics,
        shares=shares,
        seed=seed,
        steps=200 if name in SMALL_TABLES else 400,
        batch=min(256, len(fit) // 2),
    )


def exact(metric: str, scores: Tensor, y: Tensor) -> float:
    """Of the scores as they are: a curve's number, or decisions at 0 and by argmax."""
    return float(aimfor.MetricLoss(metric).value(scores.double(), y))


def f1_at_tuned_threshold(checkpoints: Sequence[Checkpoint], parts: dict[str, Rows]) -> dict[str, float]:
    f1 = aimfor.FBeta(1.0)
    return best_where_tuned(
        checkpoints,
        parts,
        lambda scores, y: f1.best_threshold(scores.double(), y).threshold,
        lambda scores, y, threshold: float(f1.value(scores.double() - threshold, y)),
    )


CURVES, TWO = ("ap", "tpr@fpr=0.01", "recall@precision=0.9"), (*OF_TWO_CLASSES, *OURS)
BY_CURVES = (*TWO, *libauc.METHODS)
_SMALL_BY_F1: Entrants = dict.fromkeys(SMALL_TABLES, (("f1",), TWO))
RARE = regime(
    "map_rare",
    "The map: rare positives",
    {
        **dict.fromkeys(("mnist 8 against the rest", "creditcard_fraud", "covertype_4v2"), (CURVES, BY_CURVES)),
        **dict.fromkeys(SMALL_TABLES, (("ap",), BY_CURVES)),
    },
    load_task,
)
UNTUNED = regime(
    "map_untuned",
    "The map: no threshold can be tuned",
    {
        **dict.fromkeys(("mammography", "bank_marketing", "creditcard_fraud"), (("f1",), TWO)),
        **dict.fromkeys(("digits", "mnist long tail"), (("f1_macro",), (*OF_CLASSES, *OURS))),
        **_SMALL_BY_F1,
    },
    load_task,
)
TUNED = regime("map_tuned", "The map: a threshold is tuned", _SMALL_BY_F1, functools.partial(load_task, tuned=True))
