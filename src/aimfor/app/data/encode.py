"""Columns to a float32 matrix, labels to class ids; fitted on training rows only and stored as plain JSON.

Numbers: missing values become the training median (with an indicator column when there are any), then zero mean
and unit deviation, clipped at ±10 so that one stray value cannot dominate. Text: one column per frequent level, one
for all others, one for missing. Columns that cannot help (constant, all missing, a different text in almost
every row) are left out and named.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, nearest
from .sources import Source
from .tables import Column, is_text

Matrix = NDArray[np.float32]
_MOST_LEVELS = 50
_CLIP = 10.0


@dataclass
class TableEncoder:
    """What was learned about each column; `state` is JSON and `TableEncoder(**state)` restores it."""

    columns: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kind: str = "table"

    @classmethod
    def fit(cls, source: Source, rows: NDArray[np.int64]) -> TableEncoder:
        """Learns from the given rows. Raises `InputError` when no column is of use."""
        encoder = cls()
        for name, values in source.columns.items():
            part = values[rows]
            spec, note = _fit_text(name, part) if is_text(values) else _fit_number(name, part)
            if spec is not None:
                encoder.columns.append(spec)
            else:
                encoder.notes.append(f"column {name!r} left out: {note}")
        if not encoder.columns:
            raise InputError(
                "data",
                "no column that could help (" + "; ".join(encoder.notes[:3]) + ")",
                "at least one feature column that varies",
            )
        return encoder

    @property
    def state(self) -> dict[str, Any]:
        return {"columns": self.columns, "notes": self.notes, "kind": self.kind}

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(len(spec["levels"]) + 1 if "levels" in spec else 1 + spec["missing"] for spec in self.columns),)

    def transform(self, source: Source) -> Matrix:
        """``(n, d)`` float32. Raises `InputError` for a missing column or text where numbers were learned."""
        parts = []
        for spec in self.columns:
            if spec["name"] not in source.columns:
                raise InputError(
                    "data",
                    f"{source.name} without the column {spec['name']!r}",
                    "the columns the model was trained on",
                    nearest(spec["name"], source.columns),
                )
            values = source.columns[spec["name"]]
            parts.append(_encode_text(spec, values) if "levels" in spec else _encode_number(spec, values))
        return np.concatenate(parts, axis=1)


def _fit_number(name: str, values: Column) -> tuple[dict[str, Any] | None, str]:
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return None, "no value at all"
    missing = len(finite) < len(values)
    if finite.min() == finite.max() and not missing:
        return None, f"constant ({finite[0]:g})"
    filled = np.where(np.isfinite(values), values, np.median(finite))
    scale = float(filled.std())
    return {
        "name": name,
        "fill": float(np.median(finite)),
        "mean": float(filled.mean()),
        "scale": scale if scale > 0 else 1.0,
        "missing": missing,
    }, ""


def _encode_number(spec: dict[str, Any], values: Column) -> Matrix:
    if is_text(values):
        sample = next((value for value in values if value is not None), None)
        if sample is not None:
            raise InputError("data", f"text ({sample!r}) in the column {spec['name']!r}", "numbers, as in training")
        values = np.full(len(values), np.nan)
    known = np.isfinite(values)
    scaled = (np.where(known, values, spec["fill"]) - spec["mean"]) / spec["scale"]
    column = np.clip(scaled, -_CLIP, _CLIP)[:, None]
    return (np.concatenate((column, ~known[:, None]), axis=1) if spec["missing"] else column).astype(np.float32)


def _fit_text(name: str, values: Column) -> tuple[dict[str, Any] | None, str]:
    counts = Counter(value for value in values if value is not None)
    if not counts:
        return None, "no value at all"
    missing = sum(counts.values()) < len(values)
    if len(counts) == 1 and not missing:
        return None, f"constant ({next(iter(counts))!r})"
    if len(counts) > 20 and len(counts) > 0.5 * len(values):
        return None, f"{len(counts)} different texts in {len(values)} rows"
    least = 1 if len(counts) <= 10 else max(2, len(values) // 2000)
    ordered = sorted(counts, key=lambda level: (-counts[level], level))
    return {"name": name, "levels": [level for level in ordered[:_MOST_LEVELS] if counts[level] >= least]}, ""


def _encode_text(spec: dict[str, Any], values: Column) -> Matrix:
    """One column per level; the last column is 1 for any other text. A missing value is all zeros."""
    place = {level: i for i, level in enumerate(spec["levels"])}
    other = len(place)
    if not is_text(values):
        from .tables import as_labels

        values = as_labels(values)
    ids = np.array([-1 if value is None else place.get(value, other) for value in values])
    encoded = np.zeros((len(values), other + 1), dtype=np.float32)
    rows = np.flatnonzero(ids >= 0)
    encoded[rows, ids[rows]] = 1.0
    return encoded


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
        part = source.images[rows].reshape(-1, source.images.shape[3]).astype(np.float64) / 255.0
        scale = part.std(0)
        return cls(
            part.mean(0).tolist(), np.where(scale > 0, scale, 1.0).tolist(), list(map(int, source.images.shape[1:]))
        )

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


def fit_encoder(source: Source, rows: NDArray[np.int64]) -> TableEncoder | ImageEncoder:
    return ImageEncoder.fit(source, rows) if source.images is not None else TableEncoder.fit(source, rows)


def restore_encoder(state: dict[str, Any]) -> TableEncoder | ImageEncoder:
    return ImageEncoder(**state) if state["kind"] == "image" else TableEncoder(**state)
