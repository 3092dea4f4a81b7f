"""Where streamed scores come from: pairs of chunks (scores, labels) that can be read more than once.

Every source is read several times, so it is a function that starts a new pass. Each chunk is checked on its way, and a
digest of the pass is kept: a source that changes between passes is an error, not a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
Chunk = tuple[Array, Array]
#: Rows a chunk is cut into: small enough for the cache, so that a pass costs little more than reading.
ROWS = 1 << 18


@dataclass(frozen=True)
class ScoreSource:
    """Scores and 0/1 labels in chunks. ``start`` begins a pass; ``name`` is what errors call the source.

    Example:
        >>> source = ScoreSource(lambda: [(np.array([0.5, -1.0]), np.array([1, 0]))])
        >>> [labels.tolist() for scores, labels in next(source.passes())]
        [[True, False]]
    """

    start: Callable[[], Iterable[Chunk]]
    name: str = "scores"

    def passes(self) -> Iterator[Iterator[Chunk]]:
        """Pass after pass of checked chunks: scores float32 or float64 ``(n,)``, labels bool ``(n,)``.

        Raises:
            InputError: A chunk that does not hold scores and labels, or a later pass that differs from the first.
        """
        first = _Digest()
        yield self._checked(first)
        while True:
            later = _Digest()
            yield self._checked(later)
            if later != first:
                came = f"{later.rows:,} rows in a later pass after {first.rows:,} in the first, or other values"
                raise InputError(self.name, came, "a source that does not change while it is read")

    def _checked(self, digest: _Digest) -> Iterator[Chunk]:
        for scores, labels in self.start():
            for begin in range(0, len(scores), ROWS):
                rows = slice(begin, begin + ROWS)
                chunk = (
                    _checked_scores(self.name, np.asarray(scores[rows]), digest.rows),
                    _checked_labels(self.name, np.asarray(labels[rows])),
                )
                if len(chunk[0]) != len(chunk[1]):
                    came = f"{len(chunk[0])} scores and {len(chunk[1])} labels in a chunk"
                    raise InputError(self.name, came, "one label for each score")
                digest.add(*chunk)
                yield chunk


@dataclass
class _Digest:
    """What a pass held: rows, positives, and all bits of the scores folded into 64."""

    rows: int = 0
    positives: int = 0
    bits: int = 0

    def add(self, scores: Array, labels: Array) -> None:
        words = scores.view(np.uint32 if scores.dtype.itemsize == 4 else np.uint64)
        self.rows += len(scores)
        self.positives += int(np.count_nonzero(labels))
        self.bits ^= int(np.bitwise_xor.reduce(words)) if len(words) else 0


def _checked_scores(name: str, scores: Array, before: int) -> Array:
    if scores.ndim != 1 or scores.dtype.kind != "f":
        came = f"{scores.dtype} of shape {scores.shape}"
        raise InputError(name, came, "real-valued scores in one dimension", "Pass raw scores, not decisions.")
    scores = np.ascontiguousarray(scores, np.float64 if scores.dtype.itemsize > 4 else np.float32)
    good = np.isfinite(scores)
    if not good.all():
        place = int(np.flatnonzero(~good)[0])
        raise InputError(name, f"{scores[place]} at row {before + place}", "finite scores only")
    return scores


def _checked_labels(name: str, labels: Array) -> Array:
    if labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise InputError(name, f"labels {labels.dtype} of shape {labels.shape}", "labels 0 and 1 in one dimension")
    if labels.dtype.kind == "b":
        return labels
    positive: Array = labels == 1
    if not (positive | (labels == 0)).all():
        other = labels[~(positive | (labels == 0))][0]
        raise InputError(name, f"the label {other}", "labels 0 and 1 only", "Pass (labels == positive_class).")
    return positive


def from_arrays(scores: Array | str | Path, labels: Array | str | Path) -> ScoreSource:
    """Two arrays of one length, in memory, mapped, or ``.npy`` files, which are then mapped and never read whole.

    Example:
        >>> import numpy as np
        >>> source = from_arrays(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
        >>> [len(scores) for scores, labels in next(source.passes())]
        [4]
    """
    name = str(scores) if isinstance(scores, str | Path) else "scores"
    opened = [_mapped(part) if isinstance(part, str | Path) else np.asanyarray(part) for part in (scores, labels)]
    if len(opened[0]) != len(opened[1]):
        raise InputError(name, f"{len(opened[0])} scores and {len(opened[1])} labels", "one label for each score")
    return ScoreSource(lambda: [(opened[0], opened[1])], name)


def _mapped(path: str | Path) -> Array:
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(str(path), f"a file that cannot be read ({error})", "an array written by numpy.save") from None
    return found


def from_chunks(start: Any, name: str = "scores") -> ScoreSource:
    """Any chunks of (scores, labels). ``start()`` begins a new pass over the same rows each time it is called.

    Example:
        >>> source = from_chunks(lambda: ((np.full(3, 0.5), np.ones(3)) for _ in range(2)))
        >>> sum(len(scores) for scores, labels in next(source.passes()))
        6
    """
    if not callable(start):
        came = f"a {type(start).__name__}"
        raise InputError("start", came, "a function that begins a new pass", "An iterator could be read only once.")
    return ScoreSource(start, name)


def from_parquet(path: str | Path, score: str = "score", label: str = "label") -> ScoreSource:
    """Two columns of a Parquet file or a folder of them, read a row group at a time.

    Example:
        >>> import tempfile, pyarrow, pyarrow.parquet
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = pyarrow.table({"score": [0.5, -1.0], "label": [1, 0]})
        ...     pyarrow.parquet.write_table(table, f"{folder}/scores.parquet")
        ...     [scores.tolist() for scores, _ in next(from_parquet(f"{folder}/scores.parquet").passes())]
        [[0.5, -1.0]]
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        table = ds.dataset(path, format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(str(path), f"data that cannot be read ({error})", "Parquet files") from None
    absent = [column for column in (score, label) if column not in table.schema.names]
    if absent:
        raise InputError(str(path), f"no column {absent[0]!r}", "one of " + ", ".join(table.schema.names[:12]))

    def start() -> Iterator[Chunk]:
        for batch in table.to_batches(columns=[score, label], batch_size=ROWS):
            for column in (score, label):
                if batch.column(column).null_count:
                    raise InputError(str(path), f"a missing value in {column!r}", "a score and a label in every row")
            yield tuple(batch.column(column).to_numpy(zero_copy_only=False) for column in (score, label))

    return ScoreSource(start, str(path))
