"""VOC 2012 detection as in `voc2012_detection`: pictures, truth, windows by selective search, pooled features.

Windows and features of a part are computed once and kept in the temporary folder; both need packages that the library
does not (opencv-contrib-python-headless for the windows).
"""

from __future__ import annotations

import importlib
import io
import json
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from aimfor.data.backbones import LITE0, load_backbone
from aimfor.errors import InputError

from .average_precision import Detected
from .boxes import Boxes, checked, overlaps, pooled

#: A picture (longest side 224) is doubled, so that a cell of the deepest map covers 16 of its pixels.
SCALE, CANVAS = 2, 448
#: Strides of the maps that are pooled, in pixels of the doubled picture.
STRIDES = (16, 32)
#: Each window is pooled by itself and with this much of its sides around it.
AROUND = 0.25
#: Pictures that are kept at once; windows of less than this side are left out, as in R-CNN's own list.
BLOCK, LEAST = 48, 10


@dataclass(frozen=True)
class Part:
    """One part: for each picture its windows, and the truth.

    Attributes:
        images: ``(i,)`` ids.
        windows: One ``(w, 4)`` array a picture.
        boxes: One ``(t, 4)`` array of true boxes a picture.
        classes: Their class ids, 0 … 19.
        difficult: Whether each is difficult.
        names: The twenty classes.
    """

    images: list[int]
    windows: list[Boxes]
    boxes: list[Boxes]
    classes: list[np.ndarray[Any, Any]]
    difficult: list[np.ndarray[Any, Any]]
    names: tuple[str, ...]


def truth(path: Path) -> tuple[dict[int, tuple[str, int, int]], dict[int, list[dict[str, Any]]], tuple[str, ...]]:
    """Pictures by id, true boxes by picture, and names of a COCO file.

    Raises:
        InputError: A box without area or outside its picture, an unknown picture or class, an id twice in any list.
    """
    raw = json.loads(path.read_text(encoding="utf8"))
    for kind in ("images", "categories", "annotations"):
        ids = [record["id"] for record in raw[kind]]
        if len(set(ids)) < len(ids):
            raise InputError(kind, f"{len(ids) - len(set(ids))} ids twice in {path.name}", "each id once")
    pictures = {
        int(record["id"]): (str(record["file_name"]), int(record["width"]), int(record["height"]))
        for record in raw["images"]
    }
    names = {int(record["id"]): str(record["name"]) for record in raw["categories"]}
    by_picture: dict[int, list[dict[str, Any]]] = {number: [] for number in pictures}
    for record in raw["annotations"]:
        if record["image_id"] not in by_picture or record["category_id"] not in names:
            came = f"a box of picture {record['image_id']} and class {record['category_id']} in {path.name}"
            raise InputError("annotations", came, "ids that the file lists")
        x, y, w, h = record["bbox"]
        _, width, height = pictures[record["image_id"]]
        # Corners are stored to 0.01 of a pixel.
        box = checked("annotations", np.array([[x, y, x + w, y + h]]), (width + 0.02, height + 0.02))[0]
        by_picture[record["image_id"]].append(
            {**record, "box": box, "class": sorted(names).index(record["category_id"])}
        )
    return pictures, by_picture, tuple(names[number] for number in sorted(names))


def detections(
    records: list[dict[str, Any]], pictures: dict[int, tuple[str, int, int]], names: tuple[str, ...]
) -> list[dict[int, Detected]]:
    """What a detector found, as COCO's list of results: for each class its boxes by picture, all pictures in it.

    Raises:
        InputError: An unknown picture or class, an id twice, a score that is no number, or a box without area or
            outside its picture.
    """
    ids = [record["id"] for record in records if "id" in record]
    if len(set(ids)) < len(ids):
        raise InputError("results", f"{len(ids) - len(set(ids))} ids twice", "each id once")
    of_class_and_picture: list[dict[int, list[tuple[Boxes, float]]]] = [
        {number: [] for number in pictures} for _ in names
    ]
    for record in records:
        picture, kind, score = record["image_id"], record["category_id"], float(record["score"])
        if picture not in pictures or not 1 <= kind <= len(names):
            raise InputError("results", f"a box of picture {picture} and class {kind}", "ids that the truth lists")
        if not np.isfinite(score):
            raise InputError("results", f"the score {score} in picture {picture}", "a finite number")
        x, y, w, h = record["bbox"]
        box = checked("results", np.array([[x, y, x + w, y + h]]), pictures[picture][1:])
        of_class_and_picture[kind - 1][picture].append((box, score))
    empty = np.zeros((0, 4))
    return [
        {
            number: Detected(np.concatenate([empty, *(box for box, _ in some)]), np.array([score for _, score in some]))
            for number, some in of_class.items()
        }
        for of_class in of_class_and_picture
    ]


def load(folder: Path, split: str, most: int | None = None) -> tuple[Part, list[np.ndarray[Any, Any]]]:
    """The part, or ``most`` of its pictures drawn at random, and features ``(w, d)`` float16 of the windows.

    Both come from the temporary folder, or are made there.
    """
    some = "" if most is None else f"_{most}"
    store = Path(tempfile.gettempdir()) / "aimfor" / f"voc_detection_{split}_{SCALE}_{AROUND}{some}.npz"
    pictures, by_picture, names = truth(folder / "voc2012_detection" / f"{split}.json")
    drawn = np.random.default_rng(0).permutation(sorted(pictures))[:most]
    pictures = {int(number): pictures[int(number)] for number in drawn}
    if not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        _make(folder / "voc2012_detection" / f"{split}.zip", pictures, store)
    raw = np.load(store)
    ends = raw["counts"].cumsum()
    windows = np.split(raw["windows"].astype(np.float64), ends[:-1])
    ids = [int(number) for number in raw["images"]]
    loaded = Part(
        ids,
        windows,
        [np.array([record["box"] for record in by_picture[number]]).reshape(-1, 4) for number in ids],
        [np.array([record["class"] for record in by_picture[number]], dtype=np.int64) for number in ids],
        [np.array([record["difficult"] for record in by_picture[number]], dtype=bool) for number in ids],
        names,
    )
    return loaded, np.split(raw["features"], ends[:-1])


