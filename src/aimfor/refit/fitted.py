"""What a fit returns: a layer to put on the network, and a record of how it was chosen."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from torch import Tensor, nn

from ..errors import InputError


@dataclass(frozen=True)
class HeadCandidate:
    """One layer that was tried, with the metric it reached on validation data."""

    objective: str
    ridge: float | None
    value: float
    convex: bool = True
    gradient: float = 0.0
    evaluations: int = 0


@dataclass(frozen=True)
class HeadRecord:
    """How a head was chosen.

    Attributes:
        metric: The metric, as written.
        chosen: The candidate that won.
        candidates: All of them; the original layer, where there is one, is first.
        examples: Number of rows fitted on.
        seconds: Wall time of the whole fit.

    Example:
        >>> import torch, aimfor
        >>> x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
        >>> record = aimfor.HeadFitter("auroc", ridges=[0.1]).fit(x, (x[:, 0] > 0).long()).record
        >>> record.metric, record.examples, record.original is None
        ('AUROC(max_fpr=None)', 64, True)
    """

    metric: str
    chosen: HeadCandidate
    candidates: tuple[HeadCandidate, ...] = field(repr=False)
    examples: int
    seconds: float

    @property
    def original(self) -> HeadCandidate | None:
        first = self.candidates[0]
        return first if first.objective == "original layer" else None

    def __str__(self) -> str:
        ridge = "" if self.chosen.ridge is None else f", ridge {self.chosen.ridge:g}"
        before = "" if self.original is None else f" (original layer {self.original.value:.4f})"
        return f"{self.metric}: {self.chosen.value:.4f} on validation data{before} by {self.chosen.objective}{ridge}"


@dataclass(frozen=True)
class HeadFit:
    """A fitted head.

    Attributes:
        layer: A plain ``nn.Linear`` on raw features.
        record: How it was chosen.

    Example:
        >>> import torch, aimfor
        >>> x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
        >>> fit = aimfor.HeadFitter("auroc", ridges=[0.1]).fit(x, (x[:, 0] > 0).long())
        >>> tuple(fit(x).shape), fit.layer
        ((80, 1), Linear(in_features=2, out_features=1, bias=True))
    """

    layer: nn.Linear
    record: HeadRecord

    def __call__(self, features: Tensor) -> Tensor:
        scores: Tensor = self.layer(features)
        return scores

    def install(self, model: nn.Module, layer: str) -> None:
        """Puts a copy of the layer in the place of the one of that name (see ``model.named_modules()``)."""
        target = dict(model.named_modules()).get(layer)
        if not isinstance(target, nn.Linear) or target.weight.shape != self.layer.weight.shape:
            wanted = f"the name of an nn.Linear of shape {tuple(self.layer.weight.shape)}"
            raise InputError("layer", repr(layer), wanted, "See model.named_modules().")
        parent, _, name = layer.rpartition(".")
        # A copy: training the network further must not change the fit.
        new = copy.deepcopy(self.layer).to(device=target.weight.device, dtype=target.weight.dtype)
        setattr(model.get_submodule(parent), name, new)
