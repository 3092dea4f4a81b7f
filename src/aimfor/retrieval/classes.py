"""The anchor of retrieval: softmax cross-entropy over the classes of the training data."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import checks
from ..errors import InputError


class ClassAnchor(nn.Module):
    """A last layer over the training classes and its cross-entropy, which sees all of them, not the batch's alone.

    Args:
        classes: Number of training classes, >= 2; labels are 0 to ``classes − 1``.
        size: Length of an embedding.

    Shape:
        ``(embeddings (n, size), labels (n,))`` to a scalar.

    Raises:
        InputError: Too few classes, embeddings of another length, or a label that is no training class.

    Example:
        >>> import torch
        >>> from aimfor.retrieval import ClassAnchor
        >>> ClassAnchor(3, 4)(torch.zeros(2, 4), torch.tensor([0, 2])).shape
        torch.Size([])
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(checks.integer("size", size, at_least=1), checks.integer("classes", classes, at_least=2))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        classes, size = self.layer.weight.shape
        if embeddings.shape[1] != size:
            raise InputError("embeddings", f"vectors of length {embeddings.shape[1]}", f"length {size}, which is size=")
        outside = (labels < 0) | (labels >= classes)
        if bool(outside.any()):
            raise InputError(
                "labels",
                f"the class {int(labels[outside][0])}",
                f"0 to {classes - 1}, the training classes (classes={classes})",
                "Number the training classes from 0: labels.unique(return_inverse=True)[1].",
            )
        # Float64 embeddings stay so; half precision is computed in the layer's.
        x = embeddings.to(torch.promote_types(embeddings.dtype, self.layer.weight.dtype))
        scores = functional.linear(x, self.layer.weight.to(x), self.layer.bias.to(x))
        return functional.cross_entropy(scores, labels)