def _make(archive: Path, pictures: dict[int, tuple[str, int, int]], store: Path) -> None:
    """In blocks of pictures that are kept, so that a stopped run goes on where it stopped."""
    ids, blocks = sorted(pictures), []
    for start in range(0, len(ids), BLOCK):
        block = store.with_suffix(f".{start}.npz")
        if not block.exists():
            _make_block(archive, pictures, ids[start : start + BLOCK], block)
        blocks.append(np.load(block))
    _save(store, {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0].files})
    for start in range(0, len(ids), BLOCK):
        store.with_suffix(f".{start}.npz").unlink()


def _save(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """All of it or nothing."""
    temporary = path.with_suffix(".part.npz")
    np.savez(temporary, **arrays)  # type: ignore[arg-type]
    temporary.rename(path)


def _make_block(archive: Path, pictures: dict[int, tuple[str, int, int]], ids: list[int], store: Path) -> None:
    windows, features = [], []
    network = load_backbone(LITE0)
    with zipfile.ZipFile(archive) as packed:
        for start in range(0, len(ids), 16):
            some = ids[start : start + 16]
            read = [np.asarray(Image.open(io.BytesIO(packed.read(pictures[number][0])))) for number in some]
            boxes = [searched(picture) for picture in read]
            features += features_of(network, read, boxes)
            windows += boxes
    _save(
        store,
        {
            "images": np.array(ids),
            "counts": np.array([len(boxes) for boxes in windows]),
            "windows": np.concatenate(windows).astype(np.int16),
            "features": np.concatenate(features),
        },
    )


def searched(picture: np.ndarray[Any, Any]) -> Boxes:
    """Windows of selective search in its fast mode (Uijlings 2013), in order of the search."""
    try:
        cv2: Any = importlib.import_module("cv2")
        search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    except (ImportError, AttributeError):
        raise InputError(
            "windows", "no cv2.ximgproc", "selective search", "pip install opencv-contrib-python-headless."
        ) from None
    cv2.setNumThreads(1)
    cv2.setRNGSeed(0)
    search.setBaseImage(np.ascontiguousarray(picture[..., ::-1]))
    search.switchToSelectiveSearchFast()
    boxes = np.asarray(search.process(), dtype=np.float64)
    boxes[:, 2:] += boxes[:, :2]
    large = (boxes[:, 2:] - boxes[:, :2]).min(1) >= LEAST
    kept: Boxes = np.unique(boxes[large], axis=0)
    return kept


def features_of(network: Any, pictures: list[np.ndarray[Any, Any]], windows: list[Boxes]) -> list[np.ndarray[Any, Any]]:
    """Means over each window, and over it with its surroundings, of two feature maps of EfficientNet-Lite0."""
    canvas = np.full((len(pictures), CANVAS, CANVAS, 3), 127, dtype=np.uint8)
    for number, picture in enumerate(pictures):
        h, w = SCALE * picture.shape[0], SCALE * picture.shape[1]
        canvas[number, :h, :w] = np.asarray(Image.fromarray(picture).resize((w, h), Image.Resampling.BILINEAR))
    levels = {CANVAS // level.shape[-1]: level for level in network.maps(canvas)}
    of_pictures = []
    for number, (picture, boxes) in enumerate(zip(pictures, windows, strict=True)):
        h, w = SCALE * picture.shape[0], SCALE * picture.shape[1]
        inner = torch.from_numpy(SCALE * boxes)
        sides = inner[:, 2:] - inner[:, :2]
        outer = torch.cat((inner[:, :2] - AROUND * sides, inner[:, 2:] + AROUND * sides), 1)
        outer = outer.clamp_min(0).minimum(torch.tensor([w, h, w, h]))
        pieces = [pooled(levels[stride][number], area / stride) for stride in STRIDES for area in (inner, outer)]
        of_pictures.append(torch.cat(pieces, 1).half().numpy())
    return of_pictures


def labelled(pictures: Part, number: int, least: float = 0.5) -> np.ndarray[Any, Any]:
    """Of each window of a picture: the class of the true box that it overlaps most, from ``least`` on; −1 for
    background, −2 where that box is difficult, which neither counts nor is punished."""
    windows, boxes = pictures.windows[number], pictures.boxes[number]
    if not len(boxes):
        return np.full(len(windows), -1, dtype=np.int64)
    overlap = overlaps(windows, boxes)
    best = overlap.argmax(1)
    labels = np.where(pictures.difficult[number][best], -2, pictures.classes[number][best])
    return np.where(overlap.max(1) >= least, labels, -1)


def geometry(windows: Boxes) -> torch.Tensor:
    """Size, shape and place of each window of a picture, ``(w, 8)``, about of size 1; the windows span the picture."""
    wide, high = windows[:, 2].max(), windows[:, 3].max()
    sides = windows[:, 2:] - windows[:, :2]
    size, shape = np.log(sides.prod(1) / (wide * high)), np.log(sides[:, 0] / sides[:, 1])
    position = windows / np.array([wide, high, wide, high])
    columns = (size / 1.5 + 2, np.square(size) / 10 - 1, shape, np.square(shape) - 0.5)
    return torch.from_numpy(np.concatenate((np.stack(columns, 1), position), 1)).float()
