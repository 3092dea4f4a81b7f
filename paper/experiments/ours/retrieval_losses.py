"""Losses of metric learning, each with the one parameter that is tuned, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.errors import InputError
from aimfor.retrieval import RetrievalLoss

Loss = Callable[[Tensor, Tensor], Tensor]


class Softmax(nn.Module):
    """Cross-entropy on a last layer over the training classes, by products or by cosines at a scale."""

    def __init__(self, classes: int, scale: float, cosine: bool) -> None:
        super().__init__()
        self.scale, self.cosine = scale, cosine
        self.last = nn.Linear(64, classes, bias=not cosine)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if not self.cosine:
            return functional.cross_entropy(self.scale * self.last(embeddings), labels)
        logits = functional.normalize(embeddings) @ functional.normalize(self.last.weight).t()
        return functional.cross_entropy(self.scale * logits, labels)


def _pairs(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines, pairs of one class without the diagonal, pairs of two classes."""
    unit = functional.normalize(embeddings)
    same, self_pair = labels[:, None] == labels, torch.eye(len(labels), dtype=torch.bool)
    return unit @ unit.t(), same & ~self_pair, ~same


def supervised_contrastive(temperature: float, embeddings: Tensor, labels: Tensor) -> Tensor:
    cosines, positive, _ = _pairs(embeddings, labels)
    logits = (cosines / temperature).masked_fill(torch.eye(len(labels), dtype=torch.bool), -torch.inf)
    logs = logits - logits.logsumexp(1, keepdim=True)
    return -(torch.where(positive, logs, 0.0).sum(1) / positive.sum(1)).mean()


def multi_similarity(base: float, embeddings: Tensor, labels: Tensor) -> Tensor:
    """With the usual weights 2 and 50, and pairs mined at a margin of 0.1; ``base`` is where similarities are cut."""
    cosines, positive, negative = _pairs(embeddings, labels)
    hardest = cosines.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    easiest = cosines.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    pulled, pushed = positive & (cosines - 0.1 < hardest), negative & (cosines + 0.1 > easiest)
    pull = torch.where(pulled, torch.exp(-2.0 * (cosines - base)), 0.0).sum(1)
    push = torch.where(pushed, torch.exp(50.0 * (cosines - base)), 0.0).sum(1)
    return (torch.log1p(pull) / 2.0 + torch.log1p(push) / 50.0).mean()


def triplet(margin: float, embeddings: Tensor, labels: Tensor) -> Tensor:
    """All triplets of the batch that violate the margin, by cosines."""
    cosines, positive, negative = _pairs(embeddings, labels)
    gaps = functional.relu(cosines[:, None, :] - cosines[:, :, None] + margin)
    gaps = gaps[positive[:, :, None] & negative[:, None, :]]
    return gaps.sum() / (gaps > 0).sum().clamp_min(1)


def smooth_ap(temperature: float, embeddings: Tensor, labels: Tensor) -> Tensor:
    """As published: a query is one of its own positives. A tensor of n³ numbers.

    pytorch-metric-learning 2.9.0 computes the same where a batch has as many classes as examples of each; elsewhere it
    cuts the batch into groups of another size than its classes', so that it is not used here.
    """
    cosines, positive, _ = _pairs(embeddings, labels)
    own = torch.eye(len(labels), dtype=torch.bool)
    above = torch.sigmoid((cosines[:, None, :] - cosines[:, :, None]) / temperature) * ~own
    same = (positive | own).to(above)
    precision = (1 + (above * same[:, None, :]).sum(2)) / (1 + above.sum(2))
    return 1 - ((precision * same).sum(1) / same.sum(1)).mean()


def of_package(name: str, **settings: float) -> Loss:
    """A loss of the package pytorch-metric-learning."""
    try:
        from pytorch_metric_learning import losses
    except ImportError:
        raise InputError(
            "retrieval",
            "no package pytorch-metric-learning",
            "it, for one of the rivals",
            "pip install --no-deps pytorch-metric-learning",
        ) from None
    loss: Loss = getattr(losses, name)(**settings)
    return loss


#: Every method with the five values of its own parameter.
METHODS: dict[str, tuple[tuple[float, ...], Callable[[int, float], Loss]]] = {
    "softmax": ((0.25, 0.5, 1.0, 2.0, 4.0), lambda classes, value: Softmax(classes, value, False)),
    "cosine softmax": ((1.0, 2.0, 4.0, 8.0, 16.0), lambda classes, value: Softmax(classes, value, True)),
    "supervised contrastive": ((0.025, 0.05, 0.1, 0.2, 0.4), lambda _, value: partial(supervised_contrastive, value)),
    "multi-similarity": ((0.3, 0.5, 0.7, 0.9, 1.1), lambda _, value: partial(multi_similarity, value)),
    "triplet": ((0.025, 0.05, 0.1, 0.2, 0.4), lambda _, value: partial(triplet, value)),
    "SmoothAP": ((0.02, 0.05, 0.1, 0.2, 0.4), lambda _, value: partial(smooth_ap, value)),
    "FastAP (package)": ((3, 5, 10, 20, 40), lambda _, value: of_package("FastAPLoss", num_bins=int(value))),
    "aimfor map@r": ((0.02, 0.05, 0.1, 0.2, 0.4), lambda _, value: RetrievalLoss("map@r", temperature=value)),
    "aimfor map@r + classes": (
        (0.02, 0.05, 0.1, 0.2, 0.4),
        lambda classes, value: RetrievalLoss("map@r", temperature=value, anchor=0.1, classes=classes, size=64),
    ),
}
