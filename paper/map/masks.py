"""`map_masks`: a class for every pixel, some of them rare. A decoder on the maps of a frozen network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import aimfor
from aimfor.data.backbones import LITE0, load_backbone
from aimfor.learners.masks import Decoder
from aimfor.targets.offsets import class_ratios, fit_offsets

from ..data.mask_data import CLASSES, IGNORED
from ..data.tables import arrays
from ..rivals.mask_rivals import dice, lovasz
from .contest import regime
from .losses import Loss, Method, entropy, focal, plain, then, weighted
from .task import Checkpoint, Rows, Task

#: Scores and masks that networks see: a quarter of the picture's height and width.
STRIDE = 4
METRICS = ("mean IoU", "rare IoU", "mean IoU, offsets", "rare IoU, offsets")
Maps = tuple[tuple[Tensor, ...], Tensor]


def _dice(shares: Tensor, knob: float, metric: str) -> Loss:
    return lambda scores, y, done: dice(scores, y, shares)


def _entropy_and_dice(shares: Tensor, knob: float, metric: str) -> Loss:
    return lambda scores, y, done: entropy(scores, y) + dice(scores, y, shares)


def _lovasz(shares: Tensor, knob: float, metric: str) -> Loss:
    return lambda scores, y, done: lovasz(scores, y, shares)


def tversky(shares: Tensor, knob: float, metric: str) -> Loss:
    """Salehi 2017: ``1 − tp / (tp + (1 − β) fp + β fn)``, mean over the classes in the batch."""

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        chance, truth = scores.softmax(1), torch.nn.functional.one_hot(y, scores.shape[1]).to(scores.dtype)
        tp, there = (chance * truth).sum(0), truth.sum(0)
        value = tp / (tp + (1 - knob) * (chance.sum(0) - tp) + knob * (there - tp)).clamp_min(1e-7)
        return 1.0 - value[there > 0].mean()

    return loss


def _jaccard_metric(shares: Tensor, knob: float, metric: str) -> Loss:
    """Wang 2023 (JDT): ¼ cross-entropy and ¾ ``|p − y| / |p ∪ y|``, mean over the classes in the batch.

    With hard labels the union ``(|p| + |y| + |p − y|) / 2`` leaves the soft Jaccard loss.
    """

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        chance, truth = scores.softmax(1), torch.nn.functional.one_hot(y, scores.shape[1]).to(scores.dtype)
        apart, there = (chance - truth).abs().sum(0), truth.sum(0)
        value = 2.0 * apart / (chance.sum(0) + there + apart)
        return 0.25 * entropy(scores, y) + 0.75 * value[there > 0].mean()

    return loss


def _default(shares: Tensor, knob: float, metric: str) -> Loss:
    loss = aimfor.MetricLoss(aimfor.IoU(classes="mean"))
    return lambda scores, y, done: loss(scores, y)


# One network serves all four numbers, so that ours is trained once too. In the order in which they are run.
METHODS = (
    Method("metric", _default),
    Method("cross-entropy", plain),
    Method("1/√frequency", weighted(0.5)),
    Method("1/frequency", weighted(1.0)),
    Method("Lovász", _lovasz),
    Method("Jaccard metric", _jaccard_metric),
    Method("Dice", _dice),
    Method("Tversky", tversky, (0.5, 0.7, 0.9)),
    Method("cross-entropy + Dice", _entropy_and_dice),
    Method("cross-entropy, then metric", then(plain, _default), (0.25, 0.5, 0.75)),
    Method("focal", focal, (0.5, 1.0, 2.0)),
)


class OnMaps(nn.Module):
    """The program's decoder, fed with half-precision maps."""

    def __init__(self, channels: Sequence[int], classes: int) -> None:
        super().__init__()
        self.decoder = Decoder(channels, classes)

    def forward(self, *maps: Tensor) -> Tensor:
        scores: Tensor = self.decoder([level.float().contiguous() for level in maps])
        return scores


