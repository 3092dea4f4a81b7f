"""A run on masks: what `aimfor train --masks` writes, and what `predict` reads back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.backbones import WORTH, is_backbone, load_backbone
from ...fitting.committee import FolderStore
from ...fitting.config import Settings
from ...fitting.intervals import bootstrap_interval
from ...fitting.masks.fit import IGNORED, MaskFit, Masks, fit_masks, group_folds
from ...fitting.masks.networks import Decoder, enlarged, make_network
from ...fitting.offsets import Offsets, class_ratios
from ..data.images import SUFFIXES
from ..data.pictures import MOST_PIXELS, Pictures
from ..data.tables import check_size
from ..run.committee_files import CELLS, forget_cells
from ..run.folder import check_finished, check_unchanged, fingerprint_of, new_run, stopped_run
from .data import Scenes, coarse, common_size, read_scenes, sized

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


def train(settings: Settings, out: Path | None) -> tuple[Path, Scenes, tuple[int, int]]:
    """Checks everything, then makes the folder and writes config.json."""
    if settings.metric not in MEASURES:
        raise InputError("--metric", repr(settings.metric), f"one of {', '.join(MEASURES)} for masks")
    if is_backbone(settings.model):
        load_backbone(settings.model)
    elif settings.model != "auto":
        raise InputError("--model", repr(settings.model), "efficientnet-lite0, timm/NAME, or nothing, for masks")
    scenes = scenes_of(settings)
    split(scenes, settings.seed)
    size = common_size(scenes.pictures, settings.image_size or SIDE)
    check_size(Path(settings.data), len(scenes.pictures) * size[0] * size[1] * 6)
    name, facts = (
        Path(settings.data).resolve().name,
        {"classes": scenes.classes, "size": list(size), "fingerprint": _fingerprint(settings, scenes)},
    )
    return new_run(out, f"{name}-{settings.metric}", "masks", settings, **facts), scenes, size


def reopen(folder: Path) -> tuple[Settings, Scenes, tuple[int, int]]:
    config, settings = stopped_run(folder)
    scenes = scenes_of(settings)
    check_unchanged(folder, config, _fingerprint(settings, scenes))
    return settings, scenes, _size_of(config)


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
        Path(settings.data), Path(settings.masks), classes=classes, ignore=settings.ignore, group=settings.group
    )


def split(scenes: Scenes, seed: int) -> tuple[list[int], list[int]]:
    """Rows to learn from and to test on, whole groups each; about a fifth tests, whatever the sizes of groups."""
    fold = group_folds(_numbers(scenes.groups), TEST_FOLDS, seed + 1)
    sizes = torch.bincount(fold).float()
    aside = int((sizes - len(fold) / TEST_FOLDS).abs().argmin())
    parts = [(fold == aside).nonzero().reshape(-1).tolist(), (fold != aside).nonzero().reshape(-1).tolist()]
    if len({scenes.groups[row] for row in parts[1]}) < 2:
        groups = len(set(scenes.groups))
        raise InputError("--group", f"{groups} groups", "at least 3: two to learn from in turn, one to evaluate on")
    return parts[1], parts[0]


def _numbers(groups: Sequence[str]) -> Tensor:
    known = {name: number for number, name in enumerate(sorted(set(groups)))}
    return torch.tensor([known[name] for name in groups])


def finish(
    folder: Path,
    settings: Settings,
    scenes: Scenes,
    size: tuple[int, int],
    tell: Callable[[int, int], None] | None,
    stop: Callable[[], bool],
) -> dict[str, Any]:
    """Learns what is not in the folder yet, evaluates, writes every file; metrics.json last."""
    began = time.monotonic()
    learn, test = split(scenes, settings.seed)
    maps = maps_of(scenes.pictures, learn, settings.model, size)
    grid = (maps[0].shape[2], maps[0].shape[3])
    if not is_backbone(settings.model):
        grid = (grid[0] // 2, grid[1] // 2)
    y = torch.from_numpy(np.stack([coarse(scenes.mask(row), grid) for row in learn]))
    data = Masks(maps, y, _numbers([scenes.groups[row] for row in learn]))
    binary, measure = len(scenes.classes) == 2, MEASURES[settings.metric]
    fit = fit_masks(
        data,
        len(scenes.classes),
        epochs=settings.epochs or (12 if is_backbone(settings.model) else 30),
        seed=settings.seed,
        counted=[False, True] if binary else None,
        measure=measure,
        store=FolderStore(folder / CELLS),
        tell=tell,
        stop=stop,
    )
    run = MaskRun(settings, scenes.classes, size, fit)
    metrics = {
        "metric": settings.metric,
        "test": evaluated(run, scenes, test, measure),
        "out_of_fold": {"argmax": fit.offsets.argmax, "offsets": fit.offsets.promised, "text": fit.offsets.text},
        "pictures": {"train": len(learn), "test": len(test), "folds": len(fit.networks)},
        "offsets": dict(zip(scenes.classes, fit.offsets.values.tolist(), strict=True)),
        "notes": [*scenes.notes, *([] if is_backbone(settings.model) else [WORTH.split(";")[0]])],
        "seconds": round(time.monotonic() - began, 3),
    }
    save(folder, run)
    checkpoint.write_json(folder / "metrics.json", metrics)
    forget_cells(folder)
    return metrics


def evaluated(run: MaskRun, scenes: Scenes, rows: Sequence[int], measure: str) -> dict[str, Any]:
    """Test pictures at their own size: of the data set, by class and by picture, with intervals over pictures."""
    counts = torch.zeros(len(rows), 3, len(run.classes), dtype=torch.float64)
    for place, row in enumerate(rows):
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
    return {
        "metric": value(counts),
        "interval": bootstrap_interval(lambda drawn: value(counts[drawn]), len(rows), seed=run.settings.seed),
        "classes": dict(zip(run.classes, class_ratios(counts.sum(0), measure).tolist(), strict=True)),
        "shares": dict(zip(run.classes, (counts[:, 2].sum(0) / counts[:, 2].sum()).tolist(), strict=True)),
        "by_image": float(by_image.nanmean()),
        "images": {scenes.pictures.names[row]: float(one) for row, one in zip(rows, by_image, strict=True)},
    }


def save(folder: Path, run: MaskRun) -> None:
    """Weights, and the offsets that decide."""
    tensors = {
        f"{fold}.{name}": one for fold, net in enumerate(run.fit.networks) for name, one in net.state_dict().items()
    }
    checkpoint.save(folder / "model.safetensors", tensors, {"folds": len(run.fit.networks)})
    offsets = run.fit.offsets
    document = {"offsets": offsets.values.tolist(), "argmax": offsets.argmax, "promised": offsets.promised}
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
        promised = float("nan") if document["promised"] is None else float(document["promised"])
        offsets = Offsets(values, float(document["argmax"]), promised, str(document["text"]))
        size = _size_of(config)
    with checkpoint.reading(folder / "model.safetensors"):
        networks = []
        for fold in range(int(facts["folds"])):
            network = make_network([int(one) for one in document["channels"]], len(classes))
            network.load_state_dict(checkpoint.take(tensors, str(fold)))
            networks.append(network.eval())
    return MaskRun(settings, classes, size, MaskFit(networks, offsets, torch.zeros(0)))
