"""Which rows train and which judge: stratified folds, whole groups together, one split where folds cost too much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError

#: Folds, and how many a table with few rows gets: there a model notices every tenth of the rows it lacks.
FOLDS, SMALL_FOLDS, SMALL = 5, 10, 1_000
#: Above this many rows one split judges as well as folds do, at a fraction of the cost.
ONE_SPLIT_ABOVE = 60_000
#: Of the rows of a single split that judge.
JUDGE_SHARE = 0.2


@dataclass(frozen=True)
class Folds:
    """Judging rows of each fold; every other row trains there.

    Attributes:
        judges: Row numbers, ascending, one tensor a fold. Disjoint; together all rows, or a part for one split.
        n: Number of rows.
        notes: What was done differently from what a user would expect, in words.
    """

    judges: tuple[Tensor, ...]
    n: int
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.judges)

    def train(self, fold: int) -> Tensor:
        """Row numbers that train in this fold, ascending."""
        inside = torch.ones(self.n, dtype=torch.bool)
        inside[self.judges[fold]] = False
        return inside.nonzero().reshape(-1)

    @property
    def judged(self) -> Tensor:
        """All rows that judge in some fold, ascending."""
        return torch.cat(self.judges).sort().values

    @property
    def numbers(self) -> Tensor:
        """The fold of each judged row, in the order of `judged`."""
        fold = torch.full((self.n,), -1)
        for number, rows in enumerate(self.judges):
            fold[rows] = number
        return fold[self.judged]


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
        >>> [y[rows].sum().item() for rows in make_folds(y, seed=0, folds=5).judges]
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
        notes.append(f"{n} rows: one split (a fifth of the rows judges) instead of {FOLDS} folds, to save time")
    most = int(counts.min()) if groups is None else min(int(counts.min()), _groups_with_rarest(y, groups))
    if most < 2:
        what = "row" if groups is None else "group"
        raise InputError(
            "y", f"a class with {most} {what}", f"at least 2 {what}s of every class, to train and to judge"
        )
    number = min(asked, most)
    if number < asked and not single:
        notes.append(
            f"{number} folds instead of {asked}: the rarest class has {most} {'rows' if groups is None else 'groups'}"
        )
    judges = _split(y, seed, groups, number if not single else min(most, round(1 / JUDGE_SHARE)))
    judges = judges[:1] if single else judges
    if any(len(y[rows].unique()) < len(counts) for rows in judges) and not single:
        notes.append("some folds judge without rows of every class; all folds are judged together, so this is no loss")
    return _checked(Folds(tuple(judges), n, tuple(notes)), y)


def _split(y: Tensor, seed: int, groups: Tensor | None, number: int) -> list[Tensor]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels = y.numpy()
    blank = np.zeros(len(labels))
    if groups is None:
        parts = StratifiedKFold(number, shuffle=True, random_state=seed).split(blank, labels)
    else:
        parts = StratifiedGroupKFold(number, shuffle=True, random_state=seed).split(blank, labels, groups.numpy())
    return [torch.from_numpy(np.sort(judge)).long() for _, judge in parts]


def _groups_with_rarest(y: Tensor, groups: Tensor) -> int:
    """The fewest groups that any class appears in."""
    return min(len(groups[y == one].unique()) for one in y.unique())


def _checked(folds: Folds, y: Tensor) -> Folds:
    """No fold may train without a class: nothing could be learned about it there."""
    classes = len(y.unique())
    for number in range(len(folds)):
        if len(y[folds.train(number)].unique()) < classes or len(folds.judges[number]) == 0:
            raise InputError(
                "groups",
                f"groups whose fold {number + 1} of {len(folds)} would train without one of the {classes} classes",
                "every class in several groups",
                "Use another group column, or none.",
            )
    if len(folds) == 1 and len(y[folds.judges[0]].unique()) < classes:
        raise InputError("y", "a class too rare to train and to judge in one split", "more rows of it, or folds")
    return folds
