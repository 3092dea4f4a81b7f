"""Engine "rates": operating points under a bound, one threshold and one multiplier each, in one pass over scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from .. import checks, distributed
from ..bank import filled, unfilled
from ..engine import Batch, Engine, EngineOutput, undefined
from ..twice import once
from .duals import Ascent
from .form import Anchor, HasRates, RateForm
from .prices import PROXIES, PricedDecisions, blocks

#: Columns of the state, one row for each anchor: what is learned, then what has been counted since the last step.
THRESHOLD, MULTIPLIER, TPS, FPS, POSITIVES, NEGATIVES, SLOPE, CALLS, STEPS = range(9)


@dataclass(frozen=True)
class _Coefficients:
    """Per anchor, ``(k,)``: the form's numbers as tensors."""

    gain: Tensor
    price: Tensor
    a: Tensor
    b: Tensor
    c: Tensor
    odds: Tensor


class RateEngine(Engine):
    """Proxy-Lagrangian of each anchor: smooth proxy for the scores, exact rates over many batches for the multipliers.

    It is that of `RateProblem` (`PricedDecisions` and `Ascent`), with thresholds of its own for many points at once.

    With threshold t and multiplier λ, an anchor's loss is, up to a constant,
    ``(gain + λa)·mean over positives of φ(t − s) + (price + λb)·mean over negatives of φ(s − t)``. Every ``every``
    training calls, and in `end_epoch`, λ steps along the exact violation counted since the last step, and t along its
    own mean gradient. For groups, several constraints, decisions and certificates use `aimfor.maximize`.

    Args:
        proxy: ``logistic``, ``hinge`` or ``sigmoid`` (see `aimfor.rates.prices`).
        temperature: Scores are divided by it before the proxy.
        dual_rate: Step size of the multipliers.
        threshold_rate: Step size of the thresholds.
        every: Training calls between steps; 0 leaves them to `end_epoch`.

    Stats:
        ``thresholds``, ``multipliers``: one number for each anchor; ``multiplier_steps``: how many steps these have
        had. Large batches make few: with ``every=1`` there is one after each.

    Example:
        >>> import torch, aimfor
        >>> loss_fn = aimfor.MetricLoss("recall@precision=0.9", aimfor.RateEngine(every=0))
        >>> scores = torch.tensor([2.0, -1.0, 0.5, -3.0], requires_grad=True)
        >>> loss_fn(scores, torch.tensor([1, 1, 0, 0])).backward()
        >>> loss_fn.end_epoch()
    """

    name: ClassVar[str] = "rates"
    capability: ClassVar[type] = HasRates
    cost: ClassVar[str] = "O(n·anchors)"
    stateless: ClassVar[bool] = False

    def __init__(
        self,
        proxy: str = "logistic",
        temperature: float = 1.0,
        *,
        dual_rate: float = 0.5,
        threshold_rate: float = 0.5,
        every: int = 10,
    ) -> None:
        super().__init__()
        self.proxy = checks.one_of("proxy", proxy, PROXIES)
        self.temperature = checks.number("temperature", temperature, above=0)
        self.dual = Ascent(checks.number("dual_rate", dual_rate, above=0))
        self.threshold_rate = checks.number("threshold_rate", threshold_rate, at_least=0)
        self.every = checks.integer("every", every, at_least=0)
        self._state = torch.zeros(0, STEPS + 1, dtype=torch.float64, device="cpu")
        self._anchors: tuple[Anchor, ...] = ()

    def for_logits(self) -> Engine:
        return RateEngine(
            self.proxy,
            dual_rate=self.dual.rate,
            threshold_rate=self.threshold_rate / self.temperature**2,  # a step and its slope are both in its units
            every=self.every,
        )

    def formulate(self, metric: HasRates, batch: Batch) -> RateForm:
        return RateForm(batch.scores, batch.targets, batch.effective_weights(), metric.anchors(), batch.joined)

    def solve(self, form: RateForm) -> EngineOutput:
        state = self._state_for(form.anchors)
        weights = form.scores.new_ones(form.scores.shape) if form.weights is None else form.weights
        positive = weights * form.positive
        negative = weights - positive
        counted = torch.stack((positive.sum(), negative.sum())).detach().cpu().double()
        positives, negatives = (state[0, POSITIVES : NEGATIVES + 1] + counted).tolist()
        mass = sum(counted.tolist())
        learning = self.training and torch.is_grad_enabled()
        if mass == 0.0 or positives == 0.0 or negatives == 0.0:
            if learning and not form.joined and distributed.world_size() > 1:  # the others wait for this one's counts
                self._add(form, state, state.new_zeros(len(state), SLOPE + 1 - TPS))
            return undefined(form.scores)
        # Weights that make a sum over this batch an unbiased mean over each class of everything seen.
        scale = (positives + negatives) / mass
        by_class = negative * (scale / negatives), positive * (scale / positives)
        prices = self._prices(form.anchors, state, negatives / positives)
        points = torch.stack((state[:, THRESHOLD], *prices)).to(form.scores)
        loss, slopes = PricedDecisions.apply(form.scores, *by_class, self.proxy, self.temperature, points)
        loss = once(loss, "the multipliers and thresholds of the rates engine follow the scores.", form.scores)
        if learning:
            self._count(form, positive, negative, state, counted, slopes)
        stats = {
            "thresholds": state[:, THRESHOLD].tolist(),
            "multipliers": state[:, MULTIPLIER].tolist(),
            "multiplier_steps": int(state[0, STEPS]),
        }
        return EngineOutput(loss, stats=stats)

    def _prices(self, anchors: tuple[Anchor, ...], state: Tensor, odds: float) -> tuple[Tensor, Tensor]:
        form, multiplier = _coefficients(anchors), state[:, MULTIPLIER]
        unit = torch.where(form.odds, odds, 1.0)
        return form.price + multiplier * form.b * unit, form.gain + multiplier * form.a

    def _count(
        self, form: RateForm, positive: Tensor, negative: Tensor, state: Tensor, counted: Tensor, slopes: Tensor
    ) -> None:
        """Exact counts at every threshold, and the thresholds' own gradient."""
        scores, thresholds = form.scores.detach(), state[:, THRESHOLD, None].to(form.scores)
        mass, hits = torch.stack((positive, negative), 1), state.new_zeros(len(state), 2)
        for some in blocks(len(scores), len(state)):
            hits += ((scores[some] > thresholds).to(mass.dtype) @ mass[some]).cpu()
        fresh = torch.cat((hits, counted.expand(len(state), 2), slopes[:, None].cpu().double()), 1)
        self._add(form, state, fresh)

    def _add(self, form: RateForm, state: Tensor, fresh: Tensor) -> None:
        """Counts of this batch to those before it, with the ones of all processes unless they stand in it already."""
        processes = 1 if form.joined else distributed.world_size()
        if processes > 1:
            dist.all_reduce(fresh)
        state = state.clone()
        state[:, TPS : SLOPE + 1] += fresh
        state[:, CALLS] += processes
        self._anchors, self._state = form.anchors, state
        if self.every and float(state[0, CALLS]) >= self.every * processes:
            self._step()

    def end_epoch(self) -> None:
        if len(self._state) and float(self._state[0, CALLS]) > 0:
            self._step()

    def _step(self) -> None:
        state, form = self._state.clone(), _coefficients(self._anchors)
        positives, negatives = state[:, POSITIVES], state[:, NEGATIVES]
        if float(positives[0]) > 0 and float(negatives[0]) > 0:
            unit = torch.where(form.odds, negatives / positives, 1.0)
            slack = form.a * state[:, TPS] / positives - form.b * unit * state[:, FPS] / negatives + form.c
            for number, (multiplier, short) in enumerate(
                zip(state[:, MULTIPLIER].tolist(), (-slack).tolist(), strict=True)
            ):
                state[number, MULTIPLIER] = self.dual.step(str(number), multiplier, short)
        state[:, THRESHOLD] -= self.threshold_rate * state[:, SLOPE] / state[:, CALLS]
        # Class sizes are remembered, as half their weight, so that a batch of one class is still in proportion.
        state[:, [POSITIVES, NEGATIVES]] *= 0.5
        state[:, [TPS, FPS]] *= 0.5
        state[:, [SLOPE, CALLS]] = 0.0
        state[:, STEPS] += 1.0
        self._state = state

    def _state_for(self, anchors: tuple[Anchor, ...]) -> Tensor:
        if len(self._state) == len(anchors):
            self._anchors = anchors
            return self._state
        state = torch.zeros(len(anchors), STEPS + 1, dtype=torch.float64, device="cpu")
        state[:, MULTIPLIER] = 1.0
        return state

    def get_extra_state(self) -> Tensor:
        return filled(self._state)

    def set_extra_state(self, state: Tensor) -> None:
        # A state of 0.1 has not counted its steps.
        state = unfilled(state)
        self._state = functional.pad(state, (0, STEPS + 1 - state.shape[1]))

    def extra_repr(self) -> str:
        return f"proxy={self.proxy!r}, temperature={self.temperature:g}, every={self.every}"


def _coefficients(anchors: tuple[Anchor, ...]) -> _Coefficients:
    rows = [[getattr(anchor, name) for name in ("gain", "price", "a", "b", "c")] for anchor in anchors]
    gain, price, a, b, c = torch.tensor(rows, dtype=torch.float64, device="cpu").unbind(1)
    return _Coefficients(gain, price, a, b, c, torch.tensor([anchor.odds for anchor in anchors], device="cpu"))
