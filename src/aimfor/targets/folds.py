"""Which rows train, validate and test: folds and splits, stratified, of whole groups or lists, or in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError

Array = NDArray[Any]
Rows = NDArray[np.int64]

#: Folds, and how many a table with few rows gets: there a model notices every tenth of the rows it lacks.
FOLDS, SMALL_FOLDS, SMALL = 5, 10, 1_000
#: Above this many rows one split tells as much as folds do, at a fraction of the cost.
ONE_SPLIT_ABOVE = 60_000
#: The share of the rows that a single split holds out.
HELD_SHARE = 0.2
#: Parts of ranked lists where there are no folds: one tests and one validates.
LIST_PARTS = 5


@dataclass(frozen=True)
class Folds:
    """Held-out rows of each fold; every other row trains there.

    Attributes:
        held: Row numbers, ascending, one tensor per fold. Disjoint; together all rows, or a part for one split.
        n: Number of rows.
        notes: What was done differently from what a user would expect, in words.
        trained: Row numbers that train in each fold, where those are not all others: folds that follow time.
    """

    held: tuple[Tensor, ...]
    n: int
    notes: tuple[str, ...] = ()
    trained: tuple[Tensor, ...] | None = None

    def __len__(self) -> int:
        return len(self.held)

    def train(self, fold: int) -> Tensor:
        """Row numbers that train in this fold, ascending."""
        if self.trained is not None:
            return self.trained[fold]
        inside = torch.ones(self.n, dtype=torch.bool)
        inside[self.held[fold]] = False
        return inside.nonzero().reshape(-1)

    @property
    def covered(self) -> Tensor:
        """All rows that are held out in some fold, ascending."""
        return torch.cat(self.held).sort().values

    @property
    def numbers(self) -> Tensor:
        """The fold of each of those rows, in the order of `covered`."""
        fold = torch.full((self.n,), -1)
        for number, rows in enumerate(self.held):
            fold[rows] = number
        return fold[self.covered]


def make_folds(
    y: Tensor, seed: int, groups: Tensor | None = None, folds: int | None = None, single: bool = False
) -> Folds:
    """Splits rows so that every class (and, with groups, every whole group) is spread evenly.

    Args:
        y: Class ids ``(n,)``.
        seed: Decides the split.
        groups: Group ids ``(n,)``; rows of one group never stand on both sides.
        folds: Their number; None takes 5, or 10 under 1,000 rows. A rare class gets fewer, with a note.
        single: One split only, whatever the size.

    Raises:
        InputError: A class with one row only, or too few groups to have every class on both sides.

    Example:
        >>> y = torch.tensor([0] * 20 + [1] * 5)
        >>> [y[rows].sum().item() for rows in make_folds(y, seed=0, folds=5).held]
        [1, 1, 1, 1, 1]
    """
    n, counts = len(y), torch.bincount(y)
    counts = counts[counts > 0]
    if len(counts) < 2:
        raise InputError("y", "one class only", "at least two classes")
    notes = []
    wanted = folds or (SMALL_FOLDS if n < SMALL else FOLDS)
    if n > ONE_SPLIT_ABOVE and folds is None and not single:
        single = True
        notes.append(f"{n} rows: one split (a fifth of the rows held out) instead of {FOLDS} folds, to save time")
    most = int(counts.min()) if groups is None else min(len(groups[y == label].unique()) for label in y.unique())
    if most < 2:
        what = "row" if groups is None else "group"
        expected = f"at least 2 {what}s of every class, to train and to hold out"
        raise InputError("y", f"a class with {most} {what}", expected)
    number = min(wanted, most)
    if number < wanted and not single:
        what = "rows" if groups is None else "groups"
        notes.append(f"{number} folds instead of {wanted}: the rarest class has {most} {what}")
    held = _split(y, seed, groups, number if not single else min(most, round(1 / HELD_SHARE)))
    held = held[:1] if single else held
    if any(len(y[rows].unique()) < len(counts) for rows in held) and not single:
        notes.append("some folds hold out no row of some class; all folds count together, so this is no loss")
    return _checked(Folds(tuple(held), n, tuple(notes)), y)


def make_time_folds(times: Tensor, y: Tensor, groups: Tensor | None = None, folds: int | None = None) -> Folds:
    """Folds that each learn from what was before: rows of one moment are in one, the earliest are in none.

    Args:
        times: Of each row ``(n,)``.
        y: Class ids ``(n,)``.
        groups: Group ids ``(n,)``; rows of a group that is held out do not train there, however early.
        folds: Their number, 5 by default.

    Raises:
        InputError: No fold has both classes before it.

    Example:
        >>> times, y = torch.arange(12), torch.arange(12) % 2
        >>> in_time = make_time_folds(times, y, folds=2)
        >>> [(len(in_time.train(fold)), rows.tolist()) for fold, rows in enumerate(in_time.held)]
        [(4, [4, 5, 6, 7]), (8, [8, 9, 10, 11])]
    """
    wanted, n = folds or FOLDS, len(y)
    ordered = times.sort().values
    limits = ordered[[min(n - 1, round(fold * n / (wanted + 1))) for fold in range(1, wanted + 1)]].unique()
    classes, held, trained = len(y.unique()), [], []
    for number, limit in enumerate(limits):
        here = times >= limit
        if number + 1 < len(limits):
            here &= times < limits[number + 1]
        before = times < limit
        if groups is not None:
            before &= ~torch.isin(groups, groups[here].unique())
        if len(y[before].unique()) == classes and bool(here.any()):
            held.append(here.nonzero().reshape(-1))
            trained.append(before.nonzero().reshape(-1))
    if not held:
        raise InputError("--time", "no moment that has every class before it", "rows of every class early and late")
    notes = [] if len(held) == wanted else [f"{len(held)} folds in time instead of {wanted}: the others lack a class"]
    return Folds(tuple(held), n, tuple(notes), tuple(trained))


def make_list_folds(lists: Tensor, y: Tensor, seed: int, folds: int | None = None, single: bool = False) -> Folds:
    """Folds of whole lists; those whose rows differ in grade are spread evenly.

    Args:
        lists: ``(n,)``, equal for the rows of one list.
        y: Grades ``(n,)``, at least 0.
        seed: Decides the split.
        folds: Their number, 5 by default; fewer where fewer lists have rows of different grades.
        single: One split only.

    Raises:
        InputError: Fewer than two lists whose rows differ in grade.

    Example:
        >>> lists = torch.arange(40).div(4, rounding_mode="floor")
        >>> folds = make_list_folds(lists, (torch.arange(40) % 4 == 0).long(), seed=0)
        >>> [len(lists[rows].unique()) for rows in folds.held]
        [2, 2, 2, 2, 2]
    """
    single = single or (folds is None and len(y) > ONE_SPLIT_ABOVE)
    wanted = folds or FOLDS
    parts = list_parts(lists, y, wanted, seed)
    if parts is None:
        came = "fewer than two queries whose rows differ in grade"
        raise InputError("--query", came, "more of them, to learn from some and hold out others")
    note = f"{len(parts)} folds instead of {wanted}: only so many queries have rows of different grades"
    return Folds(tuple(parts[:1] if single else parts), len(y), () if len(parts) == wanted else (note,))


def informative_lists(lists: Tensor, y: Tensor) -> Tensor:
    """Numbers of the lists whose rows differ in grade, ascending: the others are the same in any order.

    Example:
        >>> informative_lists(torch.tensor([7, 7, 8, 8, 9]), torch.tensor([0, 1, 1, 1, 0])).tolist()
        [7]
    """
    numbers, index = lists.unique(return_inverse=True)
    low, high = (
        torch.zeros_like(numbers).scatter_reduce(0, index, y, how, include_self=False) for how in ("amin", "amax")
    )
    informative: Tensor = numbers[low < high]
    return informative


def list_parts(lists: Tensor, y: Tensor, parts: int, seed: int) -> list[Tensor] | None:
    """Rows of so many parts of whole lists, or of fewer; None where fewer than two lists have rows to tell apart."""
    generator = torch.Generator().manual_seed(seed)
    useful = informative_lists(lists, y)
    number = min(parts, len(useful))
    if number < 2:
        return None
    every = lists.unique()
    idle = every[~torch.isin(every, useful)]
    order = torch.cat([group[torch.randperm(len(group), generator=generator)] for group in (useful, idle)])
    of_list = torch.empty(len(every), dtype=torch.long)
    of_list[torch.searchsorted(every, order)] = torch.arange(len(order)) % number
    of_row = of_list[torch.searchsorted(every, lists)]
    return [(of_row == part_number).nonzero().reshape(-1) for part_number in range(number)]


def _split(y: Tensor, seed: int, groups: Tensor | None, number: int) -> list[Tensor]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels, splitter = y.numpy(), StratifiedKFold if groups is None else StratifiedGroupKFold
    ids = None if groups is None else groups.numpy()
    parts = splitter(number, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels, ids)
    return [torch.from_numpy(np.sort(held)).long() for _, held in parts]


def _checked(folds: Folds, y: Tensor) -> Folds:
    """No fold may train without a class: nothing could be learned about it there."""
    classes = len(y.unique())
    for number in range(len(folds)):
        if len(y[folds.train(number)].unique()) < classes or len(folds.held[number]) == 0:
            came = f"groups whose fold {number + 1} of {len(folds)} would train without one of the {classes} classes"
            raise InputError("groups", came, "every class in several groups", "Use another group column, or none.")
    if len(folds) == 1 and len(y[folds.held[0]].unique()) < classes:
        raise InputError("y", "a class too rare to train and to hold out in one split", "more rows of it, or folds")
    return folds


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
    side_of = np.full(len(labels), -1)
    order = random.permutation(len(labels))
    while True:
        left = labels[side_of < 0].sum(0)
        label = int(np.argmin(np.where(left > 0, left, len(labels) + 1))) if left.any() else None
        rows = order[side_of[order] < 0]
        for row in rows if label is None else rows[labels[rows, label]]:
            lacks = room if label is None else wanted[:, label]
            best = np.flatnonzero(lacks == lacks.max())
            best = best[room[best] == room[best].max()]
            side = int(random.choice(best))
            side_of[row] = side
            room[side] -= 1
            wanted[side] -= labels[row]
        if label is None:
            return np.asarray(side_of == 1)


def rows_of_each(ids: Tensor) -> list[Tensor]:
    """Row numbers, ascending, of every different id ``(n,)``, the ids ascending: one sort, however many there are.

    Example:
        >>> import torch
        >>> [rows.tolist() for rows in rows_of_each(torch.tensor([7, 3, 7]))]
        [[1], [0, 2]]
    """
    return list(ids.argsort(stable=True).split(ids.unique(return_counts=True)[1].tolist()))


@dataclass(frozen=True)
class Split:
    """Row numbers of the three parts."""

    train: Rows
    validation: Rows
    test: Rows


def split(
    ids: Rows,
    seed: int,
    test: Array | None = None,
    *,
    holdout: float = 0.2,
    aside: float = 0.2,
    whole: Array | None = None,
    times: Array | None = None,
) -> Split:
    """Stratified: every class gives these shares of its rows to test and validation, and at least one to each part.

    A share of 0 makes no such part: its rows are training rows, as an ensemble holds out folds of those. With ``test``
    (True for rows that the data sets aside) those are the test part whatever the seed. Rows with one value of
    ``whole`` stay in one part. With ``times`` the latest rows test, and those before them validate.
    """
    if times is not None:
        came = "moments that leave a part of the split without a class"
        refused = InputError("--time", came, "every class in each")
        return _whole_split(ids, test, holdout, aside, partial(_latest, times), refused)
    if whole is not None:
        if test is not None and set(whole[test]) & set(whole[~test]):
            came, remedy = "clusters with rows in the given test part and outside it", "Use another."
            raise InputError("--cluster", came, "each cluster on one side", remedy)
        came = "clusters that leave a part of the split without a class"
        refused = InputError("--cluster", came, "classes in many clusters")
        return _whole_split(ids, test, holdout, aside, partial(_clusters_aside, ids, whole, seed), refused)
    rng = np.random.default_rng([seed, 20240607])
    parts: list[list[Rows]] = [[], [], []]
    for label in np.unique(ids):
        members = np.flatnonzero(ids == label)
        rest, held = members, members[:0]
        if test is not None:
            rest, held = members[~test[members]], members[test[members]]
        rest = rng.permutation(rest)
        kept = max(1, round(aside * len(rest)))
        if test is None and holdout:
            take = max(1, round(holdout * len(rest)))
            held, rest = rest[:take], rest[take:]
        if len(rest) < 2 or (len(held) < 1 and (holdout or test is not None)):
            raise InputError("target", "a class without rows in one part of the split", "rows of every class in each")
        take = min(kept, len(rest) - 1) if aside else 0
        for of_classes, rows in zip(parts, (rest[take:], rest[:take], held), strict=True):
            of_classes.append(rows)
    return Split(*(np.sort(np.concatenate(of_classes)) for of_classes in parts))


def _whole_split(
    ids: Rows, test: Array | None, holdout: float, aside: float, draw: Callable[[Rows, float], Rows], refused: Exception
) -> Split:
    """The same where some rows stay together: ``draw`` gives about a share of rows, and what belongs to them."""
    everything = np.arange(len(ids))
    held = np.flatnonzero(test) if test is not None else draw(everything, holdout) if holdout else everything[:0]
    rest = np.setdiff1d(everything, held)
    share = min(0.5, aside / (1 - (0.0 if test is not None else holdout)))
    between = draw(rest, share) if share else rest[:0]
    parts = Split(np.setdiff1d(rest, between), between, held)
    for rows in (parts.train, held, between):
        if (len(rows) or rows is parts.train) and len(np.unique(ids[rows])) < len(np.unique(ids)):
            raise refused
    return parts


def _latest(times: Array, rows: Rows, fraction: float) -> Rows:
    """Rows of one moment are in one part."""
    ordered = np.sort(times[rows])
    first = ordered[min(len(ordered) - 1, round((1 - fraction) * len(ordered)))]
    return np.asarray(rows[times[rows] >= first])


def _clusters_aside(ids: Rows, whole: Array, seed: int, rows: Rows, fraction: float) -> Rows:
    """With about the classes of all, as far as whole clusters allow."""
    from sklearn.model_selection import StratifiedGroupKFold

    parts = StratifiedGroupKFold(round(1 / fraction), shuffle=True, random_state=seed)
    return np.sort(rows[next(parts.split(rows, ids[rows], whole[rows]))[1]])


def split_lists(
    lists: Rows, grades: Rows, seed: int, test: Array | None, *, holdout: float = 0.2, validation: bool
) -> Split:
    """``holdout`` of the queries test and, with ``validation``, a quarter of the others choose; none is in two parts.

    Raises:
        InputError: Fewer than five queries whose rows differ in grade, or rows that the data sets aside for testing
            share a query with others.
    """
    numbers, y = torch.from_numpy(lists), torch.from_numpy(grades)
    informative = len(informative_lists(numbers, y))
    if informative < LIST_PARTS:
        came = f"{informative} {'query' if informative == 1 else 'queries'} whose rows differ in grade"
        remedy = "A query of one row, or with one grade in all rows, says nothing about order."
        raise InputError("--query", came, f"at least {LIST_PARTS}, better a hundred", remedy)
    if test is not None:
        aside = np.isin(lists, lists[test])
        if not np.array_equal(aside, test):
            raise InputError("--query", "queries with rows both in training and in test data", "whole queries in each")
        held, rest = np.flatnonzero(test), np.flatnonzero(~test)
    elif not holdout:
        held, rest = np.arange(0), np.arange(len(lists))
    else:
        parts = list_parts(numbers, y, max(2, round(1 / holdout)), seed)
        assert parts is not None
        held, rest = parts[0].numpy(), np.sort(torch.cat(parts[1:]).numpy())
    if not validation:
        return Split(rest, rest[:0], held)
    inner = list_parts(numbers[rest], y[rest], LIST_PARTS - 1, seed + 1)
    if inner is None:
        raise InputError("--query", "too few queries to train, validate and test", f"at least {LIST_PARTS}")
    return Split(rest[np.sort(torch.cat(inner[1:]).numpy())], rest[inner[0].numpy()], held)
