"""Random input by layout, shared by the law tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """Arguments of a metric: scores, targets, weights. Rows are examples, or lists for the layout "lists"."""

    layout: str
    scores: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def rows(self, index: Tensor) -> Sample:
        weights = None if self.weights is None else self.weights[index]
        return replace(self, scores=self.scores[index], targets=self.targets[index], weights=weights)


def sample(layout: str, seed: int = 0, n: int = 24, ties: bool = True, dtype: torch.dtype = torch.float64) -> Sample:
    """Small input on which every metric of the layout is defined; with ``ties``, many scores are equal."""
    generator = torch.Generator().manual_seed(seed)
    shape = {"binary": (n,), "multiclass": (n, 3), "multilabel": (n, 3), "lists": (5, 7)}[layout]
    scores = torch.randn(shape, generator=generator, dtype=dtype)
    if ties:
        scores = (2 * scores).round() / 2
    if layout == "multiclass":
        targets = torch.arange(n) % 3
    else:
        targets = (torch.rand(shape, generator=generator) < 0.4).long()
        targets[..., 0], targets[..., 1] = 1, 0
        if layout == "multilabel":  # in every column too
            targets[0], targets[1] = 1, 0
            targets[:, 0] = torch.arange(n) % 2
    weights = torch.randint(1, 4, shape[:1], generator=generator).to(dtype)
    return Sample(layout, scores, targets, weights)


def perfect(layout: str, n: int = 24) -> Sample:
    """Scores that every metric of the layout must call perfect: large margins around 0."""
    base = sample(layout, n=n)
    if layout == "lists":
        base.targets[:, 3:] = 0  # a list with more positives than k has no perfect recall@k
    if layout == "multiclass":
        scores = 8.0 * torch.nn.functional.one_hot(base.targets, 3).double() - 4.0
    else:
        scores = 8.0 * base.targets.double() - 4.0
    return Sample(layout, scores, base.targets)
