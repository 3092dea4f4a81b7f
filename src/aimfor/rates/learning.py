"""Which rows choose the order of the tests: other rows, a random part of the same, or each fold in turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch
from ..errors import InputError

#: Share of the rows that choose the order of tests when the same rows have to serve for both.
LEARN_SHARE = 0.3
MOST_FOLDS = 20
#: Fewer calibration rows than this cannot guarantee anything worth having.
FEWEST_ROWS = 20
#: Other rows (scores, targets) or (scores, targets, groups); "split"; or fold ids.
Learn = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Mapping[str, Tensor]] | str | Tensor


def checked_rows(name: str, scores: Any, targets: Any, groups: Any) -> Batch:
    """Rows through the gate; infinite scores are named with their usual cause."""
    if isinstance(scores, Tensor) and scores.is_floating_point() and bool(scores.isinf().any()):
        raise InputError(
            name,
            f"{int(scores.isinf().sum())} infinite scores",
            "finite scores",
            "The usual cause is a probability of exactly 0 or 1 turned into a logit: pass probabilities as they are.",
        )
    return checks.binary(scores.detach() if isinstance(scores, Tensor) else scores, targets, groups=groups)


def calibration_share(learn: Learn) -> float:
    """Calibration rows as a share of the labelled rows that were given; folds calibrate on all but their own."""
    if isinstance(learn, Tensor):
        folds = max(len(learn.unique()), 2)
        return (folds - 1) / folds
    return 1.0 if isinstance(learn, tuple) else 1.0 - LEARN_SHARE


def learning_pairs(batch: Batch, learn: Learn) -> list[tuple[Batch, Batch]]:
    """(learning rows, calibration rows) from other rows, from a random part of these, or by folds of these."""
    if isinstance(learn, Tensor):
        return _by_folds(batch, learn)
    if isinstance(learn, tuple) and len(learn) in (2, 3):
        other = checked_rows("learn", *learn, *([None] if len(learn) == 2 else []))
        same = other.scores.numel() == batch.scores.numel() and torch.equal(other.scores, batch.scores)
        if same and torch.equal(other.targets, batch.targets):
            raise InputError(
                "learn", "the calibration rows themselves", "other rows", 'Use learn="split", or training rows.'
            )
        return [(other, batch)]
    if learn != "split":
        raise InputError("learn", repr(learn), '(scores, targets) of other rows, "split", or fold ids')
    if round(LEARN_SHARE * batch.scores.numel()) < FEWEST_ROWS:
        least = math.ceil((FEWEST_ROWS - 0.5) / LEARN_SHARE)
        remedy = "Label more rows; or let other rows, such as training rows, order the tests (learn)."
        raise InputError("scores", f"{batch.scores.numel()} rows, to be split", f"at least {least}", remedy)
    order = torch.randperm(batch.scores.numel(), generator=torch.Generator().manual_seed(0))
    cut = round(LEARN_SHARE * order.numel())
    return [(_rows(batch, order[:cut]), _rows(batch, order[cut:]))]


def _by_folds(batch: Batch, ids: Tensor) -> list[tuple[Batch, Batch]]:
    if ids.shape != batch.scores.shape or ids.is_floating_point():
        raise InputError("learn", f"fold ids of shape {tuple(ids.shape)}", "one whole number for each row")
    folds = ids.unique()
    if not 2 <= folds.numel() <= MOST_FOLDS:
        raise InputError("learn", f"{folds.numel()} folds", f"2 to {MOST_FOLDS} folds")
    return [(_rows(batch, ids == fold), _rows(batch, ids != fold)) for fold in folds]


def _rows(batch: Batch, chosen: Tensor) -> Batch:
    groups = {name: labels[chosen] for name, labels in batch.groups.items()}
    return Batch(batch.scores[chosen], batch.targets[chosen], groups=groups)
