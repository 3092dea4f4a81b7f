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
from ..learners.masks.fit import MaskFit, Masks, fit_masks, group_folds
from ..learners.masks.networks import LOSSES, Decoder, enlarged, make_network
from ..learners.networks.loop import end_if
from ..targets.intervals import bootstrap_interval
from ..targets.offsets import Offsets, class_ratios
from ..targets.pixels import IGNORED, Scenes, coarse, common_size, read_scenes, sized
from .evaluation import OutOfFold, PixelsEvaluation, PixelsPart
from .folder import check_finished, check_sealed, fingerprint_of
from .kinds import Reading
from .sheets import mask_sheets
from .task import CELLS, Step, Stop, Task, Tell

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
    parts: list[list[Tensor]] = []
    for start in range(0, len(rows), 16):
        pixels = np.stack([sized(pictures, row, size) for row in rows[start : start + 16]])
        plain = torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
        found = [plain] if backbone is None else backbone.maps(pixels)
        parts.append([one.half().contiguous() for one in found])
    return tuple(torch.cat(level) for level in zip(*parts, strict=True))


def of_scenes(reading: Reading) -> MasksTask:
    """Pictures and masks of two folders."""
    return MasksTask(reading.settings)


class MasksTask(Task):
    """Pictures × a class for every pixel × the mask network."""

    kind = "masks"

    def __init__(self, settings: Settings) -> None:
        if settings.metric not in MEASURES:
            raise InputError("--metric", repr(settings.metric), f"one of {', '.join(MEASURES)} for masks")
        if is_backbone(settings.model):
            load_backbone(settings.model)
        elif settings.model != "auto":
            raise InputError("--model", repr(settings.model), "efficientnet-lite0, timm/NAME, or nothing, for masks")
        self.settings, self.name = settings, Path(settings.data).resolve().name
        self.scenes = scenes_of(settings)
        self.rows, self.test = split(self.scenes, settings.seed)
        self.size = common_size(self.scenes.pictures, settings.image_size or SIDE)
        check_size(Path(settings.data), len(self.scenes.pictures) * self.size[0] * self.size[1] * 6)

    @property
    def notes(self) -> list[str]:
        return [*self.scenes.notes, *([] if is_backbone(self.settings.model) else [WORTH.split(";")[0]])]

    @property
    def facts(self) -> dict[str, Any]:
        return {"classes": self.scenes.classes, "size": list(self.size)}

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.settings, self.scenes)

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
        save(folder, fitted)

    def sheets(self, fitted: MaskRun, evaluation: PixelsEvaluation) -> list[dict[str, Any]]:
        return mask_sheets(fitted, self.scenes, evaluation.test.images)


def _fingerprint(settings: Settings, scenes: Scenes) -> str:
    """Of the classes, and of every picture and mask by name and content."""
    assert settings.masks is not None
    found = []
    for root in (Path(settings.data), Path(settings.masks)):
        inside = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
        files = [root] if root.is_file() else inside
        found += [[one.relative_to(root).as_posix(), hashlib.sha256(one.read_bytes()).hexdigest()] for one in files]
    return fingerprint_of(scenes.classes, found)


def _size_of(config: dict[str, Any]) -> tuple[int, int]:
    """Height and width of the pictures that the networks see. Raises `ValueError` for a size that no run has."""
    height, width = (int(one) for one in config["size"])
    if not (height > 0 and width > 0 and height * width <= MOST_PIXELS):
        raise ValueError(f"pictures of {height} x {width}")
    return height, width


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
    aside = int((sizes - len(fold) / TEST_FOLDS).abs().argmin())
    parts = [(fold == aside).nonzero().reshape(-1).tolist(), (fold != aside).nonzero().reshape(-1).tolist()]
    if len({scenes.groups[row] for row in parts[1]}) < 2:
        groups = len(set(scenes.groups))
        raise InputError("--cluster", f"{groups} clusters", "at least 3: two to learn from in turn, one to evaluate on")
    return parts[1], parts[0]


