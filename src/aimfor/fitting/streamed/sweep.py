"""The threshold curve of a stream, from the highest score down, in blocks that fit in memory.

The curve is needed only at the scores of positives: between two of them a lower threshold adds false positives and
nothing else, so every best threshold, the average precision and the area can be read off there. A pass collects the
highest scores that fit, positives and negatives apart, sorts both, and counts; the next pass takes the scores below.
A buffer that overflows forgets its lower half (a later pass brings it back), and a value that fills it by ties is
counted instead of kept. So memory is bounded for every order of rows and every distribution of scores, and n scores
take about n / capacity passes and one sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InputError
from .sources import ROWS, Array, Chunk, ScoreSource

#: Positives that are counted at once, and the sample that an overflowing buffer is judged by.
PIECE = 1 << 20
SAMPLE = 1 << 16
#: A value of more than this share of the buffer is counted instead of kept.
HEAVY = 1 / 16


@dataclass(frozen=True)
class Block:
    """The curve at some distinct scores of positives, ascending inside a block; blocks come from the top down.

    Attributes:
        scores: Distinct scores of positives, ``(t,)``.
        count: Positives with that score, int64 ``(t,)``.
        tp: Positives at or above it.
        fp: Negatives at or above it.
        above: Negatives strictly above it.
    """

    scores: Array
    count: Array
    tp: Array
    fp: Array
    above: Array


@dataclass
class Totals:
    """Rows of both classes in the whole stream, and those with ``score > threshold`` at each threshold."""

    positives: int = 0
    negatives: int = 0
    decided: dict[float, tuple[int, int]] = field(default_factory=dict)

    def add(self, scores: Array, labels: Array) -> None:
        hits = int(np.count_nonzero(labels))
        self.positives += hits
        self.negatives += len(labels) - hits
        for threshold, (tp, fp) in self.decided.items():
            passed = scores > threshold
            right = int(np.count_nonzero(passed & labels))
            self.decided[threshold] = tp + right, fp + int(np.count_nonzero(passed)) - right


def sweep(source: ScoreSource, memory: int, thresholds: Iterable[float] = ()) -> tuple[Totals, Iterator[Block]]:
    """The totals, after a first pass, and the curve in blocks. ``memory`` is the size of the buffer in bytes."""
    passes, totals = source.passes(), Totals(decided=dict.fromkeys(thresholds, (0, 0)))
    first = _collect(_counting(next(passes), totals), memory, None)
    return totals, _blocks(passes, first, memory)


def _counting(chunks: Iterator[Chunk], totals: Totals) -> Iterator[Chunk]:
    for scores, labels in chunks:
        totals.add(scores, labels)
        yield scores, labels


def _blocks(passes: Iterator[Iterator[Chunk]], buffer: Buffer, memory: int) -> Iterator[Block]:
    positives = negatives = 0
    single = buffer.lower is None
    while True:
        yield from buffer.curve(positives, negatives)
        if buffer.lower is None:
            break
        positives, negatives, upper = positives + buffer.held(0), negatives + buffer.held(1), buffer.lower
        del buffer  # before the next one is made
        buffer = _collect(next(passes), memory, upper)
    if not single:
        next(passes)  # lets the source compare its last pass with the first


def _collect(chunks: Iterator[Chunk], memory: int, upper: float | None) -> Buffer:
    """The highest scores below ``upper`` that fit, complete down to ``buffer.lower``."""
    buffer: Buffer | None = None
    for scores, labels in chunks:
        if buffer is None:
            buffer = Buffer(memory, scores.dtype)
        if buffer.space.dtype != scores.dtype:
            raise InputError("scores", f"{scores.dtype} after {buffer.space.dtype}", "one type in all chunks")
        buffer.add(scores, labels, upper)
    return Buffer(memory, np.dtype(np.float32)) if buffer is None else buffer


class Buffer:
    """One array for both classes: positives grow from the left end, negatives from the right."""

    def __init__(self, memory: int, kind: np.dtype[Any]) -> None:
        self.space: Array = np.empty(max(64, memory // kind.itemsize), kind)
        self.ends = (self.space, self.space[::-1])
        self.positives = self.negatives = 0
        #: Scores below it have been forgotten in this pass; None while nothing has.
        self.lower: float | None = None
        #: (positives, negatives) of values that are counted.
        self.heavy: dict[float, tuple[int, int]] = {}
        self.chance = np.random.default_rng(0)

    @property
    def hits(self) -> Array:
        return self.space[: self.positives]

    @property
    def misses(self) -> Array:
        return self.space[len(self.space) - self.negatives :]

    def held(self, side: int) -> int:
        """Positives (0) or negatives (1) here, counted ones included."""
        return (self.positives, self.negatives)[side] + sum(found[side] for found in self.heavy.values())

    def add(self, scores: Array, labels: Array, upper: float | None) -> None:
        step = min(ROWS, len(self.space) // 4)
        for begin in range(0, len(scores), step):
            part, positive = scores[begin : begin + step], labels[begin : begin + step]
            while len(self.space) - self.positives - self.negatives < len(part):
                self._make_room()
            if upper is not None or self.lower is not None:
                wanted = part < (np.inf if upper is None else upper)
                if self.lower is not None:
                    wanted &= part >= self.lower
                part, positive = part[wanted], positive[wanted]
            hits, misses = part[positive], part[~positive]
            self.positives += len(hits)
            self.hits[self.positives - len(hits) :] = hits
            self.negatives += len(misses)
            self.misses[: len(misses)] = misses

    def _make_room(self) -> None:
        """Counts the values that fill the array by ties; where there are none, forgets the lower half."""
        values, counts = np.unique(self._sample(), return_counts=True)
        often = values[counts > HEAVY * counts.sum()]
        for value in often.tolist():
            self._count(value)
        if not len(often):
            cut = float(values[np.searchsorted(np.cumsum(counts), counts.sum() // 2)])
            self._keep(lambda part: part >= cut)
            self.heavy = {value: found for value, found in self.heavy.items() if value >= cut}
            self.lower = cut

    def _sample(self) -> Array:
        held = self.positives + self.negatives
        if held <= SAMPLE:
            return np.concatenate((self.hits, self.misses))
        places = self.chance.integers(0, held, SAMPLE)
        return self.space[np.where(places < self.positives, places, places + len(self.space) - held)]

    def _count(self, value: float) -> None:
        before = self.positives, self.negatives
        self._keep(lambda part: part != value)
        tp, fp = self.heavy.get(value, (0, 0))
        self.heavy[value] = tp + before[0] - self.positives, fp + before[1] - self.negatives

    def _keep(self, wanted: Callable[[Array], Array]) -> None:
        self.positives = _compact(self.ends[0][: self.positives], wanted)
        self.negatives = _compact(self.ends[1][: self.negatives], wanted)

    def curve(self, positives: int, negatives: int) -> Iterator[Block]:
        """The curve at the scores held here; the arguments count the rows with higher scores than any of them."""
        for value in self.heavy:
            self._count(value)  # ties that came after the value was last counted
        hits, misses = self.hits, self.misses
        hits.sort()
        misses.sort()
        counted = np.array(sorted(self.heavy), self.space.dtype)
        tallies = np.array([self.heavy[value] for value in counted.tolist()], np.int64).reshape(-1, 2)
        # higher[k] = rows among the counted values from the k-th on.
        higher = np.concatenate((tallies[::-1].cumsum(0)[::-1], np.zeros((1, 2), np.int64)))

        def block(scores: Array, count: Array, before: Array) -> Block:
            less, most = _ranks(misses, scores)
            from_here, beyond = (higher[np.searchsorted(counted, scores, side)] for side in ("left", "right"))
            return Block(
                scores,
                count,
                positives + len(hits) - before + from_here[:, 0],
                negatives + len(misses) - less + from_here[:, 1],
                negatives + len(misses) - most + beyond[:, 1],
            )

        for low, high in _pieces(hits):
            part = hits[low:high]
            starts = np.concatenate(([0], np.flatnonzero(part[1:] != part[:-1]) + 1))
            yield block(part[starts], np.diff(starts, append=len(part)), low + starts)
        with_hits = tallies[:, 0] > 0
        if with_hits.any():
            scores = counted[with_hits]
            yield block(scores, tallies[with_hits, 0], np.searchsorted(hits, scores))


def _compact(view: Array, wanted: Callable[[Array], Array]) -> int:
    """Moves the wanted entries to the front, in place and in pieces; returns their number."""
    kept = 0
    for begin in range(0, len(view), PIECE):
        part = view[begin : begin + PIECE]
        good = part[wanted(part)]
        view[kept : kept + len(good)] = good
        kept += len(good)
    return kept


def _pieces(values: Array) -> Iterator[tuple[int, int]]:
    """Ranges of sorted values from the top, of about PIECE entries, that separate no ties."""
    high = len(values)
    while high:
        low = int(np.searchsorted(values, values[max(0, high - PIECE)], "left"))
        yield low, high
        high = low


def _ranks(values: Array, queries: Array) -> tuple[Array, Array]:
    """How many of the sorted values are below each of the distinct sorted queries, and how many are not above it.

    Whichever side is longer is searched for the shorter one's entries.
    """
    start, stop = np.searchsorted(values, queries[0], "left"), np.searchsorted(values, queries[-1], "right")
    part = values[start:stop]
    if len(part) < len(queries):
        less, most = (
            np.bincount(np.searchsorted(queries, part, side), minlength=len(queries) + 1)[:-1].cumsum()
            for side in ("right", "left")
        )
        return start + less, start + most
    less = np.searchsorted(part, queries, "left")
    most = less.copy()
    tied = part[np.minimum(less, len(part) - 1)] == queries
    most[tied] = np.searchsorted(part, queries[tied], "right")
    return start + less, start + most
