"""Batches of training counted into tables: tensors in, NumPy tables out, the same on every process."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .. import distributed
from ..constraints.counts import Counts, Levels, encode
from ..engine import Batch


def encoded(batch: Batch, levels: Levels) -> tuple[Tensor, Levels]:
    """Each example's combination of labels as one whole number on the scores' device, and the levels grown by it."""
    if not levels.names:
        return torch.zeros_like(batch.scores, dtype=torch.long), levels
    groups = {name: labels.detach().cpu().double().numpy() for name, labels in batch.groups.items()}
    codes, grown = encode(groups, batch.scores.shape[0], levels)
    return torch.from_numpy(codes).to(batch.scores.device), grown


def tallied(batch: Batch, predicted: Tensor, codes: Tensor, levels: Levels) -> Counts:
    """Counts of one batch of decisions (``(n,)`` bool), weighted and masked as the batch says."""
    cell = 3 - 2 * predicted.long() - batch.targets.long()
    counted = torch.bincount(
        cell if not levels.names else codes * 4 + cell,
        weights=batch.effective_weights(),
        minlength=4 * levels.combinations,
    )
    return Counts(levels, counted.double().cpu().numpy().reshape(*levels.sizes, 4))


def reduced(counts: Counts) -> Counts:
    """Summed over all processes, which first agree on the labels; the same table everywhere."""
    if distributed.world_size() == 1:
        return counts
    every: list[Any] = [None] * distributed.world_size()
    dist.all_gather_object(every, counts)
    total = every[0]
    for other in every[1:]:
        total = total.plus(other)
    assert isinstance(total, Counts)
    return total


def counts_state(counts: Counts) -> dict[str, Any]:
    """Plain lists: JSON."""
    return {
        "names": list(counts.levels.names),
        "labels": [list(labels) for labels in counts.levels.labels],
        "table": counts.table.reshape(-1).tolist(),
    }


def counts_from_state(state: dict[str, Any]) -> Counts:
    levels = Levels(tuple(state["names"]), tuple(tuple(labels) for labels in state["labels"]))
    return Counts(
        levels, torch.as_tensor(state["table"], dtype=torch.float64).clone().numpy().reshape(*levels.sizes, 4)
    )
