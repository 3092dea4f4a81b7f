"""Windows of pictures with features and labels, and the average precision of boxes that scores of them have."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aimfor.data.components import Components

from .boxes import overlaps
from .data import Part, geometry, labelled, load

#: Windows of a picture that a class keeps for suppression; the most that two of them may overlap; the least that finds.
KEPT, MOST, LEAST = 60, 0.3, 0.5
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Windows:
    """Features ``(w, d)`` of all windows, their labels (class, −1 background, −2 ignored), each picture's end."""

    x: Tensor
    labels: Tensor
    ends: list[int]
    part: Part

    def of(self, pictures: list[int]) -> Tensor:
        """Rows of the windows of some pictures."""
        begins = [0, *self.ends]
        return torch.cat([torch.arange(begins[picture], begins[picture + 1]) for picture in pictures])


@functools.cache
def windows(folder: Path, pictures: int = 900, unseen_pictures: int | None = None) -> tuple[Windows, Windows]:
    train, raw = load(folder, "train", pictures)
    val, more = load(folder, "val", unseen_pictures)
    everything = np.concatenate(raw)
    sample = np.random.default_rng(0).permutation(len(everything))[:20_000]
    components = Components.fit(torch.from_numpy(everything[sample]).float())
    return _windows(train, raw, components), _windows(val, more, components)


def _windows(part: Part, raw: list[np.ndarray[Any, Any]], components: Components) -> Windows:
    x = torch.cat([components(torch.from_numpy(array).float()) for array in raw]).float()
    # A mean over a window does not tell the whole of an object from a part of it; size and place do.
    x = torch.cat((x, torch.cat([geometry(boxes) for boxes in part.windows])), 1)
    labels = np.concatenate([labelled(part, picture) for picture in range(len(raw))])
    return Windows(x, torch.from_numpy(labels), list(np.cumsum([len(array) for array in raw])), part)


class Judge:
    """Average precision of boxes of each class over some pictures, after suppression.

    `average_precision.box_ap` for all classes and pictures at once: a box falls that overlaps a better one of its class
    by more than `MOST`.
    """

    def __init__(self, w: Windows, pictures: Sequence[int]) -> None:
        begins = [0, *w.ends]
        self.spans = [(begins[picture], begins[picture + 1]) for picture in pictures]
        self.rows = w.of(list(pictures))
        self.crowded = [overlaps(boxes, boxes) > MOST for boxes in (w.part.windows[picture] for picture in pictures)]
        classes, number = len(w.part.names), 0
        self.counts = np.zeros(classes, dtype=np.int64)
        self.matches: list[Array] = []
        for picture in pictures:
            match = np.full((len(w.part.windows[picture]), classes), -1)
            for class_id in range(classes):
                mine = w.part.classes[picture] == class_id
                if mine.any():
                    overlap, hard = (
                        overlaps(w.part.windows[picture], w.part.boxes[picture][mine]),
                        w.part.difficult[picture][mine],
                    )
                    best = overlap.argmax(1)
                    match[:, class_id] = np.where(overlap.max(1) < LEAST, -1, np.where(hard[best], -2, number + best))
                    number, self.counts[class_id] = number + len(hard), self.counts[class_id] + (~hard).sum()
            self.matches.append(match)

    def __call__(self, scores: Tensor) -> Array:
        """Of each class, from the scores of the rows ``(w, c)``."""
        classes = scores.shape[1]
        size = (len(self.spans), classes, KEPT)
        alive, crowded = np.zeros(size, dtype=bool), np.zeros((*size, KEPT), dtype=bool)
        value, match = np.zeros(size, dtype=np.float32), np.full(size, -1)
        begin, columns = 0, np.arange(classes)[:, None]
        for picture, (start, end) in enumerate(self.spans):
            mine = scores[begin : begin + end - start].numpy().T
            top = np.argsort(-mine, 1, kind="stable")[:, :KEPT]
            n = top.shape[1]
            alive[picture, :, :n] = True
            crowded[picture, :, :n, :n] = self.crowded[picture][top[:, :, None], top[:, None, :]]
            value[picture, :, :n], match[picture, :, :n] = mine[columns, top], self.matches[picture][top, columns]
            begin += end - start
        for k in range(KEPT - 1):
            alive[..., k + 1 :] &= ~(alive[..., k, None] & crowded[..., k, k + 1 :])
        alive &= match != -2  # a difficult box neither counts nor is punished
        each = (array.transpose(1, 0, 2) for array in (alive, value, match))
        return np.array([_ap(v[a], m[a], n) for a, v, m, n in zip(*each, self.counts, strict=True)])


def _ap(scores: Array, match: Array, count: int) -> float:
    """VOC's: the area under precision, made to fall. A true box is found once."""
    if not count:
        return float("nan")
    match = match[np.argsort(-scores, kind="stable")]
    hit = np.zeros(len(match), dtype=bool)
    boxes_found, first = np.unique(match, return_index=True)
    hit[first[boxes_found >= 0]] = True
    precision = hit.cumsum() / np.arange(1, len(hit) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(falling[hit].sum() / count)
