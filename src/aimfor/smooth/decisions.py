"""Soft decisions, at a threshold or for the highest of several scores: counts of them, and any function of counts.

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

from ..engine import Number, number
from .form import (
    Measure,
    Plain,
    SmoothForm,
    Softness,
    equals,
    held_constant,
    scalar,
    undefined_number,
    value_and_slopes,
    wants_gradient,
    with_gradient,
    with_past,
)
from .ledger import FEW, Correlation, MeanOfRatios, Ratio, ledger
from .ranks import bounded, extended
from .sums import divided

#: Scores at a time whose gradient stays in the cache.
BLOCK = 1 << 17

#: Value; ``up`` and ``down`` of each row ``(…, 1)``; what all that was counted costs; how many times more that is than
#: this batch; this batch's counts.
Priced = tuple[Number, Tensor, Tensor, Number, Number, Tensor]
#: The same of classes, ``(b, 1, c)`` each, with the positives of each class in place of the cost.
PricedClasses = tuple[Number, Tensor, Tensor, Tensor, Number, Tensor]


@dataclass(frozen=True)
class Decisions(SmoothForm):
    """Decisions ``x > 0`` in each of r rows (a batch, images, classes).

    Attributes:
        scores: The tensor the user passed.
        rows: ``(n,)`` or ``(r, n)``: scores above the threshold, attached to the graph.
        positive: As rows, bool.
        mass: As rows, or None for ones.
        measure: The metric of counts ``(r,)`` (``()`` for one row), a scalar.
        ratio: What ``measure`` says, where it is a ratio of lines in the counts: for few rows it is evaluated without
            tensors, which is what small batches spend their time on.

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
    ratio: Ratio | MeanOfRatios | Correlation | None = None

    def spread(self) -> Number:
        return root_mean_square(self.rows.detach(), self.mass)

    def holds(self, softness: Softness) -> tuple[str, ...]:
        fixed = self.ratio is not None and self.ratio.fixed_prices
        return ("the anchor's prices",) * bool(softness.anchor and not fixed) + softness.constants()

    def loss(self, softness: Softness) -> tuple[Tensor, Number, Tensor | None]:
        x = self.rows.detach()
        scaled = divided(x, softness.temperature)
        if softness.indicator == "sigmoid":
            soft = torch.sigmoid(scaled)
            steep = None
        else:
            soft, steep = bounded(scaled, self.positive, softness.indicator)
        positive = self.positive.to(x.dtype)
        a = positive if self.mass is None else self.mass * positive
        few = self.ratio is not None and steep is None and len(x) * (x.ndim - 1) <= FEW and x.is_cpu
        priced = self._from_few if few else self._from_tensors
        value, up, down, price, enlarge, counts = priced(soft, a, softness)
        if undefined_number(value):
            return self.rows.sum() * 0.0, value, counts
        loss, share = (1.0 - softness.anchor) * (1.0 - value), softness.anchor
        b = 1.0 - a if self.mass is None else self.mass - a
        wanted, gradient, prices = wants_gradient(self.rows), None, None
        if wanted and share < 1.0:
            worth = torch.addcmul(down * b, up, a)
            steep = soft - soft * soft if steep is None else steep
            gradient = worth.mul_(steep).mul_(-(1.0 - share) * enlarge / softness.temperature)
        # The prices of everything counted, the past included, on the scale of this batch.
        scale = share_of_price(share * enlarge, price)
        if share and scale is not None:
            prices = torch.addcmul(b * (down.clamp_max(0.0) * -scale), a, up.clamp_min(0.0) * scale)
            same = equals(softness.temperature, softness.anchor_temperature)
            tempered = scaled if same else x / softness.anchor_temperature
            entropy = functional.binary_cross_entropy_with_logits(tempered, positive, prices, reduction="sum")
            loss = loss + number(entropy)
            if wanted:
                certain = soft if same and softness.indicator == "sigmoid" else torch.sigmoid(tempered)
                off, steepness = certain - positive, 1.0 / softness.anchor_temperature
                if gradient is None:
                    gradient = off.mul_(prices) if steepness == 1.0 else off.mul_(prices).mul_(steepness)
                else:
                    gradient = gradient.addcmul_(prices, off, value=steepness)
        if not wanted:
            return scalar(x, loss), value, counts
        gradient = torch.zeros_like(x) if gradient is None else gradient
        return with_gradient(self.rows, loss, gradient, self._plain(softness, a, prices)), value, counts

    def _plain(self, softness: Softness, a: Tensor, prices: Tensor | None) -> Plain:
        held, bounds = self.holds(softness), softness.indicator != "sigmoid"
        if held:
            return held_constant(held)

        def plain(rows: Tensor) -> Tensor:
            x = rows / softness.temperature
            soft = bounded(x, self.positive, softness.indicator)[0] if bounds else torch.sigmoid(x)
            counts = self._counts(soft, a, bounds)
            value = extended(self._measure, counts) if bounds else self._measure(counts)
            loss = (1.0 - softness.anchor) * (1.0 - value)
            if prices is None:
                return loss
            tempered, truth = rows / softness.anchor_temperature, self.positive.to(rows.dtype)
            return loss + functional.binary_cross_entropy_with_logits(tempered, truth, prices, reduction="sum")

        return plain

    def _measure(self, counts: Tensor) -> Tensor:
        return self.measure(*counts.unbind(0))

    def _from_few(self, soft: Tensor, a: Tensor, softness: Softness) -> Priced:
        """Counts, value and prices as plain numbers."""
        assert self.ratio is not None
        if self.mass is None:
            sums = torch.stack(((soft * a).sum(-1), soft.sum(-1), a.sum(-1))).view(3, -1).tolist()
            everything = [float(soft.shape[-1])] * len(sums[0])
        else:
            mass = (soft * a).sum(-1), (soft * self.mass).sum(-1), a.sum(-1), self.mass.sum(-1)
            *sums, everything = torch.stack(mass).view(4, -1).tolist()
        book = ledger(self.ratio, sums, everything, softness.past)
        counts = torch.tensor(book.own, dtype=torch.float64, device=soft.device).view(4, *soft.shape[:-1])
        up, down = soft.new_tensor([book.up, book.down]).view(2, *soft.shape[:-1], 1).unbind(0)
        return book.value, up, down, book.price(), book.enlarge, counts

    def _from_tensors(self, soft: Tensor, a: Tensor, softness: Softness) -> Priced:
        """The same for many rows, and for any measure."""
        bounds = softness.indicator != "sigmoid"
        counts = self._counts(soft, a, bounds)
        joined, enlarge = with_past(counts, softness.past)
        value, up, down = self._worth(joined, bounds)
        positives, negatives = joined[0] + joined[2], joined[1] + joined[3]
        # Without a positive nothing changes some metrics (F_β, IoU), which are 0.
        if isinstance(value, Tensor):
            value = torch.where((value != 0.0) | positives.any() | down.any(), value, torch.nan)
        elif value == 0.0 and not bool(positives.any()) and not bool(down.any()):
            value = float("nan")
        price: Number = 0.0
        if softness.anchor:
            price = number((up.clamp_min(0.0) * positives - down.clamp_max(0.0) * negatives).sum())
        return value, up.to(soft).unsqueeze(-1), down.to(soft).unsqueeze(-1), price, enlarge, counts

    def _worth(self, joined: Tensor, bounds: bool) -> tuple[Number, Tensor, Tensor]:
        """The metric of the counts, and what one more right and one more wrong decision of each row are worth."""
        if isinstance(self.ratio, Ratio | MeanOfRatios) and not bounds:
            value, up, down = self.ratio.of_many(joined.reshape(4, -1))
            return number(value), up.view(joined.shape[1:]), down.view(joined.shape[1:])
        measure = self._measure
        value, slopes = value_and_slopes((lambda at: extended(measure, at)) if bounds else measure, joined)
        return value, slopes[0] - slopes[2], slopes[1] - slopes[3]

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


