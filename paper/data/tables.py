"""Data sets from disk, as tensors, with splits that depend on the seed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..protocol.protocol import Split

#: The 24 small imbalanced tables.
TABLES = tuple(
    """yeast3 yeast4 yeast5 yeast6 abalone19 abalone9_18 page_blocks0 segment0 vowel0 ecoli4 winequality_red_4
    shuttle_c0_vs_c4 satimage letter optdigits penbased phoneme spambase us_crime ozone_level_8hr yeast_ml8
    wine_quality wilt oil_spill""".split()  # noqa: SIM905
)


def arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as archive:
        return {key: archive[key] for key in archive.files}


def stratified(targets: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of (rest, fraction), each class split alike, at least one of a class on either side if it has two."""
    generator = torch.Generator().manual_seed(seed)
    rest, taken = [], []
    for label in targets.unique():
        members = (targets == label).nonzero().squeeze(1)
        members = members[torch.randperm(len(members), generator=generator)]
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        taken.append(members[:count])
        rest.append(members[count:])
    return torch.cat(rest).sort().values, torch.cat(taken).sort().values


def table(folder: Path, name: str, seed: int) -> tuple[Split, Split, Split]:
    """One small table: standardised by its training part; a third of the training rows is for validation."""
    raw = arrays(folder / "imbalanced_small" / f"{name}.npz")
    x, y = torch.from_numpy(raw["X"]).float(), torch.from_numpy(raw["y"]).long()
    train = torch.from_numpy(raw["train"])
    inside = train.nonzero().squeeze(1)
    fit, judge = stratified(y[inside], 1 / 3, seed)
    return standardised_parts(x, y, inside[fit], inside[judge], (~train).nonzero().squeeze(1))


def standardised_parts(x: Tensor, y: Tensor, fit: Tensor, judge: Tensor, test: Tensor) -> tuple[Split, Split, Split]:
    """Three parts by their positions, every column with mean 0 and deviation 1 on the first."""
    mean, deviation = x[fit].mean(0), x[fit].std(0)
    x = ((x - mean) / torch.where(deviation > 0, deviation, 1.0)).clamp(-10, 10)
    return Split(x[fit], y[fit]), Split(x[judge], y[judge]), Split(x[test], y[test])


def training_rows(folder: Path, name: str) -> tuple[Tensor, Tensor]:
    """Features as they are and labels of one small table, test rows left out."""
    raw = arrays(folder / "imbalanced_small" / f"{name}.npz")
    return torch.from_numpy(raw["X"][raw["train"]]).float(), torch.from_numpy(raw["y"][raw["train"]]).long()
