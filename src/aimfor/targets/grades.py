"""A table of ranked lists: which rows belong to one query, their grades, and parts that keep queries whole."""

from __future__ import annotations

import numpy as np
import torch

from ..errors import InputError
from ..spelling import is_number
from .classes import Array, Labels, Rows, Split
from .folds import informative_lists, list_parts
from .objective import Objective

#: One part of the queries in five is for the test; where there are no folds, one of the other four validates.
PARTS = 5
#: LightGBM keeps a table of what each grade is worth, so that grades have an end.
HIGHEST_GRADE = 1000


def grades_of(labels: Array, objective: Objective) -> tuple[Labels, Rows]:
    """Whole numbers from 0: how relevant each row is. Under a metric without grades all above 0 are alike.

    Raises:
        InputError: Words, fractions, negative or huge numbers, or one grade only.
    """
    distinct = set(labels)
    wrong = next((one for one in sorted(distinct) if not _is_grade(one)), None)
    if wrong is not None:
        raise InputError(
            "target",
            f"{wrong!r}",
            f"grades as whole numbers from 0 (not relevant) to at most {HIGHEST_GRADE}",
            "Number the grades by how relevant a row is.",
        )
    known = {one: int(float(one)) for one in distinct}
    grades = np.array([known[one] for one in labels], dtype=np.int64)
    if len(set(known.values())) < 2:
        only = next(iter(known.values()))
        what = "no row is relevant to its query" if only == 0 else "every row is equally relevant"
        raise InputError("target", f"the grade {only} in all {len(labels)} rows: {what}", "two grades or more")
    notes = []
    if not objective.graded and grades.max() > 1:
        notes.append(f"{objective.name} knows no grades: every grade above 0 counts as relevant")
        grades = np.minimum(grades, 1)
    return Labels([str(one) for one in sorted(set(grades.tolist()))], True, notes), grades


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
    if informative < PARTS:
        raise InputError(
            "--query",
            f"{informative} {'query' if informative == 1 else 'queries'} whose rows differ in grade",
            f"at least {PARTS}, better a hundred",
            "A query of one row, or with one grade in all rows, says nothing about order.",
        )
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
    inner = list_parts(numbers[rest], y[rest], PARTS - 1, seed + 1)
    if inner is None:
        raise InputError("--query", "too few queries to train, validate and test", f"at least {PARTS}")
    return Split(rest[np.sort(torch.cat(inner[1:]).numpy())], rest[inner[0].numpy()], held)
