"""Real problems of one score, of several classes and of several labels, cut anew into three parts for every seed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...data.tables import arrays, training_rows

#: Rows that are drawn of a data set; three fifths to train, one to choose, one to judge.
ROWS = 5000
#: Problems of one score: which class is positive, where a data set has several.
BINARY = {
    "phoneme": None,
    "wilt": None,
    "page_blocks0": None,
    "digits": 8,
    "bank": None,
    "mammography": None,
    "mnist": 8,
    "cifar10": 3,
}
CLASSES = ("digits 10", "mnist 10", "cifar10 10", "stl10 10")
LABELS = ("digits labels", "mnist labels", "cifar10 labels")
PROBLEMS = (*BINARY, *CLASSES, *LABELS)
FOLDERS = {"bank": "bank_marketing"}


@dataclass(frozen=True)
class Problem:
    """``(x, y)`` of the rows to train with, to choose with and to judge with, and how many scores a row gets."""

    train: tuple[Tensor, Tensor]
    choose: tuple[Tensor, Tensor]
    judge: tuple[Tensor, Tensor]
    outputs: int
    seed: int


def load(folder: Path, name: str, seed: int) -> Problem:
    """Splits and starting weights follow from the name and the seed; training rows of the data set alone are read."""
    mixed = zlib.crc32(f"{name} {seed}".encode()) % 100_000
    source, *kind = name.split()
    x, y = rows(folder, source)
    picked = draw(y, mixed)
    x = standardised(x, picked[0])
    if kind == ["labels"]:
        y = labels_of(y)
    elif not kind and (positive := BINARY[source]) is not None:
        y = y.eq(positive).long()
    train, choose, judge = ((x[place], y[place]) for place in picked)
    return Problem(train, choose, judge, {"10": 10, "labels": y.shape[-1]}.get("".join(kind), 1), mixed)


def rows(folder: Path, source: str) -> tuple[Tensor, Tensor]:
    """Features and class ids; pictures as flat values at a quarter of their pixels or less."""
    if source == "digits":
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return torch.from_numpy(bunch.data).float(), torch.from_numpy(bunch.target).long()
    if source in ("mnist", "cifar10", "stl10"):
        raw = arrays(folder / source / "train.npz")
        x = torch.from_numpy(raw["x"][: 4 * ROWS]).float() / 255.0
        x = x[:, None] if x.ndim == 3 else x.movedim(-1, 1)
        y = torch.from_numpy(np.asarray(raw["y"][: 4 * ROWS])).long()
        return functional.avg_pool2d(x, 2 if source == "mnist" else 4).flatten(1), y
    if source in ("bank", "mammography"):
        raw = arrays(folder / FOLDERS.get(source, source) / "train.npz")
        return torch.from_numpy(raw["X"]).float(), torch.from_numpy(raw["y"]).long()
    return training_rows(folder, source)


def draw(y: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows to train, to choose and to judge with: each class split alike."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))[:ROWS]
    order = order[y[order].argsort(stable=True)]  # class by class, so that every fifth row is a stratified fifth
    part = torch.arange(len(order)) % 5
    return order[part >= 2], order[part == 0], order[part == 1]


def standardised(x: Tensor, fitted: Tensor) -> Tensor:
    mean, deviation = x[fitted].mean(0), x[fitted].std(0)
    return ((x - mean) / torch.where(deviation > 0, deviation, 1.0)).clamp(-10, 10)


def labels_of(y: Tensor) -> Tensor:
    """Thirteen labels of ten classes, of which a row has one to three: its class, an even number, one of the last
    five, and whether it is 2, 3, 5 or 7."""
    prime = (y == 2) | (y == 3) | (y == 5) | (y == 7)
    extra = torch.stack((y % 2 == 0, y >= 5, prime), 1)
    return torch.cat((functional.one_hot(y, 10), extra.long()), 1)