@functools.cache
def read(folder: Path, name: str, split: str) -> Maps:
    """Maps in half precision, and class ids at the size of the scores."""
    splits = [split, "val"] if split == "train" and (folder / name / "val.npz").exists() else [split]
    files = [arrays(folder / name / f"{each}.npz") for each in splits]
    maps = load_backbone(LITE0).maps(np.concatenate([file["x"] for file in files]))
    ids = np.concatenate([file["mask"] for file in files])
    fine = torch.from_numpy(np.where(ids < CLASSES[name], ids, IGNORED).astype(np.int64))
    half = STRIDE // 2
    return tuple(level.half() for level in maps), fine[:, half::STRIDE, half::STRIDE].contiguous()


def load(folder: Path, name: str, metrics: tuple[str, ...], seed: int) -> Task:
    (maps, y), (test_maps, test_y) = read(folder, name, "train"), read(folder, name, "test")
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    fifth = torch.arange(len(order)) % 5
    everything = Rows(maps, y)
    train = everything.at(order[fifth >= 2])
    parts = {
        "choose": everything.at(order[fifth == 0]),
        "judge": everything.at(order[fifth == 1]),
        "confirm": Rows(test_maps, test_y),
    }
    labelled = train.y[train.y != IGNORED]
    shares = torch.bincount(labelled, minlength=CLASSES[name]).float() / len(labelled)
    return Task(
        train=train,
        parts=parts,
        network=functools.partial(OnMaps, [level.shape[1] for level in maps], CLASSES[name]),
        evaluate=functools.partial(evaluate, parts, shares.argsort()[:3]),
        metrics=METRICS,
        shares=shares,
        seed=seed,
        steps=120,
        batch=8,
        loss_inputs=known_pixels,
        augment=flipped,
        rates=(3e-4, 3e-2),
        together=False,
    )


def known_pixels(scores: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``(n, c)`` and ``(n,)`` of the pixels that count."""
    inside = (y != IGNORED).flatten()
    return scores.permute(0, 2, 3, 1).flatten(0, 2)[inside], y.flatten()[inside]


def flipped(rows: Rows, generator: torch.Generator) -> Rows:
    if torch.rand((), generator=generator) < 0.5:
        return rows
    return Rows(tuple(level.flip(3) for level in rows.x), rows.y.flip(2))


def ious(called: Tensor, y: Tensor, classes: int) -> Tensor:
    """IoU of every class over the whole part, NaN for a class that it does not show."""
    inside = y != IGNORED
    a, b = called[inside], y[inside]
    counts = torch.stack([torch.bincount(ids, minlength=classes).double() for ids in (a[a == b], a, b)])
    return torch.where(counts[2] > 0, class_ratios(counts), torch.nan)


def evaluate(parts: dict[str, Rows], rare: Tensor, checkpoints: Sequence[Checkpoint]) -> dict[str, dict[str, float]]:
    """The checkpoint of the highest mean IoU by argmax serves all four numbers; offsets are fitted on the same rows."""
    classes = checkpoints[0]["choose"].shape[1]
    checkpoints = [checkpoint for checkpoint in checkpoints if bool(checkpoint["choose"].isfinite().all())]
    if not checkpoints:
        return {name: dict.fromkeys(parts, float("nan")) for name in METRICS}
    chosen = [
        float(ious(checkpoint["choose"].argmax(1), parts["choose"].y, classes).nanmean()) for checkpoint in checkpoints
    ]
    best = checkpoints[max(range(len(chosen)), key=chosen.__getitem__)]
    ids = parts["choose"].y.to(torch.uint8)
    offsets = fit_offsets([best["choose"].log_softmax(1)], [ids], ignore=IGNORED)
    values: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for name, scores in best.items():
        for words, called in (("", scores.argmax(1)), (", offsets", offsets.decide(scores.log_softmax(1)))):
            each = ious(called.long(), parts[name].y, classes)
            values[f"mean IoU{words}"][name] = float(each.nanmean())
            values[f"rare IoU{words}"][name] = float(each[rare].nanmean())
    return values


EXPERIMENT = regime(
    "map_masks",
    "The map: masks with rare classes",
    dict.fromkeys(("camvid", "stanford_background"), (METRICS, METHODS)),
    load,
)
