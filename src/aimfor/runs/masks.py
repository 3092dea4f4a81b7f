"""A run on masks: what `aimfor train --masks` writes, and what `predict` reads back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import checkpoint
from ..data.backbones import WORTH, is_backbone, load_backbone
from ..data.pictures import MOST_PIXELS, SUFFIXES, Pictures
from ..data.settings import Settings
from ..data.tables import check_size
from ..errors import InputError
from ..learners.ensemble import FolderStore
from ..learners.masks import LOSSES, Decoder, MaskFit, Masks, enlarged, fit_masks, group_folds, make_network
from ..learners.networks.loop import end_if
from ..targets.intervals import bootstrap_interval
from ..targets.offsets import Offsets, class_ratios
from ..targets.pixels import IGNORED, Scenes, coarse, common_size, read_scenes, sized
from .evaluation import OutOfFold, PixelsEvaluation, PixelsPart
from .folder import CELLS, fingerprint_of, finished_run
from .kinds import Reading, Step, Stop, Task, Tell
from .sheets import mask_sheets

MASKS = "masks.json"
#: Side of the square with as many pixels as pictures are scaled to.
SIDE = 224
#: One group in so many is kept for the test, and took no part in anything.
TEST_FOLDS = 5
MEASURES = {"iou": "iou", "f1": "dice", "dice": "dice"}


@dataclass
class MaskRun:
    """A fitted run, ready to decide."""

    settings: Settings
    classes: list[str]
    size: tuple[int, int]
    fit: MaskFit

    def decide(self, pictures: Pictures, row: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """``(h, w)`` class ids at the picture's own size."""
        width, height = pictures.open(row).size
        scores = self.fit.scores(maps_of(pictures, [row], self.settings.model, self.size))
        return np.asarray(self.fit.offsets.decide(enlarged(scores, (height, width)))[0].numpy(), dtype=np.uint8)


def maps_of(pictures: Pictures, rows: Sequence[int], model: str, size: tuple[int, int]) -> tuple[Tensor, ...]:
    """What networks see of the pictures, in half precision: maps of the backbone, or the pictures themselves."""
    backbone = load_backbone(model) if is_backbone(model) else None
    blocks: list[list[Tensor]] = []
    for start in range(0, len(rows), 16):
        pixels = np.stack([sized(pictures, row, size) for row in rows[start : start + 16]])
        plain = torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
        maps = [plain] if backbone is None else backbone.maps(pixels)
        blocks.append([level.half().contiguous() for level in maps])
    return tuple(torch.cat(level) for level in zip(*blocks, strict=True))


