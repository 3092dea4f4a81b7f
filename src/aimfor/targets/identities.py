"""Pictures found by their likeness: classes that learn and classes that test, and how near each is to its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..data.backbones import is_backbone, load_backbone
from ..data.features import SIDE, Work, trained_with
from ..data.pictures import Pictures
from ..data.settings import Settings
from ..data.source import Source
from ..data.tables import check_size
from ..errors import InputError
from .objective import depth_of

#: Side of small copies of the pictures where no backbone is named.
SMALL = 32
#: One class in so many is kept for the test.
TEST_CLASSES = 5
#: Classes at least: two to learn from, two to test on. With six or more the metric has classes to choose by.
LEAST, LEAST_TO_CHOOSE = 4, 6
#: Similarities held at a time: 64 MB in float32.
BLOCK = 1 << 24


@dataclass(frozen=True)
class Gallery:
    """Pictures with classes.

    Attributes:
        pictures: By reference.
        names: Of the classes, sorted.
        y: ``(n,)`` class ids.
        test: ``(c,)`` True for classes of the test.
        notes: What was assumed.
    """

    pictures: Pictures
    names: list[str]
    y: NDArray[np.int64]
    test: NDArray[np.bool_]
    notes: list[str]

    def rows(self, *, test: bool) -> NDArray[np.int64]:
        return np.flatnonzero(self.test[self.y] == test)


def gallery_of(settings: Settings, source: Source) -> Gallery:
    """Checks the classes and splits them.

    Raises:
        InputError: No classes, fewer than four, or one with a single picture.
    """
    assert source.labels is not None
    if source.labels.ndim > 1:
        raise InputError("target", "several labels at once", "one column of classes, for neighbours of one's own class")
    labels = source.labels.astype(str)
    names, y = np.unique(labels, return_inverse=True)
    if len(names) < LEAST:
        raise InputError(
            "data", f"{len(names)} classes", f"at least {LEAST}: two to learn from and two others to evaluate on"
        )
    single = names[np.bincount(y) < 2].tolist()
    if single:
        some = ", ".join(single[:3]) + (", …" if len(single) > 3 else "")
        raise InputError(
            "data",
            f"{some} with one picture",
            "at least two pictures of every class, to be found by each other",
            "Add pictures, or move such classes away.",
        )
    notes = list(source.notes)
    test = _test_classes(source, y, len(names), settings.seed, notes)
    if len(names) < LEAST_TO_CHOOSE:
        notes.append(
            f"{LEAST_TO_CHOOSE} classes or more would let the metric choose the embedding; there are too few here"
        )
    gallery = Gallery(source.as_pictures(), names.tolist(), y.astype(np.int64), test, notes)
    length = len(gallery.rows(test=True)) - 1
    if depth_of(settings.metric) > length:
        raise InputError(
            "--metric", f"{settings.metric} with lists of {length}", "a k within the lists of test classes"
        )
    return gallery


def _test_classes(source: Source, y: NDArray[np.int64], classes: int, seed: int, notes: list[str]) -> NDArray[np.bool_]:
    """Those the data sets aside, where no class is on both sides; else a fifth, at least two."""
    if source.test is not None:
        inside = np.bincount(y, weights=source.test, minlength=classes) / np.bincount(y, minlength=classes)
        if set(np.unique(inside)) == {0.0, 1.0} and min((inside == side).sum() for side in (0, 1)) >= 2:
            return np.asarray(inside == 1.0)
        notes.append("train and test folders share classes, so that other classes are kept aside for testing")
    test = np.zeros(classes, dtype=bool)
    test[np.random.default_rng([seed, 20240611]).permutation(classes)[: max(2, round(classes / TEST_CLASSES))]] = True
    return test


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes numbers: features of a backbone, or pixels of a small copy.

    Attributes:
        model: Name of the backbone; ``auto`` for pixels.
        side: Pixels.
        weights: Hash of the backbone's weights, empty for pixels.
    """

    model: str
    side: int
    weights: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Preprocessing:
        if is_backbone(settings.model):
            return cls(settings.model, settings.image_size or SIDE, load_backbone(settings.model).digest)
        return cls("auto", settings.image_size or SMALL)

    @property
    def shape(self) -> tuple[int, ...]:
        return (load_backbone(self.model).width,) if self.weights else (3, self.side, self.side)

    def see(self, pictures: Pictures, work: Work) -> Tensor:
        """``(n, d)`` features, or ``(n, 3, side, side)`` pixels about 0."""
        if not self.weights:
            check_size(Path("pictures"), len(pictures) * self.side**2 * 12)
            pixels = np.stack([pictures.square(row, self.side) for row in range(len(pictures))])
            return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(127.5).sub(1.0).contiguous()
        return torch.from_numpy(work.features(pictures, trained_with(self.model, self.weights), self.side))


class Nearest(NamedTuple):
    """Row numbers ``(n, k)``, the nearest first, and their cosines."""

    indices: Tensor
    cosines: Tensor


def nearest(vectors: Tensor, k: int, *, block: int = BLOCK) -> Nearest:
    """The k other vectors with the largest cosine, of each.

    Raises:
        InputError: Fewer others than k.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> nearest(x, 1).indices.reshape(-1).tolist()
        [1, 0, 1]
    """
    n = len(vectors)
    if k > n - 1:
        raise InputError("k", repr(k), f"at most {n - 1}, the vectors there are to find")
    unit = functional.normalize(vectors.float())
    blocks = [(rows @ unit.t()).topk(k + 1, dim=1) for rows in unit.split(max(1, block // n))]
    cosines, indices = (torch.cat(values) for values in zip(*blocks, strict=True))
    own = indices == torch.arange(n)[:, None]
    own[:, -1] |= ~own.any(1)  # where copies pushed a vector itself off its list, the last one goes instead
    return Nearest(indices[~own].reshape(-1, k), cosines[~own].reshape(-1, k))


def query_values(vectors: Tensor, labels: Tensor, depths: tuple[int, ...]) -> dict[str, Tensor]:
    """``map@r``, ``r_precision`` and ``recall@k`` of each vector's list of all others, ``(n,)`` float64; NaN without a
    positive.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> query_values(x, torch.tensor([0, 0, 1, 1]), (1,))["recall@1"].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    sizes = labels.bincount()[labels] - 1
    hit = labels[nearest(vectors, max(int(sizes.max()), *depths, 1)).indices] == labels[:, None]
    rank = torch.arange(1, hit.shape[1] + 1)
    inside = hit & (rank <= sizes[:, None])
    share = sizes.double()
    values = {
        "map@r": (inside * (hit.cumsum(1).double() / rank)).sum(1) / share,
        "r_precision": inside.sum(1).double() / share,
        **{f"recall@{k}": hit[:, :k].any(1).double() for k in depths},
    }
    return {name: torch.where(sizes > 0, value, torch.nan) for name, value in values.items()}
