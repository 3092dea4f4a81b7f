"""The encoder of a source: pictures here, tables in `aimfor.data.columns`; both fitted once and stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .columns import TableEncoder
from .columns.coders import Matrix, Remarks
from .features import FeatureEncoder, Work, restore_features
from .source import Source


@dataclass
class ImageEncoder:
    """Pixels to ``(n, c, h, w)`` with zero mean and unit deviation per channel."""

    mean: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kind: str = "image"

    @classmethod
    def fit(cls, source: Source, rows: NDArray[np.int64]) -> ImageEncoder:
        assert source.images is not None
        pixels = source.images[rows].reshape(-1, source.images.shape[3]).astype(np.float64) / 255.0
        scale = np.where(pixels.std(0) > 0, pixels.std(0), 1.0)
        return cls(pixels.mean(0).tolist(), scale.tolist(), list(map(int, source.images.shape[1:])))

    @property
    def state(self) -> dict[str, Any]:
        return {"mean": self.mean, "scale": self.scale, "size": self.size, "notes": self.notes, "kind": self.kind}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size[2], self.size[0], self.size[1])

    def transform(self, source: Source) -> Matrix:
        if source.images is None:
            raise InputError("data", f"a table, {source.name}", "images, as in training")
        if list(source.images.shape[1:]) != self.size:
            raise InputError("data", f"images of shape {source.images.shape[1:]}", f"shape {tuple(self.size)}")
        mean, scale = np.array(self.mean, dtype=np.float32), np.array(self.scale, dtype=np.float32)
        scaled = (source.images.astype(np.float32) / np.float32(255.0) - mean) / scale
        return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2).astype(np.float32))


Encoder = TableEncoder | ImageEncoder | FeatureEncoder


def fit_encoder(
    source: Source,
    rows: NDArray[np.int64],
    requested: dict[str, str] | None = None,
    *,
    backbone: str = "",
    side: int = 0,
    work: Work | None = None,
    numbered: bool = True,
) -> Encoder:
    """Learned from the given rows; ``requested`` says what some columns of a table are to be, ``numbered`` whether
    levels have numbers where they are many.

    Pictures that are read one by one need a ``backbone`` and the ``side`` it sees them at.
    """
    if source.kind == "table":
        return TableEncoder.fit(source.columns, rows, requested, numbered)
    if requested:
        raise InputError("column", next(iter(requested)), "a column of a table, not images")
    if source.pictures is not None:
        return FeatureEncoder.fit(source.pictures, rows, backbone, side, work or Work())
    return ImageEncoder.fit(source, rows)


def encode(encoder: Encoder, source: Source, remarks: Remarks | None = None) -> Matrix:
    """``(n, d)`` for tables, ``(n, c, h, w)`` for pictures; float32. What was odd is added to ``remarks``."""
    if isinstance(encoder, ImageEncoder):
        return encoder.transform(source)
    if isinstance(encoder, FeatureEncoder):
        if source.kind == "table":
            raise InputError("data", f"a table, {source.name}", "pictures, as in training")
        return encoder.transform(source.as_pictures())
    if source.kind != "table":
        raise InputError("data", f"images, {source.name}", "a table, as in training")
    return encoder.transform(source.columns, remarks, source=source.name)


def restore_encoder(state: Any) -> Encoder:
    """Raises `InputError` when the state is of another version, or damaged."""
    if isinstance(state, dict) and state.get("kind") == "features":
        return restore_features(state)
    if not isinstance(state, dict) or state.get("kind") != "image":
        return TableEncoder.restore(state)
    try:
        encoder = ImageEncoder(**state)
        height, width, channels = map(int, encoder.size)
        numbers = [float(number) for number in (*encoder.mean, *encoder.scale)]
    except (TypeError, ValueError):
        raise InputError("run", "a damaged description of images", "the one training wrote") from None
    if min(height, width, channels) < 1 or len(numbers) != 2 * channels or not np.isfinite(numbers).all():
        raise InputError("run", "a damaged description of images", "the one training wrote")
    return encoder
