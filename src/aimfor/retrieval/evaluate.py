"""Exact metrics of retrieval for any number of lists of any length, block by block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch
from ..errors import InputError
from ..metrics import Metric
from ..metrics.lists import TiedPlaces, tied_places
from . import gate

#: Similarities in one block: 64 MB in float32.
BLOCK = 1 << 24


def evaluate(
    embeddings: Tensor,
    labels: Tensor,
    references: Tensor | None = None,
    reference_labels: Tensor | None = None,
    *,
    k: Sequence[int] = (1, 10),
    similarity: str = "cosine",
    block: int = BLOCK,
) -> dict[str, float]:
    """MAP@R, R-precision and recall@k of every query against all other examples, or against given references.

    recall@k is the share of queries with a hit among their k nearest. Queries without a positive are left out of all
    means and counted. Items of equal similarity stand in random order: values are means over the orders.

    Args:
        embeddings: ``(n, d)`` queries.
        labels: ``(n,)`` class ids.
        references: ``(m, d)``, or None for the queries themselves, each without itself.
        reference_labels: ``(m,)``, with references.
        k: Which recalls to report; at most the length of a list.
        similarity: ``"cosine"`` or ``"dot"``.
        block: Similarities held at a time; memory is about 16 bytes for each.

    Returns:
        ``"map@r"``, ``"r_precision"``, ``"recall@k"`` for each k, and ``"without"``, the queries left out. NaN if no
        query has a positive.

    Example:
        >>> import torch
        >>> from aimfor.retrieval import evaluate
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> evaluate(x, torch.tensor([0, 0, 1, 1]), k=[1])["recall@1"]
        1.0
    """
    with torch.no_grad():
        search = gate.check(embeddings, labels, references, reference_labels, similarity)
        length = len(search.references) - int(search.own)
        for depth in k:
            if checks.integer("k", depth, at_least=1) > length:
                raise InputError("k", repr(depth), f"at most {length}, the length of the lists")
        sizes = _positives(search)
        kept = (sizes > 0).nonzero().squeeze(1)
        names = ["map@r", "r_precision", *(f"recall@{depth}" for depth in k)]
        if not len(kept):
            return dict.fromkeys(names, float("nan")) | {"without": float(len(sizes))}
        deepest = max(int(sizes.max()), *k) if k else int(sizes.max())
        sums = torch.zeros(len(names), dtype=torch.float64)
        for rows in kept.split(max(1, block // max(1, len(search.references)))):
            sums += _evaluated(_nearest(search, rows, deepest), sizes[rows], k)
        values = (sums / len(kept)).tolist()
        return dict(zip(names, values, strict=True)) | {"without": float(len(sizes) - len(kept))}


def _positives(search: gate.Queries) -> Tensor:
    """``(n,)`` how many positives each query's list has."""
    classes, counts = search.reference_labels.unique(return_counts=True)
    if not len(classes):
        return torch.zeros_like(search.labels)
    at = torch.searchsorted(classes, search.labels).clamp_max(len(classes) - 1)
    return torch.where(classes[at] == search.labels, counts[at], 0) - int(search.own)


def _nearest(search: gate.Queries, rows: Tensor, depth: int) -> TiedPlaces:
    """The first places of each list; a tie may go on beyond them."""
    scores = search.queries[rows] @ search.references.t()
    if search.own:
        scores[torch.arange(len(rows), device=rows.device), rows] = -torch.inf
    nearest, at = scores.topk(depth, dim=1)
    labels = search.labels[rows, None]
    hit = (search.reference_labels[at] == labels).double()
    lowest = nearest[:, -1:]
    tied = scores == lowest
    beyond = tied.sum(1) - (nearest == lowest).sum(1)
    hits_beyond: Tensor | float = 0.0
    if bool(beyond.any()):
        same = (search.reference_labels == labels) & tied
        hits_beyond = same.sum(1) - (hit * (nearest == lowest)).sum(1)
    return tied_places(nearest, hit, beyond, hits_beyond)


def _evaluated(tied: TiedPlaces, sizes: Tensor, k: Sequence[int]) -> Tensor:
    """Sums over the rows of each metric."""
    inside, sizes = tied.within(sizes), sizes.double()
    sums = [((inside * tied.precision).sum(1) / sizes).sum(), (inside.sum(1) / sizes).sum()]
    sums += [tied.hit_within(depth).sum() for depth in k]
    return torch.stack(sums).cpu()


def evaluate_metric(metric: Metric, search: gate.Queries, block: int = BLOCK) -> Tensor:
    """Any metric of lists, as its own `exact` has it; lists without a positive are left out."""
    sizes = _positives(search)
    kept = (sizes > 0).nonzero().squeeze(1)
    total = torch.zeros((), dtype=torch.float64)
    for rows in kept.split(max(1, block // max(1, 8 * len(search.references)))):
        scores = search.queries[rows] @ search.references.t()
        there = torch.ones_like(scores, dtype=torch.bool)
        if search.own:
            there[torch.arange(len(rows), device=rows.device), rows] = False
        same = (search.labels[rows, None] == search.reference_labels) & there
        batch = Batch(scores, same, where=there)
        total += len(rows) * metric.exact(batch).cpu()
    return total / len(kept) if len(kept) else torch.full((), torch.nan, dtype=torch.float64)
