"""Choosing on validation data: what is held out, and where a deciding metric puts its threshold."""

from __future__ import annotations

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from ..metrics.confusion import CountMetric
from ..metrics.curve import threshold_curve


def held_out(targets: Tensor, layout: str, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions to fit on and positions to choose on, drawn class by class (list by list for ranked lists)."""
    generator = torch.Generator().manual_seed(seed)
    if layout == "lists":
        groups = [torch.arange(targets.shape[0])]
    else:
        labels = targets.detach().reshape(targets.shape[0], -1)[:, 0].cpu()
        groups = [(labels == label).nonzero().squeeze(1) for label in labels.unique()]
    kept, held = [], []
    for group in groups:
        shuffled = group[torch.randperm(group.numel(), generator=generator)]
        count = round(fraction * group.numel())
        if not 0 < count < group.numel():
            raise InputError(
                "validation",
                f"{fraction:g} of a class with {group.numel()} rows",
                "a fraction that leaves some on both sides",
                "Pass validation=(features, targets).",
            )
        held.append(shuffled[:count])
        kept.append(shuffled[count:])
    return torch.cat(kept).sort().values.to(targets.device), torch.cat(held).sort().values.to(targets.device)


def best_shift(metric: CountMetric, batch: Batch) -> float:
    """What to add to the scores so that deciding at the metric's threshold gives its highest value; exact.

    Every way to cut the ranked scores is tried (one sort, one pass over the counts); the cut lies midway between
    neighbouring scores. Of equally good cuts the highest is taken.
    """
    curve = threshold_curve(batch)
    zero = curve.tp.new_zeros(1)
    tp, fp = torch.cat((zero, curve.tp)), torch.cat((zero, curve.fp))
    values = metric.of_counts(tp, fp, curve.positives - tp, curve.negatives - fp)
    best = int(values.nan_to_num(-torch.inf).argmax())
    kept = curve.thresholds.double()
    edges = torch.cat((kept[:1] + 1.0, kept, kept[-1:] - 1.0))
    return metric.threshold - float((edges[best] + edges[best + 1]) / 2)