class MasksTask(Task):
    """Pictures × a class for every pixel × the mask network."""

    kind = "masks"

    def __init__(self, reading: Reading) -> None:
        settings, backbone = reading.settings, is_backbone(reading.settings.model)
        if settings.metric not in MEASURES:
            raise InputError("--metric", repr(settings.metric), f"one of {', '.join(MEASURES)} for masks")
        if backbone:
            load_backbone(settings.model)
        elif settings.model != "auto":
            raise InputError("--model", repr(settings.model), "efficientnet-lite0, timm/NAME, or nothing, for masks")
        self.settings, self.name = settings, Path(settings.data).resolve().name
        self.scenes = scenes_of(settings)
        self.rows, self.test = split(self.scenes, settings.seed)
        self.size = common_size(self.scenes.pictures, settings.image_size or SIDE)
        check_size(Path(settings.data), len(self.scenes.pictures) * self.size[0] * self.size[1] * 6)
        self.notes = [*self.scenes.notes, *([] if backbone else [WORTH.split(";")[0]])]
        self.facts = {"classes": self.scenes.classes, "size": list(self.size)}
        self.fingerprint = fingerprint_of(self.scenes.classes, _digests(settings))

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> MaskRun:
        settings, scenes, backbone = self.settings, self.scenes, is_backbone(self.settings.model)
        maps = maps_of(scenes.pictures, self.rows, settings.model, self.size)
        grid = (maps[0].shape[2], maps[0].shape[3])
        if not backbone:
            grid = (grid[0] // 2, grid[1] // 2)
        y = torch.from_numpy(np.stack([coarse(scenes.mask(row), grid) for row in self.rows]))
        fit = fit_masks(
            Masks(maps, y, _numbers([scenes.groups[row] for row in self.rows])),
            len(scenes.classes),
            epochs=settings.epochs or (12 if backbone else 30),
            seed=settings.seed,
            counted=[False, True] if len(scenes.classes) == 2 else None,
            measure=MEASURES[settings.metric],
            make_loss=LOSSES[settings.loss],
            store=FolderStore(folder / CELLS),
            tell=lambda done, total: tell(Step("training", f"{done} of {total} passes", done, total)),
            stop=stop,
        )
        return MaskRun(settings, scenes.classes, self.size, fit)

    def evaluate(self, fitted: MaskRun, tell: Tell, stop: Stop) -> PixelsEvaluation:
        offsets = fitted.fit.offsets
        return PixelsEvaluation(
            metric=self.settings.metric,
            test=evaluated(fitted, self.scenes, self.test, MEASURES[self.settings.metric], stop),
            out_of_fold=OutOfFold(offsets.argmax, offsets.cross_validated, offsets.text),
            pictures={"train": len(self.rows), "test": len(self.test), "folds": len(fitted.fit.networks)},
            offsets=dict(zip(fitted.classes, offsets.values.tolist(), strict=True)),
            notes=self.notes,
        )

    def save(self, folder: Path, fitted: MaskRun, evaluation: PixelsEvaluation) -> None:
        """Weights, and the offsets that decide."""
        networks, offsets = fitted.fit.networks, fitted.fit.offsets
        tensors = {
            f"{fold}.{name}": value for fold, net in enumerate(networks) for name, value in net.state_dict().items()
        }
        checkpoint.save(folder / "model.safetensors", tensors, {"folds": len(networks)})
        # Channels of the maps that a network takes; 3 alone where it has an encoder of its own.
        sides = networks[0].sides if isinstance(networks[0], Decoder) else None
        document = {
            "offsets": offsets.values.tolist(),
            "argmax": offsets.argmax,
            "promised": offsets.cross_validated,
            "text": offsets.text,
            "channels": [3] if sides is None else [side.in_channels for side in sides],
        }
        checkpoint.write_json(folder / MASKS, document)

    def sheets(self, fitted: MaskRun, evaluation: PixelsEvaluation) -> list[dict[str, Any]]:
        return mask_sheets(fitted, self.scenes, evaluation.test.images)


def _digests(settings: Settings) -> list[list[str]]:
    """Of every picture and mask, by name."""
    assert settings.masks is not None
    digests = []
    for root in (Path(settings.data), Path(settings.masks)):
        inside = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
        files = [root] if root.is_file() else inside
        contents = ((file.relative_to(root).as_posix(), file.read_bytes()) for file in files)
        digests += [[name, hashlib.sha256(content).hexdigest()] for name, content in contents]
    return digests


def scenes_of(settings: Settings) -> Scenes:
    """The pictures and masks of a run, read and checked."""
    assert settings.masks is not None
    classes = None if settings.classes is None else Path(settings.classes)
    return read_scenes(
        Path(settings.data), Path(settings.masks), classes=classes, ignore=settings.ignore, cluster=settings.cluster
    )


def split(scenes: Scenes, seed: int) -> tuple[list[int], list[int]]:
    """Rows to learn from and to test on, whole groups each; about a fifth tests, whatever the sizes of groups."""
    fold = group_folds(_numbers(scenes.groups), TEST_FOLDS, seed + 1)
    sizes = torch.bincount(fold).float()
    aside = fold == (sizes - len(fold) / TEST_FOLDS).abs().argmin()
    learn, test = ((aside == side).nonzero().reshape(-1).tolist() for side in (False, True))
    if len({scenes.groups[row] for row in learn}) < 2:
        groups = len(set(scenes.groups))
        raise InputError("--cluster", f"{groups} clusters", "at least 3: two to learn from in turn, one to evaluate on")
    return learn, test


def _numbers(groups: Sequence[str]) -> Tensor:
    return torch.from_numpy(np.unique(np.array(groups, dtype=str), return_inverse=True)[1])


def evaluated(run: MaskRun, scenes: Scenes, rows: Sequence[int], measure: str, stop: Stop) -> PixelsPart:
    """Test pictures at their own size: of the data set, by class and by picture, with intervals over pictures."""
    counts = torch.zeros(len(rows), 3, len(run.classes), dtype=torch.float64)
    for picture, row in zip(counts, rows, strict=True):
        end_if(stop())
        decided, truth = run.decide(scenes.pictures, row), scenes.mask(row)
        inside = truth != IGNORED
        a, b = decided[inside], truth[inside]
        for number, ids in enumerate((a[a == b], a, b)):
            picture[number] = torch.from_numpy(np.bincount(ids, minlength=len(run.classes)))
    own = torch.ones(len(run.classes), dtype=torch.bool)
    if len(run.classes) == 2:
        own[0] = False

    def value(drawn: Tensor) -> float:
        total = drawn.sum(0)
        return float(class_ratios(total, measure)[own & (total[2] > 0)].mean())

    each = torch.where(counts[:, 2] > 0, class_ratios(counts.transpose(0, 1), measure), torch.nan)
    by_image = each[:, own].nanmean(1)
    shares, ratios = counts[:, 2].sum(0) / counts[:, 2].sum(), class_ratios(counts.sum(0), measure)
    return PixelsPart(
        metric=value(counts),
        interval=bootstrap_interval(lambda drawn: value(counts[drawn]), len(rows), seed=run.settings.seed),
        classes=dict(zip(run.classes, ratios.tolist(), strict=True)),
        shares=dict(zip(run.classes, shares.tolist(), strict=True)),
        by_image=float(by_image.nanmean()),
        images={scenes.pictures.names[row]: float(ratio) for row, ratio in zip(rows, by_image, strict=True)},
    )


def load_run(folder: Path) -> MaskRun:
    """Raises `InputError` for an unfinished or damaged run, or one of another kind."""
    with finished_run(folder, MasksTask.kind, "a run with --masks") as (config, settings):
        document = checkpoint.read_json(folder / MASKS)
        tensors, facts = checkpoint.load(folder / "model.safetensors")
        with checkpoint.reading(folder / MASKS):
            classes = [str(name) for name in config["classes"]]
            values = torch.tensor([float(value) for value in document["offsets"]], dtype=torch.float64)
            if len(values) != len(classes):
                raise ValueError("offsets of other classes")
            cross_validated = float("nan") if document["promised"] is None else float(document["promised"])
            offsets = Offsets(values, float(document["argmax"]), cross_validated, str(document["text"]))
            height, width = (int(side) for side in config["size"])
            if not (height > 0 and width > 0 and height * width <= MOST_PIXELS):
                raise ValueError(f"pictures of {height} x {width}")
        with checkpoint.reading(folder / "model.safetensors"):
            networks = []
            for fold in range(int(facts["folds"])):
                network = make_network([int(channels) for channels in document["channels"]], len(classes))
                network.load_state_dict(checkpoint.take(tensors, str(fold)))
                networks.append(network.eval())
    return MaskRun(settings, classes, (height, width), MaskFit(networks, offsets, torch.zeros(0)))
