"""Soft decisions at a threshold: counts (tp, fp, fn, tn) of sigmoids, and any function of them.

With ``d = sigmoid(x / T)`` for the score x above the threshold, a for the positives' mass and b for the negatives':

    tp = Σ a d,   fp = Σ b d,   fn = Σ a − tp,   tn = Σ b − fp,       loss = 1 − metric(tp, fp, fn, tn).

The metric's slopes ``up = ∂/∂tp − ∂/∂fn`` and ``down = ∂/∂fp − ∂/∂tn`` say what one more right or wrong decision is
worth now; the gradient is ``−(up a + down b) d (1 − d) / T``, found with the value.

The **anchor** has the same prices on a logistic loss: positives cost ``up``, negatives ``−down``. It is
cross-entropy whose costs follow the metric (for accuracy it *is* cross-entropy), so that the best threshold of the
metric is 0 in the scores' own scale. For a ratio of counts these prices lead to the metric's optimum (Parambath 2014).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .bounds import bounded, extended
from .form import Measure, SmoothForm, Softness, found, value_and_slopes, wants_gradient, with_past

Coefficients = tuple[float, float, float, float]


@dataclass(frozen=True)
class Decisions(SmoothForm):
    """Decisions ``x > 0`` in each of r rows (a batch, images, classes).

    Attributes:
        scores: The tensor the user passed.
        rows: ``(n,)`` or ``(r, n)``: scores above the threshold, attached to the graph.
        positive: As rows, bool.
        mass: As rows, or None for ones.
        measure: The metric of counts ``(r,)`` (``()`` for one row), a scalar.
        lines: For one row and a ratio of lines in the counts: numerator's and denominator's coefficients. They say what
            ``measure`` says, and are evaluated without tensors, which is what small batches spend their time on.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.FBeta(1.0)
        >>> form = metric.smooth_form(metric.check(torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1, 1, 0])))
        >>> type(form).__name__, round(form.spread(), 4)
        ('Decisions', 1.3229)
    """

    scores: Tensor
    rows: Tensor
    positive: Tensor
    mass: Tensor | None
    measure: Measure
    lines: tuple[Coefficients, Coefficients] | None = None

    def spread(self) -> float:
        return root_mean_square(self.rows.detach(), self.mass)

    def loss(self, softness: Softness) -> tuple[Tensor, float, Tensor | None]:
        x = self.rows.detach()
        scaled = x if softness.temperature == 1.0 else x / softness.temperature
        if softness.indicator == "sigmoid":
            soft = torch.sigmoid(scaled)
            steep = None
        else:
            soft, steep = bounded(scaled, self.positive, softness.indicator)
        positive = self.positive.to(x.dtype)
        a = positive if self.mass is None else self.mass * positive
        counts = self._counts(soft, a, bounds=steep is not None)
        joined, enlarge = with_past(counts, softness.past)
        value, slopes = self._price(joined, bounds=steep is not None)
        if value == 0.0 and not bool((joined[0] + joined[2]).any()) and not bool((slopes[1] - slopes[3]).any()):
            value = float("nan")  # no positive, and without one nothing changes the metric (F_β, IoU)
        if value != value:
            return self.rows.sum() * 0.0, value, counts
        up, down = (slopes[0] - slopes[2]).to(x), (slopes[1] - slopes[3]).to(x)
        if x.ndim == 2:
            up, down = up[:, None], down[:, None]
        loss, share = (1.0 - softness.anchor) * (1.0 - value), softness.anchor
        b = 1.0 - a if self.mass is None else self.mass - a
        gradient = None
        if wants_gradient(self.rows):
            worth = torch.addcmul(down * b, up, a)
            steep = soft - soft * soft if steep is None else steep
            gradient = worth * steep * (-(1.0 - share) * enlarge / softness.temperature)
        if share:
            prices = up.clamp_min(0.0) * a - down.clamp_max(0.0) * b
            # The prices of everything counted, the past included, on the scale of this batch.
            total = float(prices_of_all(slopes, joined).sum()) / enlarge
            if total > 0:
                prices = prices * (share / total)
                same = softness.anchor_temperature == softness.temperature
                tempered = scaled if same else x / softness.anchor_temperature
                entropy = functional.binary_cross_entropy_with_logits(tempered, positive, prices, reduction="sum")
                loss += float(entropy)
                if gradient is not None:
                    certain = soft if same and softness.indicator == "sigmoid" else torch.sigmoid(tempered)
                    steepness = 1.0 / softness.anchor_temperature
                    gradient = torch.addcmul(gradient, prices, certain - positive, value=steepness)
        if gradient is None:
            return x.new_tensor(loss), value, counts
        return found(self.rows, loss, gradient), value, counts

    def _counts(self, soft: Tensor, a: Tensor, bounds: bool) -> Tensor:
        """float64 ``(4,)`` or ``(4, r)``; bounds of counts may be anything, others are at least 0 but for rounding."""
        if self.mass is None:
            decided = soft.sum(-1)
            everything = torch.full_like(decided, soft.shape[-1])
        else:
            decided, everything = (soft * self.mass).sum(-1), self.mass.sum(-1)
        tp, positives = (soft * a).sum(-1), a.sum(-1)
        tp, decided, positives, everything = torch.stack((tp, decided, positives, everything)).double().unbind(0)
        if bounds:
            fp = decided - tp
            return torch.stack((tp, fp, positives - tp, everything - positives - fp))
        fp = (decided - tp).clamp_min(0.0)
        return torch.stack((tp, fp, (positives - tp).clamp_min(0.0), (everything - positives - fp).clamp_min(0.0)))

    def _price(self, counts: Tensor, bounds: bool) -> tuple[float, Tensor]:
        if bounds:
            return value_and_slopes(lambda leaf: extended(lambda inside: self.measure(*inside.unbind(0)), leaf), counts)
        if self.lines is not None and counts.ndim == 1:
            return ratio(self.lines, counts)
        return value_and_slopes(lambda leaf: self.measure(*leaf.unbind(0)), counts)


def ratio(lines: tuple[Coefficients, Coefficients], counts: Tensor) -> tuple[float, Tensor]:
    """Value and slopes of one line of the counts over another."""
    listed = counts.tolist()
    above, below = (sum(k * count for k, count in zip(line, listed, strict=True)) for line in lines)
    if below == 0.0:
        return float("nan"), torch.zeros_like(counts)
    value = above / below
    return value, counts.new_tensor([(u - value * v) / below for u, v in zip(*lines, strict=True)])


def prices_of_all(slopes: Tensor, counts: Tensor) -> Tensor:
    """``max(0, up) · positives + max(0, −down) · negatives``: what all that was counted costs, ``()`` or ``(r,)``."""
    up, down = slopes[0] - slopes[2], slopes[1] - slopes[3]
    return up.clamp_min(0.0) * (counts[0] + counts[2]) - down.clamp_max(0.0) * (counts[1] + counts[3])


def root_mean_square(x: Tensor, mass: Tensor | None) -> float:
    if not x.numel():
        return 0.0
    squares = x.double().square()
    if mass is None:
        return float(squares.mean().sqrt())
    return float(((squares * mass).sum() / mass.sum().clamp_min(torch.finfo(torch.float64).tiny)).sqrt())
