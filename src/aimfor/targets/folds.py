"""Which rows train and which are held out: stratified folds, whole groups, one split where folds cost too much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError

#: Folds, and how many a table with few rows gets: there a model notices every tenth of the rows it lacks.
FOLDS, SMALL_FOLDS, SMALL = 5, 10, 1_000
#: Above this many rows one split tells as much as folds do, at a fraction of the cost.
ONE_SPLIT_ABOVE = 60_000
#: The share of the rows that a single split holds out.
HELD_SHARE = 0.2


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
    asked = folds or (SMALL_FOLDS if n < SMALL else FOLDS)
    if n > ONE_SPLIT_ABOVE and folds is None and not single:
        single = True
        notes.append(f"{n} rows: one split (a fifth of the rows held out) instead of {FOLDS} folds, to save time")
    most = int(counts.min()) if groups is None else min(int(counts.min()), _groups_with_rarest(y, groups))
    if most < 2:
        what = "row" if groups is None else "group"
        raise InputError(
            "y", f"a class with {most} {what}", f"at least 2 {what}s of every class, to train and to hold out"
        )
    number = min(asked, most)
    if number < asked and not single:
        notes.append(
            f"{number} folds instead of {asked}: the rarest class has {most} {'rows' if groups is None else 'groups'}"
        )
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
        >>> found = make_time_folds(times, y, folds=2)
        >>> [(len(found.train(fold)), rows.tolist()) for fold, rows in enumerate(found.held)]
        [(4, [4, 5, 6, 7]), (8, [8, 9, 10, 11])]
    """
    asked, n = folds or FOLDS, len(y)
    ordered = times.sort().values
    limits = ordered[[min(n - 1, round(part * n / (asked + 1))) for part in range(1, asked + 1)]].unique()
    classes, held, trained = len(y.unique()), [], []
    for place, limit in enumerate(limits):
        here = times >= limit
        if place + 1 < len(limits):
            here &= times < limits[place + 1]
        before = times < limit
        if groups is not None:
            before &= ~torch.isin(groups, groups[here].unique())
        if len(y[before].unique()) == classes and bool(here.any()):
            held.append(here.nonzero().reshape(-1))
            trained.append(before.nonzero().reshape(-1))
    if not held:
        raise InputError("--time", "no moment that has every class before it", "rows of every class early and late")
    notes = [] if len(held) == asked else [f"{len(held)} folds in time instead of {asked}: the others lack a class"]
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
        >>> found = make_list_folds(lists, (torch.arange(40) % 4 == 0).long(), seed=0)
        >>> [len(lists[rows].unique()) for rows in found.held]
        [2, 2, 2, 2, 2]
    """
    single = single or (folds is None and len(y) > ONE_SPLIT_ABOVE)
    asked = folds or FOLDS
    parts = list_parts(lists, y, asked, seed)
    if parts is None:
        raise InputError(
            "--query",
            "fewer than two queries whose rows differ in grade",
            "more of them, to learn from some and hold out others",
        )
    notes = (
        []
        if len(parts) == asked
        else [f"{len(parts)} folds instead of {asked}: only so many queries have rows of different grades"]
    )
    return Folds(tuple(parts[:1] if single else parts), len(y), tuple(notes))


def informative_lists(lists: Tensor, y: Tensor) -> Tensor:
    """Numbers of the lists whose rows differ in grade, ascending: the others are the same in any order.

    Example:
        >>> informative_lists(torch.tensor([7, 7, 8, 8, 9]), torch.tensor([0, 1, 1, 1, 0])).tolist()
        [7]
    """
    known, place = lists.unique(return_inverse=True)
    low, high = (
        torch.zeros_like(known).scatter_reduce(0, place, y, how, include_self=False) for how in ("amin", "amax")
    )
    found: Tensor = known[low < high]
    return found


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
    part = torch.empty(len(every), dtype=torch.long)
    part[torch.searchsorted(every, order)] = torch.arange(len(order)) % number
    of_row = part[torch.searchsorted(every, lists)]
    return [(of_row == one).nonzero().reshape(-1) for one in range(number)]


def _split(y: Tensor, seed: int, groups: Tensor | None, number: int) -> list[Tensor]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels = y.numpy()
    blank = np.zeros(len(labels))
    if groups is None:
        parts = StratifiedKFold(number, shuffle=True, random_state=seed).split(blank, labels)
    else:
        parts = StratifiedGroupKFold(number, shuffle=True, random_state=seed).split(blank, labels, groups.numpy())
    return [torch.from_numpy(np.sort(held)).long() for _, held in parts]


def _groups_with_rarest(y: Tensor, groups: Tensor) -> int:
    """The fewest groups that any class appears in."""
    return min(len(groups[y == one].unique()) for one in y.unique())


def _checked(folds: Folds, y: Tensor) -> Folds:
    """No fold may train without a class: nothing could be learned about it there."""
    classes = len(y.unique())
    for number in range(len(folds)):
        if len(y[folds.train(number)].unique()) < classes or len(folds.held[number]) == 0:
            raise InputError(
                "groups",
                f"groups whose fold {number + 1} of {len(folds)} would train without one of the {classes} classes",
                "every class in several groups",
                "Use another group column, or none.",
            )
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


def rows_of_each(ids: Tensor) -> list[Tensor]:
    """Row numbers, ascending, of every different id ``(n,)``, the ids ascending: one sort, however many there are.

    Example:
        >>> import torch
        >>> [rows.tolist() for rows in rows_of_each(torch.tensor([7, 3, 7]))]
        [[1], [0, 2]]
    """
    return list(ids.argsort(stable=True).split(ids.unique(return_counts=True)[1].tolist()))