def share_of_price(share: Number, price: Number) -> Number | None:
    """The share over the price; 0 for no price on a device, and None where that is known."""
    if isinstance(price, Tensor):
        return torch.where(price > 0, share / price, 0.0)
    return share / price if price > 0 else None


def root_mean_square(x: Tensor, mass: Tensor | None) -> Number:
    if not x.numel():
        return 0.0
    squares = x.double().square()
    if mass is None:
        return number(squares.mean().sqrt())
    return number(((squares * mass).sum() / mass.sum().clamp_min(torch.finfo(torch.float64).tiny)).sqrt())


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

    def spread(self) -> Number:
        x = self.rows.detach()
        centred = x - x.mean(-1, keepdim=True)
        return root_mean_square(centred, None if self.mass is None else self.mass[..., None].expand_as(x))

    def holds(self, softness: Softness) -> tuple[str, ...]:
        fixed = self.ratio is not None and (self.ratio.fixed_prices or self.ratio.fixed_when_summed)
        return ("the anchor's prices",) * bool(softness.anchor and not fixed) + softness.constants()

    def loss(self, softness: Softness) -> tuple[Tensor, Number, Tensor | None]:
        softness.refuse_bounds("decisions for the highest of several scores")
        x, targets = self.rows.detach(), self.targets.unsqueeze(-1)
        scaled = divided(x, softness.temperature)
        soft = _softmax(scaled)
        own = soft.gather(-1, targets)  # what is said of the true class; no table of truths is made
        few = self.ratio is not None and len(x) == 1 and x.shape[-1] <= FEW and x.is_cpu
        value, up, down, positives, enlarge, counts = (self._from_few if few else self._from_tensors)(
            soft, own, softness.past
        )
        if undefined_number(value):
            return self.rows.sum() * 0.0, value, counts
        loss, share = (1.0 - softness.anchor) * (1.0 - value), softness.anchor
        each, certain = None, soft
        if share:
            # What one example of its class is worth: a right decision instead of a wrong one for any other class.
            others = (down.sum(-1, keepdim=True) - down) / max(x.shape[-1] - 1, 1)
            price = (up - others).clamp_min_(0.0)
            scale = share_of_price(share * enlarge, number((price * positives).sum()))
            if scale is not None:
                each = self._of_targets(price * scale)
                each = each if self.mass is None else each * self.mass[..., None]
                same = equals(softness.temperature, softness.anchor_temperature)
                tempered = scaled if same else x / softness.anchor_temperature
                certain = soft if same else _softmax(tempered)
                loss = loss - number((each * _log_of(tempered, certain, targets)).sum())
        if not wants_gradient(self.rows):
            return scalar(x, loss), value, counts
        scale = -(1.0 - share) * enlarge / softness.temperature
        prices = None if share == 1.0 else (up * scale, down * scale)
        tilt = each if each is None or softness.anchor_temperature == 1.0 else each / softness.anchor_temperature
        gradient = self._gradient(soft, own, prices, certain, tilt)
        return with_gradient(self.rows, loss, gradient, self._plain(softness, each)), value, counts

    def _gradient(
        self, soft: Tensor, own: Tensor, prices: tuple[Tensor, Tensor] | None, certain: Tensor, tilt: Tensor | None
    ) -> Tensor:
        """Of the metric at these prices of a right and a wrong decision, and of the anchor, tilted; in soft's memory.

        ``soft (down − soft · down − gain) + certain tilt``, and at the true class ``gain − tilt``.
        """
        targets = self.targets.unsqueeze(-1)
        if prices is None:
            return torch.zeros_like(soft) if tilt is None else (certain * tilt).scatter_add_(-1, targets, -tilt)
        (up, down), mass = prices, None if self.mass is None else self.mass[..., None]
        gain = self._of_targets(up - down).mul_(own)
        gain = gain if mass is None else gain.mul_(mass)
        at_target = gain if tilt is None else gain - tilt
        rest = at_target if certain is soft else gain
        if mass is None:
            shift = torch.baddbmm(rest, soft, down.mT, beta=-1.0, alpha=-1.0)
        else:
            shift = (soft @ down.mT).mul_(mass).add_(rest).neg_()
        length = max(1, BLOCK // (len(soft) * soft.shape[-1]))
        for start in range(0, soft.shape[1], length):
            some = slice(start, start + length)
            factor = down if mass is None else down * mass[:, some]
            slopes = soft[:, some].mul_(factor + shift[:, some])
            if tilt is not None and certain is not soft:
                slopes.addcmul_(certain[:, some], tilt[:, some])
        return soft.scatter_add_(-1, targets, at_target)

    def _of_targets(self, numbers: Tensor) -> Tensor:
        """``(b, 1, c)`` or ``(1, 1, c)`` numbers of the classes to ``(b, l, 1)`` of the examples."""
        return numbers[:, 0].expand(len(self.targets), -1).gather(1, self.targets).unsqueeze(-1)

    def _plain(self, softness: Softness, each: Tensor | None) -> Plain:
        held = self.holds(softness)
        if held:
            return held_constant(held)
        targets = self.targets.unsqueeze(-1)

        def plain(rows: Tensor) -> Tensor:
            soft = torch.softmax(rows / softness.temperature, -1)
            counts = self._counts(soft, soft.gather(-1, targets))
            loss = (1.0 - softness.anchor) * (1.0 - self.measure(*counts.unbind(0)))
            if each is None:
                return loss
            return loss - (each * torch.log_softmax(rows / softness.anchor_temperature, -1).gather(-1, targets)).sum()

        return plain

    def _from_few(self, soft: Tensor, own: Tensor, past: Tensor | None) -> PricedClasses:
        """Counts, value and slopes as plain numbers."""
        assert self.ratio is not None
        *sums, (everything,) = (numbers[0].tolist() for numbers in self._sums(soft, own))
        book = ledger(self.ratio, sums, [everything] * len(sums[0]), past)
        counts = torch.tensor(book.own, dtype=torch.float64, device=soft.device).unsqueeze(1)
        positives = list(map(float.__add__, book.joined[0], book.joined[2]))
        up, down, positive = soft.new_tensor([book.up, book.down, positives]).view(3, 1, 1, -1).unbind(0)
        return book.value, up, down, positive, book.enlarge, counts

    def _from_tensors(self, soft: Tensor, own: Tensor, past: Tensor | None) -> PricedClasses:
        """The same in tensors: for many classes, for images, and for any measure."""
        counts = self._counts(soft, own)
        joined, enlarge = with_past(counts, past)
        value: Number
        if self.ratio is not None and len(soft) == 1:
            ratio, *worth = self.ratio.of_many(joined.reshape(4, -1))
            value, (up, down) = number(ratio), (slopes.view(joined.shape[1:]) for slopes in worth)
        else:
            value, slopes = value_and_slopes(lambda leaf: self.measure(*leaf.unbind(0)), joined)
            up, down = slopes[0] - slopes[2], slopes[1] - slopes[3]
        positives = joined[0] + joined[2]
        return value, up.to(soft)[:, None], down.to(soft)[:, None], positives.to(soft)[:, None], enlarge, counts

    def _sums(self, soft: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """float64 ``(b, c)``: true positives, what is decided, positives; and ``(b, 1)`` everything."""
        b, _, c = soft.shape
        own = own.squeeze(-1)
        mass = torch.ones_like(own) if self.mass is None else self.mass
        decided = (soft if self.mass is None else mass[..., None] * soft).sum(-2)
        both = torch.stack((mass * own, mass)).double().flatten(1)
        at = self.targets if b == 1 else self.targets + c * torch.arange(b, device=soft.device)[:, None]
        tp, positives = both.new_zeros(2, b * c).index_add(1, at.reshape(-1), both).view(2, b, c).unbind(0)
        return tp, decided.double(), positives, mass.sum(-1, keepdim=True, dtype=torch.float64)

    def _counts(self, soft: Tensor, own: Tensor) -> Tensor:
        """float64 ``(4, b, c)``."""
        tp, decided, positives, everything = self._sums(soft, own)
        fp = (decided - tp).clamp_min(0.0)
        return torch.stack((tp, fp, (positives - tp).clamp_min(0.0), (everything - positives - fp).clamp_min(0.0)))


def _softmax(x: Tensor) -> Tensor:
    """Along the classes; those of pictures lie apart in memory, where it is quicker across."""
    return torch.softmax(x.mT, -2).mT if x.mT.is_contiguous() else torch.softmax(x, -1)


def _log_of(x: Tensor, soft: Tensor, targets: Tensor) -> Tensor:
    """``log_softmax(x)`` of these classes alone: the highest score is 1 of the sum to within c, so that its log is."""
    highest, largest = (table.amax(-1, keepdim=True) for table in (x, soft))
    return x.gather(-1, targets) - highest + largest.log_()
