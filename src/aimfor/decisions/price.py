"""What a promise costs: the objective kept with it, without it, and for the constant answers "nobody", "everybody"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import FN, FP, TN, TP, Array, Counts
from ..constraints.expressions import Expression
from ..constraints.parts import Part
from .power import parts_power
from .sweep import objective_value

#: A decision for fewer rows than this share of the positives is nearly "nobody"; likewise of the negatives left out.
NEARLY = 0.1
#: More labels than this many times those at hand are not forecast.
MOST_TIMES = 1000.0


@dataclass(frozen=True)
class Price:
    """The objective on the calibration rows, as the user states it.

    Attributes:
        kept: At the guaranteed threshold.
        without: At the best threshold that keeps the bounds on these rows, with no guarantee.
        constant: Of the better constant answer, or None where neither is measured.
        nearly: "nobody" or "everybody" where the decision is nearly that, else "".
        labels: About how many more labelled rows halve the distance between ``kept`` and ``without``.
    """

    kept: float
    without: float
    constant: float | None
    nearly: str
    labels: int | None

    def sentence(self, objective: str) -> str:
        words = f"{objective} is {self.kept:.4g} with the promise and {self.without:.4g} without it"
        if self.kept == self.without:
            return words + "."
        if self.labels is None:
            return words + "; more labels would hardly bring them closer."
        return words + f"; about {self.labels} more labelled rows would halve the difference."

    def warning(self, objective: str, share: float) -> str:
        """Said first where a decision is nearly constant."""
        if not self.nearly:
            return ""
        beside = "" if self.constant is None else f"{self.constant:.4g} for {self.nearly}, "
        return (
            f"Nearly {self.nearly}: {share:.1%} of the rows are decided positive. {objective} is {self.kept:.4g}, "
            f"{beside}{self.without:.4g} without the promise. "
        )


def constant_counts(counts: Counts) -> Counts:
    """Two tables, ``(2, *sizes, 4)``: the same rows with nobody decided positive, and with everybody."""
    table = counts.table.reshape(-1, *counts.table.shape[-len(counts.levels.sizes) - 1 :])[0]
    positive, negative = table[..., TP] + table[..., FN], table[..., FP] + table[..., TN]
    none = np.zeros_like(positive)
    nobody, everybody = (none, none, positive, negative), (positive, negative, none, none)
    return Counts(counts.levels, np.stack([np.stack(cells, -1) for cells in (nobody, everybody)]))


def kept_bounds(parts: Sequence[Part], counts: Counts) -> Array:
    """Whether every bound is kept, by the counts as they are; ``(*lead,)``."""
    return np.asarray(np.all([part.margin(counts) >= 0.0 for part in parts], 0))


def least_goal(objective: Expression, sign: float, parts: Sequence[Part], counts: Counts) -> float:
    """Half way from the best constant answer that keeps the bounds to the best threshold that does; −inf without one.

    A constant answer keeps a gap or a ceiling with no variance at all, so that a sequence of tests in search of power
    would start beside it. That needs rates of exactly 0 or 1: the precision of everybody is as uncertain as any other,
    and that of nobody has no value.
    """
    constant = constant_counts(counts)
    rates = np.stack([rate.ratio(constant) for part in parts for _, rate in part.terms])
    sure = ((rates == 0.0) | (rates == 1.0)).all(0)
    safe = objective_value(objective, constant, sign)[kept_bounds(parts, constant) & sure]
    safe = safe[np.isfinite(safe)]
    goal = objective_value(objective, counts, sign)[kept_bounds(parts, counts)]
    if not len(safe) or not goal.size:
        return -math.inf
    return 0.5 * (float(safe.max()) + max(float(goal.max()), float(safe.max())))


def nearly_constant(at: Counts) -> tuple[str, float]:
    """Which constant answer a decision nearly is, or "", and the share of rows that it decides positive."""
    tp, fp, fn, tn = at.cells().tolist()
    share = (tp + fp) / max(tp + fp + fn + tn, 1.0)
    if tp + fp <= NEARLY * (tp + fn):
        return "nobody", share
    return ("everybody" if fn + tn <= NEARLY * (fp + tn) else ""), share


def halving(
    parts: Sequence[Part], counts: Counts, goal: Array, kept: float, without: float, critical: float
) -> float | None:
    """How many times the rows at hand it takes until a threshold half way to ``without`` is accepted on average."""
    good = goal >= 0.5 * (kept + without)
    times = 1.1  # the rows at hand were not enough
    while times <= MOST_TIMES and bool(good.any()):
        if bool((parts_power(parts, Counts(counts.levels, times * counts.table))[good] >= critical).any()):
            return times
        times *= 1.1
    return None
