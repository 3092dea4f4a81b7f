"""Masks: what the decision is worth. Offsets per class chosen out of fold, against argmax, a validation part, RankSEG.

A decoder on frozen maps of EfficientNet-Lite0 is trained by cross-entropy, Dice, Lovász, cross-entropy with soft IoU,
or `MetricLoss` of the mean IoU as it comes, one network a fold. CamVid's folds are its three training drives; Stanford
Background names no scenes, so there its images are drawn. All decisions are about the same scores: the mean
log-probabilities of the three networks on test images.

- argmax;
- out of fold: offsets chosen on what each network says about the drive it has not seen (`fit_offsets`, guarded);
- one part: offsets chosen on one validation part (CamVid: the official one, of a training drive; else the first fold);
- RankSEG (Dai and Wang), for Dice and for IoU, where the package `rankseg` is installed: no tuning, image by image;
- with hindsight: offsets chosen on the test images themselves. Nobody can do that; it is the most that offsets can add.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from aimfor.data.backbones import LITE0, load_backbone
from aimfor.learners.masks import (
    MaskFit,
    Masks,
    PixelLoss,
    cross_entropy,
    enlarged,
    fit_masks,
    lovasz_loss,
    mean_iou,
)
from aimfor.targets.offsets import class_ratios, fit_offsets
from aimfor.targets.pixels import IGNORED

from ...data.mask_data import CLASSES
from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from ...report.pictures_board import mask_lines
from ...rivals.mask_rivals import dice

SETS = ("camvid", "stanford_background")


def entropy_and_overlap() -> PixelLoss:
    overlap = mean_iou()
    return lambda scores, y: functional.cross_entropy(scores, y) + overlap(scores, y)


LOSSES: dict[str, Callable[[], PixelLoss]] = {
    "metric": mean_iou,
    "cross-entropy": cross_entropy,
    "Dice": lambda: lambda scores, y: dice(scores, y, scores.new_zeros(0)),
    "Lovász": lovasz_loss,
    "cross-entropy + soft IoU": entropy_and_overlap,
}
#: Finest map: a quarter of the picture's height and width.
STRIDE, FOLDS, EPOCHS, DRAWS = 4, 3, 6, 500
Part = tuple[tuple[Tensor, ...], Tensor, Tensor]


def cells(options: Options) -> list[Cell]:
    seeds = range(options.seeds)
    return [{"set": name, "loss": loss, "seed": seed} for seed in seeds for loss in LOSSES for name in SETS]


@functools.cache
def part(folder: Path, name: str, split: str) -> Part:
    """Feature maps (half precision), class ids at full size, and the drive of each picture (or a number of its own)."""
    raw = arrays(folder / name / f"{split}.npz")
    maps = tuple(one.half() for one in load_backbone(LITE0).maps(raw["x"]))
    fine = torch.from_numpy(np.where(raw["mask"] < CLASSES[name], raw["mask"], IGNORED).astype(np.uint8))
    drives = [str(one)[:6] if name == "camvid" else str(one) for one in raw["name"]]
    return maps, fine, torch.from_numpy(np.unique(drives, return_inverse=True)[1]).long()


def run(cell: Cell, options: Options) -> Result:
    folder, classes = data_folder(options, cell["set"]), CLASSES[cell["set"]]
    maps, fine, groups = part(folder, cell["set"], "train")
    data = Masks(maps, _coarse(fine), groups)
    fitted = fit_masks(data, classes, folds=FOLDS, epochs=EPOCHS, seed=cell["seed"], make_loss=LOSSES[cell["loss"]])
    test_maps, truth, _ = part(folder, cell["set"], "test")
    scores = enlarged(fitted.scores(test_maps), (truth.shape[1], truth.shape[2]))
    decided = {
        "argmax": scores.argmax(1),
        "out of fold": fitted.offsets.decide(scores),
        "one part": _one_part(fitted, data, folder, cell["set"]).decide(scores),
        **_ranked(scores.softmax(1)),
        "with hindsight": fit_offsets([fitted.scores(test_maps)], [_coarse(truth)], ignore=IGNORED).decide(scores),
    }
    counts = {way: _counts(called, truth, classes) for way, called in decided.items()}
    return {
        "ways": {way: _judged(one, counts["argmax"], cell["seed"]) for way, one in counts.items()},
        "offsets": fitted.offsets.values.tolist(),
        "promised": [fitted.offsets.argmax, fitted.offsets.cross_validated],
        "shares": (counts["argmax"][:, 2].sum(0) / counts["argmax"][:, 2].sum()).tolist(),
    }


def _coarse(fine: Tensor) -> Tensor:
    """Class ids at the size of the network's scores."""
    return fine[:, STRIDE // 2 :: STRIDE, STRIDE // 2 :: STRIDE].contiguous()


def _one_part(fitted: MaskFit, data: Masks, folder: Path, name: str) -> Any:
    if name == "camvid":
        maps, fine, _ = part(folder, name, "val")
        return fit_offsets([fitted.scores(maps)], [_coarse(fine)], ignore=IGNORED)
    assert fitted.out_of_fold is not None
    rows = fitted.folds == 0
    return fit_offsets([fitted.out_of_fold[rows]], [data.y[rows]], ignore=IGNORED)


def _ranked(chances: Tensor) -> dict[str, Tensor]:
    if importlib.util.find_spec("rankseg") is None:
        return {}
    from rankseg import RankSEG

    return {f"RankSEG {metric}": RankSEG(metric=metric).predict(chances) for metric in ("dice", "IoU")}


def _counts(called: Tensor, truth: Tensor, classes: int) -> Tensor:
    """``(n, 3, c)``: pixels of each image that are and are called a class, are called it, are it."""
    found = torch.zeros(len(truth), 3, classes, dtype=torch.float64)
    for row, (one, y) in enumerate(zip(called, truth, strict=True)):
        inside = y != IGNORED
        a, b = one[inside].long(), y[inside].long()
        for place, ids in enumerate((a[a == b], a, b)):
            found[row, place] = torch.bincount(ids, minlength=classes)
    return found


def _mean_iou(counts: Tensor) -> float:
    total = counts.sum(0)
    return float(class_ratios(total)[total[2] > 0].mean())


def _judged(counts: Tensor, plain: Tensor, seed: int) -> dict[str, Any]:
    """Of the data set and image by image; the difference from argmax with 95 % of bootstrap draws of images."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randint(len(counts), (len(counts),), generator=generator) for _ in range(DRAWS)]
    differences = np.array([_mean_iou(counts[rows]) - _mean_iou(plain[rows]) for rows in drawn])
    by_image = class_ratios(counts.transpose(0, 1))
    there = counts[:, 2] > 0
    return {
        "iou": _mean_iou(counts),
        "image_iou": float(torch.where(there, by_image, torch.nan).nanmean(1).nanmean()),
        "classes": class_ratios(counts.sum(0)).tolist(),
        "above_argmax": [float(one) for one in np.quantile(differences, (0.025, 0.975))],
    }


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {EXPERIMENT.title}", "", *mask_lines(results)])


EXPERIMENT = Experiment(
    "mask_offsets", "masks: offsets per class chosen out of fold, mean IoU", "aimfor", cells, run, report, seeds=3
)
