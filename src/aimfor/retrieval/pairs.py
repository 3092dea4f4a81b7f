"""Pairs of embeddings, for metrics of verification: does this pair match?"""

from __future__ import annotations

import torch
from torch import Tensor

from . import gate


def pair_scores(
    embeddings: Tensor,
    labels: Tensor,
    references: Tensor | None = None,
    reference_labels: Tensor | None = None,
    *,
    similarity: str = "cosine",
) -> tuple[Tensor, Tensor]:
    """The similarity of every pair, attached to the graph, and whether both are of one identity.

    What the metrics of verification take (``"eer"``, ``"fnmr@fmr=1e-4"``), as a value or as a loss.

    Args:
        embeddings: ``(n, d)``.
        labels: ``(n,)`` identities.
        references: ``(m, d)``: pairs are of an embedding and a reference; None for all pairs of embeddings.
        reference_labels: ``(m,)``, with references.
        similarity: ``"cosine"`` or ``"dot"``.

    Returns:
        Scores ``(p,)`` and bool targets ``(p,)``, p = n(n − 1)/2, or n·m with references.

    Example:
        >>> import torch, aimfor
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> scores, same = aimfor.retrieval.pair_scores(x, torch.tensor([0, 0, 1]))
        >>> same.tolist(), float(aimfor.metric_from_name("eer").value(scores, same))
        ([True, False, False], 1.0)
    """
    search = gate.check(embeddings, labels, references, reference_labels, similarity)
    scores = search.queries @ search.references.t()
    same = search.labels[:, None] == search.reference_labels
    if not search.own:
        return scores.reshape(-1), same.reshape(-1)
    first, second = torch.triu_indices(len(same), len(same), 1, device=same.device).unbind(0)
    return scores[first, second], same[first, second]
