"""Labels to class ids, and the stratified split into training, validation and test rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, nearest
from ..spelling import canonical

Array = NDArray[Any]
Rows = NDArray[np.int64]
#: What the negative class is called when it is all other labels.
REST = "rest"
#: What to do with more than two classes, beside naming one of them.
SEVERAL = "use f1_macro, accuracy, auroc_ovr or another metric of several classes"
GRADES = "name the column that the rows of one ranked list share: --query COLUMN"
_POSITIVE_WORDS = ("1", "yes", "true", "y", "t", "positive", "pos")


@dataclass
class Labels:
    """The classes in the order of their ids. Binary tasks: ``[negative, positive]``, where negative may be "rest"."""

    classes: list[str]
    binary: bool
    notes: list[str] = field(default_factory=list)

    @property
    def state(self) -> dict[str, Any]:
        return {"classes": self.classes, "binary": self.binary, "notes": self.notes}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Labels:
        """From `state`. Raises `ValueError` for what no training wrote."""
        labels = cls(**state)
        words = isinstance(labels.classes, list) and all(isinstance(one, str) for one in labels.classes)
        if not words or len(set(labels.classes)) < max(2, len(labels.classes)) or not isinstance(labels.binary, bool):
            raise ValueError("labels that are not two classes or more")
        return labels

    @property
    def outputs(self) -> int:
        """Columns the model must give: one score for binary tasks, else one per class."""
        return 1 if self.binary else len(self.classes)

    def encode(self, labels: Array) -> Rows:
        """Class ids ``(n,)``. A label may be spelled in another way than in training, as ``1.0`` or ``True``."""
        known = {canonical(label): i for i, label in enumerate(self.classes)}
        known |= {label: i for i, label in enumerate(self.classes)}
        ids = {label: known.get(label, known.get(canonical(label), -1)) for label in dict.fromkeys(labels)}
        if self.binary and self.classes[0] == REST:
            ids = {label: int(place == 1) for label, place in ids.items()}
        strange = next((label for label, place in ids.items() if place < 0), None)
        if strange is not None:
            raise InputError("target", f"the label {strange!r}", "a label seen in training: " + ", ".join(self.classes))
        return np.array([ids[label] for label in labels], dtype=np.int64)


def fit_labels(labels: Array, *, binary: bool, positive: str | None = None, otherwise: str = SEVERAL) -> Labels:
    """Finds the classes, and for binary metrics which of them is the positive one.

    Where there are more than two for a binary metric, ``otherwise`` says what to do instead of naming one of them.

    Raises:
        InputError: One class only, free text or a continuous number as target, more classes than the metric takes,
            a class with fewer than three rows.
    """
    return labels_of_counts(Counter(labels), binary=binary, positive=positive, otherwise=otherwise)


def labels_of_counts(
    counts: Counter[str], *, binary: bool, positive: str | None = None, otherwise: str = SEVERAL
) -> Labels:
    """The same from the number of rows of each label."""
    rows = counts.total()
    if len(counts) < 2:
        only = next(iter(counts), "nothing")
        raise InputError("target", f"one value only ({only!r}) in all {rows} rows", "two classes or more")
    if len(counts) > 20 and len(counts) > 0.1 * rows and positive is None:
        sample = sorted(counts)[0]
        raise InputError(
            "target",
            f"{len(counts)} different values in {rows} rows (such as {sample[:40]!r})",
            "classes, not free text or a measured number",
            "Choose another column, or make classes of this one.",
        )
    found = _binary(counts, positive, otherwise) if binary else Labels(sorted(counts, key=_natural), False)
    _enough_rows(counts, found, rows)
    return found


def _natural(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


def _spelled_as_in(counts: Counter[str], wanted: str) -> str:
    """The label that says the same: ``True`` is ``true``, ``1.0`` is ``1``."""
    same = [label for label in counts if label == wanted] or [
        label for label in counts if canonical(label) == canonical(wanted)
    ]
    if not same:
        raise InputError("positive", repr(wanted), "a value of the target column", nearest(wanted, counts))
    return same[0]


def _binary(counts: Counter[str], positive: str | None, otherwise: str) -> Labels:
    if positive is not None:
        positive = _spelled_as_in(counts, positive)
    if len(counts) > 2:
        _same_but_for_case(counts)
        if positive is None:
            names = ", ".join(sorted(counts, key=_natural)[:6]) + (", …" if len(counts) > 6 else "")
            remedy = f"Name the one to find with --positive VALUE, or {otherwise}."
            raise InputError("target", f"{len(counts)} classes ({names})", "two classes", remedy)
        return Labels([REST, positive], True)
    notes = []
    if positive is None:
        words = [label for label in counts if label.lower() in _POSITIVE_WORDS]
        positive = words[0] if len(words) == 1 else min(counts, key=lambda label: (counts[label], label))
        notes.append(f"{positive!r} is taken as the positive class (choose with --positive)")
    negative = next(label for label in counts if label != positive)
    return Labels([negative, positive], True, notes)


def _same_but_for_case(counts: Counter[str]) -> None:
    """Raises `InputError` where two of the labels are one word: naming one would make the other a negative."""
    spelled: dict[str, list[str]] = {}
    for label in sorted(counts):
        spelled.setdefault(label.casefold(), []).append(label)
    twice = next((labels for labels in spelled.values() if len(labels) > 1), None)
    if twice is not None:
        came = f"labels that differ in capitals only ({', '.join(map(repr, twice))})"
        raise InputError("target", came, "one spelling for each class", "Write them in one way in the file.")


def _enough_rows(counts: Counter[str], found: Labels, n: int) -> None:
    sizes = {one: counts[one] for one in found.classes}
    if found.binary and found.classes[0] not in counts:
        sizes = {found.classes[1]: counts[found.classes[1]], "rest": n - counts[found.classes[1]]}
    rare = min(sizes, key=lambda label: sizes[label])
    if sizes[rare] < 3:
        raise InputError(
            "target",
            f"{sizes[rare]} row{'s' if sizes[rare] > 1 else ''} of class {rare!r}",
            "at least 3 of every class",
            "Collect more rows of it, or leave the class out.",
        )


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
    for one in np.unique(ids):
        members = np.flatnonzero(ids == one)
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
        for part, rows in zip(parts, (rest[take:], rest[:take], held), strict=True):
            part.append(rows)
    train, between, held_out = (np.sort(np.concatenate(part)) for part in parts)
    return Split(train, between, held_out)


def _whole_split(
    ids: Rows, test: Array | None, holdout: float, aside: float, part: Callable[[Rows, float], Rows], refused: Exception
) -> Split:
    """The same where some rows stay together: ``part`` gives about a share of rows, and what belongs to them."""
    everything = np.arange(len(ids))
    held = np.flatnonzero(test) if test is not None else part(everything, holdout) if holdout else everything[:0]
    rest = np.setdiff1d(everything, held)
    share = min(0.5, aside / (1 - (0.0 if test is not None else holdout)))
    between = part(rest, share) if share else rest[:0]
    found = Split(np.setdiff1d(rest, between), between, held)
    for rows in (found.train, *(one for one in (held, between) if len(one))):
        if len(np.unique(ids[rows])) < len(np.unique(ids)):
            raise refused
    return found


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