def _numbers(groups: Sequence[str]) -> Tensor:
    known = {name: number for number, name in enumerate(sorted(set(groups)))}
    return torch.tensor([known[name] for name in groups])


def evaluated(run: MaskRun, scenes: Scenes, rows: Sequence[int], measure: str, stop: Stop) -> PixelsPart:
    """Test pictures at their own size: of the data set, by class and by picture, with intervals over pictures."""
    counts = torch.zeros(len(rows), 3, len(run.classes), dtype=torch.float64)
    for place, row in enumerate(rows):
        end_if(stop())
        called, truth = run.decide(scenes.pictures, row), scenes.mask(row)
        inside = truth != IGNORED
        a, b = called[inside], truth[inside]
        for number, ids in enumerate((a[a == b], a, b)):
            counts[place, number] = torch.from_numpy(np.bincount(ids, minlength=len(run.classes)))
    own = torch.ones(len(run.classes), dtype=torch.bool)
    if len(run.classes) == 2:
        own[0] = False

    def value(part: Tensor) -> float:
        total = part.sum(0)
        return float(class_ratios(total, measure)[own & (total[2] > 0)].mean())

    by_image = torch.where(counts[:, 2] > 0, class_ratios(counts.transpose(0, 1), measure), torch.nan)[:, own].nanmean(
        1
    )
    shares, ratios = counts[:, 2].sum(0) / counts[:, 2].sum(), class_ratios(counts.sum(0), measure)
    return PixelsPart(
        metric=value(counts),
        interval=bootstrap_interval(lambda drawn: value(counts[drawn]), len(rows), seed=run.settings.seed),
        classes=dict(zip(run.classes, ratios.tolist(), strict=True)),
        shares=dict(zip(run.classes, shares.tolist(), strict=True)),
        by_image=float(by_image.nanmean()),
        images={scenes.pictures.names[row]: float(one) for row, one in zip(rows, by_image, strict=True)},
    )


def save(folder: Path, run: MaskRun) -> None:
    """Weights, and the offsets that decide."""
    tensors = {
        f"{fold}.{name}": one for fold, net in enumerate(run.fit.networks) for name, one in net.state_dict().items()
    }
    checkpoint.save(folder / "model.safetensors", tensors, {"folds": len(run.fit.networks)})
    offsets = run.fit.offsets
    document = {"offsets": offsets.values.tolist(), "argmax": offsets.argmax, "promised": offsets.cross_validated}
    channels = _channels(run.fit)
    checkpoint.write_json(folder / MASKS, {**document, "text": offsets.text, "channels": channels})


def _channels(fit: MaskFit) -> list[int]:
    """Of the maps a network takes; 3 alone where it has an encoder of its own."""
    network = fit.networks[0]
    return [one.in_channels for one in network.sides] if isinstance(network, Decoder) else [3]  # type: ignore[misc]


def load_run(folder: Path) -> MaskRun:
    """Raises `InputError` for an unfinished or damaged run."""
    config = checkpoint.read_json(folder / "config.json")
    check_finished(folder)
    document = checkpoint.read_json(folder / MASKS)
    tensors, facts = checkpoint.load(folder / "model.safetensors")
    with checkpoint.reading(folder / MASKS):
        settings, classes = Settings.stored(config["settings"]), [str(one) for one in config["classes"]]
        values = torch.tensor([float(one) for one in document["offsets"]], dtype=torch.float64)
        if len(values) != len(classes):
            raise ValueError("offsets of other classes")
        cross_validated = float("nan") if document["promised"] is None else float(document["promised"])
        offsets = Offsets(values, float(document["argmax"]), cross_validated, str(document["text"]))
        size = _size_of(config)
    with checkpoint.reading(folder / "model.safetensors"):
        networks = []
        for fold in range(int(facts["folds"])):
            network = make_network([int(one) for one in document["channels"]], len(classes))
            network.load_state_dict(checkpoint.take(tensors, str(fold)))
            networks.append(network.eval())
    check_sealed(folder)
    return MaskRun(settings, classes, size, MaskFit(networks, offsets, torch.zeros(0)))
