"""Labelled rows through the gate: tensors, arrays and columns of data frames come in, NumPy arrays come out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..constraints.counts import Array
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled rows that have passed the gate.

    Attributes:
        scores: ``(n,)`` float64, finite.
        targets: ``(n,)`` bool.
        groups: Labels ``(n,)`` by attribute, float64.
        cluster: Which rows belong together, ``(n,)`` numbers from 0 on, or None where every row stands alone.
    """

    scores: Array
    targets: Array
    groups: Mapping[str, Array] = field(default_factory=dict)
    cluster: Array | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, chosen: Array) -> Rows:
        """Some of them, by number or by a mask."""
        return Rows(
            self.scores[chosen],
            self.targets[chosen],
            {name: labels[chosen] for name, labels in self.groups.items()},
            None if self.cluster is None else np.unique(self.cluster[chosen], return_inverse=True)[1],
        )


def column(name: str, value: Any) -> Array:
    """A tensor, an array, or a column of pandas, polars or Arrow, as a NumPy array."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):  # a tensor; NumPy has no bfloat16
        if str(value.layout) != "torch.strided":
            raise InputError(name, f"a {value.layout} tensor", "a dense tensor", f"Use {name}.to_dense().")
        if value.is_meta:
            raise InputError(name, "a tensor on the meta device, which holds no values", "a tensor with values")
        value = value.detach().cpu()
        return np.asarray((value.double() if value.is_floating_point() else value).numpy())
    if hasattr(value, "to_numpy"):
        if type(value).__module__.startswith("pyarrow"):
            return np.asarray(value.to_numpy() if hasattr(value, "chunks") else value.to_numpy(zero_copy_only=False))
        return np.asarray(value.to_numpy())
    if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (list, tuple, Mapping)):
        return np.asarray(value)
    raise InputError(
        name, f"a {type(value).__name__}", "a tensor, an array or a column of a data frame", "One entry for each row."
    )


def like(answer: Array, given: Any) -> Any:
    """The answer as a tensor where a tensor was given, on its device; else as an array."""
    if not hasattr(given, "detach"):
        return answer
    return sys.modules["torch"].from_numpy(np.ascontiguousarray(answer)).to(given.device)


def checked_rows(
    name: str, scores: Any, targets: Any, groups: Any = None, where: Any = None, cluster: Any = None
) -> Rows:
    """Rows through the gate; infinite scores are named with their usual cause."""
    given, labels = column("scores", scores), column("targets", targets)
    if given.dtype.kind not in "fiu":
        raise InputError("scores", _described(given), "real-valued scores", "Higher means more positive.")
    if given.ndim == 2 and given.shape[1] != 1 and _core(labels) == _core(given[:, 0]):
        raise InputError(
            "scores",
            f"shape {given.shape} with targets of shape {labels.shape}",
            f"one score per example, ({given.shape[0]},) or ({given.shape[0]}, 1)",
            "For a two-column output pass scores[:, 1] - scores[:, 0].",
        )
    flat = given.astype(np.float64).reshape(-1)
    marks = _entries("targets", labels, given)
    codes, together = _groups(groups, given), _cluster(cluster, given)
    if where is not None:
        mask = _entries("where", column("where", where), given)
        if mask.dtype != bool:
            raise InputError("where", _described(mask), "true or false for every row", "Use where.bool().")
        flat, marks = flat[mask], marks[mask]
        codes = {attribute: labels_of[mask] for attribute, labels_of in codes.items()}
        together = None if together is None else together[mask]
    _finite(name, flat)
    return Rows(flat, _binary(marks), codes, _numbered(together))


def _finite(name: str, scores: Array) -> None:
    infinite = int(np.isinf(scores).sum())
    if infinite:
        raise InputError(
            name,
            f"{infinite} infinite scores",
            "finite scores",
            "The usual cause is a probability of exactly 0 or 1 turned into a logit: pass probabilities as they are.",
        )
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        raise InputError(
            "scores",
            f"{len(missing)} of {len(scores)} values not finite (first: nan at position {missing[0]})",
            "finite values only",
            "Look for missing data; leave rows without a score out.",
        )


def _binary(marks: Array) -> Array:
    if marks.dtype == bool:
        return marks
    if marks.dtype.kind in "fiu" and bool(((marks == 0) | (marks == 1)).all()):
        return marks.astype(bool)
    if marks.dtype.kind not in "fiu":
        raise InputError("targets", _described(marks), "0 or 1 only", "Pass (targets == positive_class).")
    distinct = np.unique(marks)
    listed = ", ".join(f"{value:g}" for value in distinct[:6]) + (", …" if len(distinct) > 6 else "")
    two = distinct[:3].tolist() == [-1, 1]
    remedy = "For labels in {-1, 1} pass (targets > 0)." if two else "Pass (targets == positive_class)."
    raise InputError("targets", f"values {listed}", "0 or 1 only", remedy)


def _groups(groups: Any, scores: Array) -> dict[str, Array]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InputError(
            "groups", f"a {type(groups).__name__}", "a dict from attribute name to the group labels of the rows"
        )
    checked = {}
    for attribute, labels in groups.items():
        name = f"groups[{attribute!r}]"
        codes = _entries(name, column(name, labels), scores)
        if codes.dtype.kind not in "biuf":
            raise InputError(
                name,
                _described(codes),
                "labels as numbers",
                "numpy.unique(labels, return_inverse=True)[1] numbers them.",
            )
        checked[str(attribute)] = codes.astype(np.float64)
    return checked


def _cluster(cluster: Any, scores: Array) -> Array | None:
    if cluster is None:
        return None
    ids = _entries("cluster", column("cluster", cluster), scores)
    missing = sum(cell is None or cell != cell for cell in ids.tolist())
    if missing:
        raise InputError(
            "cluster", f"{missing} of {len(ids)} rows without a cluster", "an id in every row",
            "Give a row that stands alone an id of its own.",
        )  # fmt: skip
    return ids.astype(str) if ids.dtype.kind == "O" else ids


def _numbered(ids: Array | None) -> Array | None:
    """Clusters as numbers from 0 on; None where every row is a cluster of its own."""
    if ids is None:
        return None
    distinct, index = np.unique(ids, return_inverse=True)
    if len(distinct) == 1 and len(ids) > 1:
        raise InputError(
            "cluster", f"one cluster for all {len(ids)} rows", "many clusters",
            "Nothing can be said about new clusters from a single one.",
        )  # fmt: skip
    return None if len(distinct) == len(ids) else index


def _entries(name: str, value: Array, scores: Array) -> Array:
    """One entry for each score, ``(n,)``; nothing is broadcast."""
    if _core(value) != _core(scores):
        raise InputError(
            name,
            f"shape {value.shape}",
            f"shape {scores.shape}, as scores",
            "Nothing is broadcast: reshape it so that each score has its own entry.",
        )
    return value.reshape(-1)


def _core(value: Array) -> tuple[int, ...]:
    """Shape without trailing singletons, so that (n,) = (n, 1)."""
    core = list(value.shape)
    while core and core[-1] == 1:
        core.pop()
    return tuple(core)


def _described(value: Array) -> str:
    return f"{value.dtype} values of shape {value.shape}"
