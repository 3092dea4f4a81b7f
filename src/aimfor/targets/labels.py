"""Pictures of several labels dealt to two parts so that every label has its share in both.

Iterative stratification (Sechidis, Tsoumakas and Vlahavas 2011): the label with the fewest pictures left is dealt
first, each picture to the part that lacks most of that label. A coin leaves a rare label without a test picture.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def stratified(labels: NDArray[np.bool_], share: float, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which rows are the part of ``share``.

    Args:
        labels: ``(n, c)``, whether a row has a label.
        share: Between 0 and 1.
        random: Decides between equals.

    Example:
        >>> labels = np.arange(20)[:, None] < 5
        >>> test = stratified(labels, 0.2, np.random.default_rng(0))
        >>> int(test.sum()), int(labels[test].sum())
        (4, 1)
    """
    shares = np.array([1.0 - share, share])
    wanted, room = shares[:, None] * labels.sum(0), shares * len(labels)
    part = np.full(len(labels), -1)
    order = random.permutation(len(labels))
    while True:
        left = labels[part < 0].sum(0)
        label = int(np.argmin(np.where(left > 0, left, len(labels) + 1))) if left.any() else None
        rows = order[part[order] < 0]
        for row in rows if label is None else rows[labels[rows, label]]:
            lacks = room if label is None else wanted[:, label]
            best = np.flatnonzero(lacks == lacks.max())
            best = best[room[best] == room[best].max()]
            side = int(random.choice(best))
            part[row] = side
            room[side] -= 1
            wanted[side] -= labels[row]
        if label is None:
            return np.asarray(part == 1)
