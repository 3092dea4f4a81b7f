"""The gate of retrieval: embeddings, labels and references, checked and on one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .. import checks
from ..errors import InputError

SIMILARITIES = ("cosine", "dot")


@dataclass(frozen=True)
class Queries:
    """Checked input: similarities are products of the rows of ``queries`` and ``references``.

    Attributes:
        queries: ``(n, d)``, attached to the graph.
        labels: ``(n,)`` int64.
        references: ``(m, d)``; the queries themselves when none were given.
        reference_labels: ``(m,)`` int64.
        own: True where reference i *is* query i, which is then left out of its list.
    """

    queries: Tensor
    labels: Tensor
    references: Tensor
    reference_labels: Tensor
    own: bool


def check(embeddings: Any, labels: Any, references: Any, reference_labels: Any, similarity: str) -> Queries:
    """Raises `InputError` for anything that has no similarity or no label."""
    queries = _vectors("embeddings", embeddings, similarity)
    classes = _labels("labels", labels, len(queries), queries)
    if (references is None) != (reference_labels is None):
        missing = "reference_labels" if reference_labels is None else "references"
        raise InputError(missing, "None", "references and reference_labels together", "Pass both, or neither.")
    if references is None:
        return Queries(queries, classes, queries, classes, True)
    others = _vectors("references", references, similarity)
    if others.shape[1] != queries.shape[1]:
        raise InputError(
            "references", f"vectors of length {others.shape[1]}", f"length {queries.shape[1]}, as embeddings"
        )
    return Queries(
        queries,
        classes,
        others.to(queries.dtype),
        _labels("reference_labels", reference_labels, len(others), queries),
        False,
    )


def _vectors(name: str, value: Any, similarity: str) -> Tensor:
    given = checks.tensor(name, value)
    if given.ndim != 2 or not given.is_floating_point():
        came = f"a {str(given.dtype).removeprefix('torch.')} tensor of shape {tuple(given.shape)}"
        raise InputError(
            name, came, "real vectors as rows, (n, d)", "Pass the model's embeddings, one row per example."
        )
    vectors = given if given.dtype in (torch.float32, torch.float64) else given.float()
    checks.finite(name, vectors)
    if similarity == "dot":
        return vectors
    lengths = vectors.detach().norm(dim=1)
    if len(lengths) and float(lengths.min()) == 0.0:
        first = int((lengths == 0).nonzero()[0])
        raise InputError(
            name,
            f"a zero vector (row {first})",
            "vectors with a direction, for cosine similarity",
            'Use similarity="dot", or look for dead units before the last layer.',
        )
    return functional.normalize(vectors, dim=1, eps=0.0)


def _labels(name: str, value: Any, n: int, scores: Tensor) -> Tensor:
    given = checks.tensor(name, value)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise InputError(name, f"a {str(given.dtype).removeprefix('torch.')} tensor", "class ids as whole numbers")
    if given.device != scores.device:
        raise InputError(name, f"a tensor on {given.device}", f"the device of the embeddings, {scores.device}")
    if given.numel() != n:
        raise InputError(name, f"{given.numel()} labels for {n} vectors", "one label per vector")
    return given.reshape(-1).long()
