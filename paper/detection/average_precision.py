"""Average precision of boxes by the rules of VOC 2010–2012 and of COCO (one overlap, all areas)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aimfor.errors import InputError

from .boxes import Boxes, checked, overlaps

RULES = ("voc", "coco")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Truth:
    """True boxes of one class in one picture, and which of them are difficult."""

    boxes: Boxes
    difficult: Array


@dataclass(frozen=True)
class Detected:
    """Boxes of one class that a detector found in one picture, with their scores."""

    boxes: Boxes
    scores: Array


def box_ap(truth: Sequence[Truth], detected: Sequence[Detected], rule: str = "voc", overlap: float = 0.5) -> float:
    """Average precision of one class over pictures; NaN where no true box counts.

    *voc*: a box goes to the true box that it overlaps most; if that was taken before it is wrong, if it is difficult it
    neither counts nor is punished. The area under precision, made to fall, at every recall. *coco*: a box goes to the
    best true box that is still free; difficult ones count as any other; the mean of that precision at 101 recalls.
    Equal scores keep their order, and pictures theirs.

    Raises:
        InputError: An unknown rule, pictures of another number, or boxes without area.
    """
    if rule not in RULES:
        raise InputError("rule", repr(rule), "one of " + ", ".join(RULES))
    if len(truth) != len(detected):
        raise InputError("detected", f"{len(detected)} pictures", f"{len(truth)}, as the truth has")
    count = sum(int((~real.difficult).sum()) if rule == "voc" else len(real.boxes) for real in truth)
    if not count:
        return float("nan")
    scores, right, counts = [np.zeros(0)], [np.zeros(0, dtype=bool)], [np.zeros(0, dtype=bool)]
    for real, mine in zip(truth, detected, strict=True):
        if len(mine.boxes):
            order = np.argsort(-mine.scores, kind="stable")
            hit, counted = _matched(real, checked("detected", mine.boxes)[order], rule, overlap)
            scores.append(mine.scores[order])
            right.append(hit)
            counts.append(counted)
    keep = np.concatenate(counts)
    order = np.argsort(-np.concatenate(scores)[keep], kind="stable")
    hits = np.concatenate(right)[keep][order].cumsum()
    precision = hits / np.arange(1, len(hits) + 1)
    recall = hits / count
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    if rule == "coco":
        position = np.searchsorted(recall, np.linspace(0.0, 1.0, 101), side="left")
        return float(
            np.where(position < len(falling), np.append(falling, 0.0)[np.minimum(position, len(falling))], 0).mean()
        )
    return float((np.diff(recall, prepend=0.0) * falling).sum())


def _matched(truth: Truth, boxes: Boxes, rule: str, least: float) -> tuple[Array, Array]:
    """Whether each box, best first, is right, and whether it counts at all."""
    hit, counted = np.zeros(len(boxes), dtype=bool), np.ones(len(boxes), dtype=bool)
    if not len(truth.boxes):
        return hit, counted
    overlap, free = overlaps(boxes, truth.boxes), np.ones(len(truth.boxes), dtype=bool)
    for row_number, row in enumerate(overlap):
        among = np.where(free, row, -1.0) if rule == "coco" else row
        # COCO's own program takes the last of equal ones.
        best = len(row) - 1 - int(among[::-1].argmax()) if rule == "coco" else int(among.argmax())
        if among[best] < min(least, 1.0 - 1e-10):
            continue
        if rule == "voc" and truth.difficult[best]:
            counted[row_number] = False
        elif free[best]:
            hit[row_number], free[best] = True, False
    return hit, counted
