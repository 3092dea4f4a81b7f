"""Labels as class ids, or as grades of rows that ranked lists hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, nearest
from ..spelling import canonical, is_number

if TYPE_CHECKING:  # which need torch: `aimfor decide` reads labels without
    from .folds import Array, Rows
    from .objective import Objective

#: What the negative class is called when it is all other labels.
REST = "rest"
#: What to do with more than two classes, beside naming one of them.
SEVERAL = "use f1_macro, accuracy, auroc_ovr or another metric of several classes"
GRADES = "name the column that the rows of one ranked list share: --query COLUMN"
#: LightGBM keeps a table of what each grade is worth, so that grades have an end.
HIGHEST_GRADE = 1000
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
        words = isinstance(labels.classes, list) and all(isinstance(name, str) for name in labels.classes)
        if not words or len(set(labels.classes)) < max(2, len(labels.classes)) or not isinstance(labels.binary, bool):
            raise ValueError("labels that are not two classes or more")
        return labels

    @property
    def outputs(self) -> int:
        """Columns the model must give: one score for binary tasks, else one per class."""
        return 1 if self.binary else len(self.classes)

    def encode(self, labels: Array) -> Rows:
        """Class ids ``(n,)``. A label may be spelled in another way than in training, as ``1.0`` or ``True``."""
        index = {canonical(label): i for i, label in enumerate(self.classes)}
        index |= {label: i for i, label in enumerate(self.classes)}
        ids = {label: index.get(label, index.get(canonical(label), -1)) for label in dict.fromkeys(labels)}
        if self.binary and self.classes[0] == REST:
            ids = {label: int(number == 1) for label, number in ids.items()}
        strange = next((label for label, number in ids.items() if number < 0), None)
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
    labels = _binary(counts, positive, otherwise) if binary else Labels(sorted(counts, key=_natural), False)
    _enough_rows(counts, labels, rows)
    return labels


def _natural(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


def _binary(counts: Counter[str], positive: str | None, otherwise: str) -> Labels:
    if positive is not None and positive not in counts:  # ``True`` is ``true``, ``1.0`` is ``1``
        same = [label for label in counts if canonical(label) == canonical(positive)]
        if not same:
            raise InputError("positive", repr(positive), "a value of the target column", nearest(positive, counts))
        positive = same[0]
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


def _enough_rows(counts: Counter[str], labels: Labels, n: int) -> None:
    sizes = {name: counts[name] for name in labels.classes}
    if labels.binary and labels.classes[0] not in counts:
        sizes = {labels.classes[1]: counts[labels.classes[1]], "rest": n - counts[labels.classes[1]]}
    rare = min(sizes, key=lambda label: sizes[label])
    if sizes[rare] < 3:
        raise InputError(
            "target",
            f"{sizes[rare]} row{'s' if sizes[rare] > 1 else ''} of class {rare!r}",
            "at least 3 of every class",
            "Collect more rows of it, or leave the class out.",
        )


def grades_of(labels: Array, objective: Objective) -> tuple[Labels, Rows]:
    """Whole numbers from 0: how relevant each row is. Under a metric without grades all above 0 are alike.

    Raises:
        InputError: Words, fractions, negative or huge numbers, or one grade only.
    """
    distinct = set(labels)
    wrong = next((label for label in sorted(distinct) if not _is_grade(label)), None)
    if wrong is not None:
        raise InputError(
            "target",
            f"{wrong!r}",
            f"grades as whole numbers from 0 (not relevant) to at most {HIGHEST_GRADE}",
            "Number the grades by how relevant a row is.",
        )
    grades = np.array([int(float(label)) for label in labels], dtype=np.int64)
    if grades.min() == grades.max():
        only = int(grades[0])
        what = "no row is relevant to its query" if only == 0 else "every row is equally relevant"
        raise InputError("target", f"the grade {only} in all {len(labels)} rows: {what}", "two grades or more")
    notes = []
    if not objective.graded and grades.max() > 1:
        notes.append(f"{objective.name} knows no grades: every grade above 0 counts as relevant")
        grades = np.minimum(grades, 1)
    return Labels([str(grade) for grade in sorted(set(grades.tolist()))], True, notes), grades


def _is_grade(text: str) -> bool:
    return is_number(text) and float(text).is_integer() and 0 <= float(text) <= HIGHEST_GRADE


def list_numbers(queries: Array, query: str) -> Rows:
    """One number a query, in the order of their names. Raises `InputError` where every query has one row only."""
    names, numbers = np.unique(queries.astype(str), return_inverse=True)
    if len(names) == len(queries):
        raise InputError(
            "--query",
            f"{query!r}, whose {len(names)} values are all different: one row in every query",
            "a column that rows of one list share",
            "A single row has no order.",
        )
    if len(names) == 1:
        raise InputError(
            "--query",
            f"{query!r} with the one value {str(names[0])!r}",
            "several queries: some to learn from, others to evaluate on",
            "Leave --query out if the table is one list.",
        )
    return np.asarray(numbers, dtype=np.int64)
