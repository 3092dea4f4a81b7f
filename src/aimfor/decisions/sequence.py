"""Fixed-sequence testing: steps of a path are tested in their order, each sequence up to its first failure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..constraints.counts import Array, Counts, Levels, encode
from ..constraints.parts import all_parts
from .asked import DecisionTask
from .clusters import Clusters, design_effect, in_clusters
from .exact import Claim
from .learning import FEWEST_ROWS
from .path import Path
from .rows import Rows

#: A bet that wins 1/α asks for about 2.0 deviations where an exact test asks for 1.64: rows are worth so much less.
BETTING = 0.65


def accepted_steps(task: DecisionTask, path: Path, counts: Counts, levels: Levels, alpha: float) -> tuple[int, ...]:
    """Steps that some start's sequence of tests reaches and accepts."""
    claims = [Claim(part) for part in all_parts(task.constraints, levels)]

    def passes(step: int, level: float) -> bool:
        at = Counts(levels, counts.table[step])
        return all(claim.passes(at, level) for claim in claims)

    return _walked(path, alpha, passes)


def accepted_by_clusters(
    task: DecisionTask, path: Path, calibrate: Rows, learn: Rows, codes: Array, levels: Levels, alpha: float
) -> tuple[int, ...]:
    """The same, by tests that count clusters."""
    parts = all_parts(task.constraints, levels)

    def passes(step: int, level: float) -> bool:
        clusters = clusters_at(task, path.cuts[step], calibrate, learn, codes, levels)
        return all(clusters.passes(part, level) for part in parts)

    return _walked(path, alpha, passes)


def clusters_at(
    task: DecisionTask, cuts: Array, calibrate: Rows, learn: Rows, codes: Array, levels: Levels
) -> Clusters:
    """The calibration's clusters decided at these thresholds, beside those of the learning rows."""
    others = None
    if learn.cluster is not None:
        seen, _ = encode(learn.groups, len(learn), levels)
        none = np.zeros((0, *levels.sizes, 4))
        others = in_clusters(learn, _above(task, cuts, learn, levels), seen, levels, none).tables
    return in_clusters(calibrate, _above(task, cuts, calibrate, levels), codes, levels, others)


def _above(task: DecisionTask, cuts: Array, rows: Rows, levels: Levels) -> Array:
    if task.per_group is None:
        return np.asarray(rows.scores > cuts[0])
    return np.asarray(rows.scores > cuts[np.searchsorted(levels.of(task.per_group), rows.groups[task.per_group])])


def _walked(path: Path, alpha: float, passes: Callable[[int, float], bool]) -> tuple[int, ...]:
    accepted: set[int] = set()
    handed_on = 0.0
    for sequence in path.sequences:
        level = alpha / len(path.sequences) + handed_on
        handed_on = level
        for step in sequence:
            if not passes(step, level):
                handed_on = 0.0
                break
            accepted.add(step)
    return tuple(sorted(accepted))


def worth_in_rows(task: DecisionTask, calibrate: Rows, learn: Rows, codes: Array, levels: Levels) -> int:
    """Independent rows that the calibration's clusters are worth: a forecast, which orders the tests and no more."""
    if learn.cluster is None:  # half way from independent rows to copies
        assert calibrate.cluster is not None
        effect = (len(calibrate) / (int(calibrate.cluster.max()) + 1)) ** 0.5
    else:
        cuts = [float(cut) for cut in np.quantile(learn.scores, (0.5, 0.75, 0.9))]
        effect = design_effect(learn, all_parts(task.constraints, levels), codes, levels, cuts)
    return max(int(BETTING * len(calibrate) / max(effect, 1.0)), FEWEST_ROWS)
