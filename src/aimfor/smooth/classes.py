"""Soft decisions for the highest of several scores: softmax at a temperature, and functions of the classes' counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .decisions import root_mean_square
from .form import (
    Measure,
    Plain,
    SmoothForm,
    Softness,
    found,
    held_constant,
    value_and_slopes,
    wants_gradient,
    with_past,
)
from .ledger import FEW, Ratio, ledger

#: Value; ``up``, ``down`` and positives of each class ``(b, 1, c)``; how many times more was counted than in this
#: batch; this batch's counts.
Priced = tuple[float, Tensor, Tensor, Tensor, float, Tensor]


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
        ratio: What ``measure`` says, where it is a ratio of lines in the classes' counts; see `Decisions`.

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
    ratio: Ratio | None = None

    def spread(self) -> float:
        x = self.rows.detach()
        centred = x - x.mean(-1, keepdim=True)
        return root_mean_square(centred, None if self.mass is None else self.mass[..., None].expand_as(x))

    def holds(self, softness: Softness) -> tuple[str, ...]:
        fixed = self.ratio is not None and (self.ratio.fixed_prices or self.ratio.fixed_when_summed)
        return ("the anchor's prices",) * bool(softness.anchor and not fixed) + softness.constants()

    def loss(self, softness: Softness) -> tuple[Tensor, float, Tensor | None]:
        softness.refuse_bounds("decisions for the highest of several scores")
        x = self.rows.detach()
        scaled = x if softness.temperature == 1.0 else x / softness.temperature
        soft = torch.softmax(scaled, -1)
        truth = torch.zeros_like(x).scatter_(-1, self.targets.unsqueeze(-1), 1.0)
        few = self.ratio is not None and len(x) == 1 and x.shape[-1] <= FEW
        value, up, down, positives, enlarge, counts = (self._from_few if few else self._from_tensors)(
            soft, truth, softness.past
        )
        if value != value:
            return self.rows.sum() * 0.0, value, counts
        loss, share = (1.0 - softness.anchor) * (1.0 - value), softness.anchor
        wanted, gradient, each = wants_gradient(self.rows), None, None
        if share < 1.0 and wanted:
            worth = torch.addcmul(down, up - down, truth)
            worth = worth if self.mass is None else worth * self.mass[..., None]
            worth = soft * (worth - (soft * worth).sum(-1, keepdim=True))
            gradient = worth.mul_(-(1.0 - share) * enlarge / softness.temperature)
        if share:
            # What one example of its class is worth: a right decision instead of a wrong one for any other class.
            others = (down.sum(-1, keepdim=True) - down) / max(x.shape[-1] - 1, 1)
            price = (up - others).clamp_min_(0.0)
            total = float((price * positives).sum()) / enlarge
            if total > 0:
                each = (truth * (price * (share / total))).sum(-1, keepdim=True)
                each = each if self.mass is None else each * self.mass[..., None]
                same = softness.anchor_temperature == softness.temperature
                logs = torch.log_softmax(scaled if same else x / softness.anchor_temperature, -1)
                loss -= float((each * logs * truth).sum())
                if wanted:
                    off, steepness = (soft if same else logs.exp()) - truth, 1.0 / softness.anchor_temperature
                    slope = off.mul_(each) if steepness == 1.0 else off.mul_(each).mul_(steepness)
                    gradient = slope if gradient is None else gradient.add_(slope)
        if not wanted:
            return x.new_full((), loss), value, counts
        gradient = torch.zeros_like(x) if gradient is None else gradient
        return found(self.rows, loss, gradient, self._plain(softness, truth, each)), value, counts

    def _plain(self, softness: Softness, truth: Tensor, each: Tensor | None) -> Plain:
        held = self.holds(softness)
        if held:
            return held_constant(held)
        mass = torch.ones_like(truth[..., 0]) if self.mass is None else self.mass

        def plain(rows: Tensor) -> Tensor:
            counts = _counts(torch.softmax(rows / softness.temperature, -1), truth, mass)
            loss = (1.0 - softness.anchor) * (1.0 - self.measure(*counts.unbind(0)))
            if each is None:
                return loss
            return loss - (each * torch.log_softmax(rows / softness.anchor_temperature, -1) * truth).sum()

        return plain

    def _from_few(self, soft: Tensor, truth: Tensor, past: Tensor | None) -> Priced:
        """Counts, value and slopes as plain numbers."""
        assert self.ratio is not None
        if self.mass is None:
            sums = torch.stack(((soft * truth).sum(-2), soft.sum(-2), truth.sum(-2))).view(3, -1).tolist()
            everything = float(self.targets.shape[-1])
        else:
            mass = self.mass[..., None]
            weighted, weights = mass * soft, mass * truth
            sums = torch.stack(((weighted * truth).sum(-2), weighted.sum(-2), weights.sum(-2))).view(3, -1).tolist()
            everything = float(self.mass.sum())
        book = ledger(self.ratio, sums, [everything] * len(sums[0]), past)
        counts = torch.tensor(book.own, dtype=torch.float64, device=soft.device).unsqueeze(1)
        positives = list(map(float.__add__, book.joined[0], book.joined[2]))
        up, down, positive = soft.new_tensor([book.up, book.down, positives]).view(3, 1, 1, -1).unbind(0)
        return book.value, up, down, positive, book.enlarge, counts

    def _from_tensors(self, soft: Tensor, truth: Tensor, past: Tensor | None) -> Priced:
        """The same in tensors: for many classes, for images, and for any measure."""
        counts = _counts(soft, truth, soft.new_ones(self.targets.shape) if self.mass is None else self.mass)
        joined, enlarge = with_past(counts, past)
        if self.ratio is not None and len(soft) == 1:
            value, *worth = self.ratio.of_many(joined.reshape(4, -1))
            up, down = (one.view(joined.shape[1:]) for one in worth)
        else:
            value, slopes = value_and_slopes(lambda leaf: self.measure(*leaf.unbind(0)), joined)
            up, down = slopes[0] - slopes[2], slopes[1] - slopes[3]
        positives = joined[0] + joined[2]
        return value, up.to(soft)[:, None], down.to(soft)[:, None], positives.to(soft)[:, None], enlarge, counts


def _counts(soft: Tensor, truth: Tensor, mass: Tensor) -> Tensor:
    """float64 ``(4, b, c)``."""
    weighted = mass[..., None] * soft
    tp, decided = (weighted * truth).sum(-2).double(), weighted.sum(-2).double()
    positives, everything = (mass[..., None] * truth).sum(-2).double(), mass.sum(-1, keepdim=True).double()
    fp = (decided - tp).clamp_min(0.0)
    return torch.stack((tp, fp, (positives - tp).clamp_min(0.0), (everything - positives - fp).clamp_min(0.0)))
