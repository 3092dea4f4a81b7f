"""Soft decisions for the highest of several scores: softmax at a temperature, and functions of the classes' counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .decisions import root_mean_square
from .form import Measure, SmoothForm, Softness, found, value_and_slopes, wants_gradient, with_past


@dataclass(frozen=True)
class ClassDecisions(SmoothForm):
    """Decisions for the class with the highest score, in each of b images (one, for a batch of rows).

    ``d = softmax(scores / T)`` is the soft decision, and class c's counts are those of ``d_c`` against "is class c".
    The anchor is softmax cross-entropy, in which a class costs what the metric loses by one example of it.

    Attributes:
        scores: The tensor the user passed.
        rows: ``(b, l, c)`` scores, attached to the graph.
        targets: ``(b, l)`` class ids.
        mass: ``(b, l)``, or None for ones.
        measure: The metric of counts ``(b, c)`` each, a scalar.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.Accuracy()
        >>> batch = metric.check(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        >>> type(metric.smooth_form(batch)).__name__
        'ClassDecisions'
    """

    scores: Tensor
    rows: Tensor
    targets: Tensor
    mass: Tensor | None
    measure: Measure

    def spread(self) -> float:
        x = self.rows.detach()
        centred = x - x.mean(-1, keepdim=True)
        return root_mean_square(centred, None if self.mass is None else self.mass[..., None].expand_as(x))

    def loss(self, softness: Softness) -> tuple[Tensor, float, Tensor | None]:
        softness.refuse_bounds("decisions for the highest of several scores")
        x = self.rows.detach()
        soft = torch.softmax(x / softness.temperature, -1)
        truth = functional.one_hot(self.targets, x.shape[-1]).to(x.dtype)
        mass = x.new_ones(self.targets.shape) if self.mass is None else self.mass
        counts = _counts(soft, truth, mass)
        joined, enlarge = with_past(counts, softness.past)
        value, slopes = value_and_slopes(lambda leaf: self.measure(*leaf.unbind(0)), joined)
        if value == 0.0 and _nothing_to_find(joined, slopes):
            value = float("nan")
        if value != value:
            return self.rows.sum() * 0.0, value, counts
        up, down = (slopes[0] - slopes[2]).to(x)[:, None], (slopes[1] - slopes[3]).to(x)[:, None]
        loss, share = (1.0 - softness.anchor) * (1.0 - value), softness.anchor
        gradient = torch.zeros_like(x)
        if share < 1.0 and wants_gradient(self.rows):
            worth = (down + (up - down) * truth) * mass[..., None]
            worth = soft * (worth - (soft * worth).sum(-1, keepdim=True))
            gradient = worth * (-(1.0 - share) * enlarge / softness.temperature)
        if share:
            # What one example of its class is worth: a right decision instead of a wrong one for any other class.
            others = (down.sum(-1, keepdim=True) - down) / max(x.shape[-1] - 1, 1)
            price = (up - others).clamp_min(0.0)
            each = (truth * price).sum(-1) * mass
            total = float((price[:, 0] * (joined[0] + joined[2]).to(x)).sum()) / enlarge
            if total > 0:
                each = each * (share / total)
                logs = torch.log_softmax(x / softness.anchor_temperature, -1)
                loss -= float((each * (truth * logs).sum(-1)).sum())
                steepness = 1.0 / softness.anchor_temperature
                gradient = torch.addcmul(gradient, each[..., None], logs.exp() - truth, value=steepness)
        if not wants_gradient(self.rows):
            return x.new_tensor(loss), value, counts
        return found(self.rows, loss, gradient), value, counts


def _counts(soft: Tensor, truth: Tensor, mass: Tensor) -> Tensor:
    """float64 ``(4, b, c)``."""
    weighted = mass[..., None] * soft
    tp, decided = (weighted * truth).sum(-2).double(), weighted.sum(-2).double()
    positives, everything = (mass[..., None] * truth).sum(-2).double(), mass.sum(-1, keepdim=True).double()
    fp = (decided - tp).clamp_min(0.0)
    return torch.stack((tp, fp, (positives - tp).clamp_min(0.0), (everything - positives - fp).clamp_min(0.0)))


def _nothing_to_find(counts: Tensor, slopes: Tensor) -> bool:
    """Whether no class that the metric looks at has an example, and without one nothing changes it (F_β, IoU)."""
    up, down = slopes[0] - slopes[2], slopes[1] - slopes[3]
    return not bool(((counts[0] + counts[2]) * (up != 0)).any()) and not bool(down.any())
