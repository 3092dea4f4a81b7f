"""Engine "smooth": the metric's own definition, evaluated with soft decisions and soft ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..bank import ScoreBank, filled, unfilled
from ..engine import Batch, Engine, EngineOutput, Stats, clamped, number, undefined, unit_of
from ..errors import InputError
from ..twice import once
from .form import HasSmooth, SmoothForm, Softness, defined_flag, held_constant, undefined_number
from .ranks import INDICATORS

Temperature = float | Callable[[int], float]
#: The temperature of defaults: from scratch scores are small, and a loss that sees four times as much of them learns in
#: fewer steps. Found on seeds that judge nothing else.
QUICK = 0.25


#: Batches of masks that a bank remembers at most. Each holds many pixels already, and soft counts from further back are
#: those of a network that knew less: with 2,048 pictures the IoU of a short run was 2 points lower.
MASK_BATCHES = 8
BANK_HELD = held_constant(("the bank's share",))


class SmoothEngine(Engine):
    """``1 − metric`` with every indicator ``x > 0`` replaced by ``sigmoid(x / T)``, exact in value and gradient.

    Decisions become ``sigmoid((score − threshold)/T)`` (softmax for classes), ranks one plus the sum of
    ``sigmoid((s_j − s_i)/T)``, and the metric's own formula is applied to them. As T → 0 the loss tends to 1 − metric
    (ties aside, which count half). Example weights may be any numbers ≥ 0.

    Args:
        temperature: T > 0, or a function of the number of training steps so far (`aimfor.schedule.Decay` is one).
        relative: T is in units of the spread of the scores (which is taken as a constant by the gradient), so that the
            loss does not change when scores are rescaled.
        anchor: Share in [0, 1] of a convex companion loss: cross-entropy with the metric's current prices for metrics
            of decisions, the logistic loss of pairs for AP and AUROC, softmax cross-entropy for lists and AUC_mu.
        bank: Number of recent examples that are counted with each batch (0: the batch alone); of masks ``(b, h, w)``,
            pictures, in at most 8 batches. Metrics of decisions keep four counts that fade, metrics of ranks the last
            scores. Filled in training mode only, and saved. A batch of more examples, such as one of `aimfor.in_parts`,
            is counted alone.
        anchor_temperature: The anchor is of the scores over this. Below 1 scores need not grow so far to be right, and
            a network learns in fewer steps.
        indicator: ``"sigmoid"``; or ``"lower"``, ``"upper"``: logistic bounds that keep the smooth metric below, or
            above, the exact one. For decisions at a threshold and whole rankings (AP, NDCG, AUROC, MRR).

    Raises:
        InputError: A temperature ≤ 0 (the anchor's too), an anchor outside [0, 1], a negative bank, an unknown
            indicator, or a bound for a metric that has none.

    Stats:
        ``value``: the smooth metric; ``temperature``: T in the unit of the scores.

    Example:
        >>> import torch, aimfor
        >>> loss_fn = aimfor.MetricLoss("f1", aimfor.SmoothEngine(temperature=0.5))
        >>> scores = torch.tensor([2.0, -1.0, 0.5, -3.0], requires_grad=True)
        >>> loss = loss_fn(scores, torch.tensor([1, 1, 0, 0]), weights=torch.tensor([1.0, 0.5, 2.0, 1.0]))
        >>> loss.backward()

    References:
        Brown, Xie, Kalogeiton, Zisserman, Smooth-AP, 2020. Qin, Liu, Li, A general approximation framework for direct
        optimization of information retrieval measures, 2010. Parambath, Usunier, Grandvalet, Optimizing F-measures by
        cost-sensitive classification, 2014.
    """

    name: ClassVar[str] = "smooth"
    capability: ClassVar[type] = HasSmooth
    cost: ClassVar[str] = "O(n)"

    step: Tensor
    counts: Tensor

    def __init__(
        self,
        temperature: Temperature = 1.0,
        *,
        relative: bool = False,
        anchor: float = 0.0,
        anchor_temperature: float = 1.0,
        bank: int = 0,
        indicator: str = "sigmoid",
    ) -> None:
        super().__init__()
        if not callable(temperature):
            checks.number("temperature", temperature, above=0)
        self.temperature = temperature
        self.relative = bool(checks.one_of("relative", relative, (True, False)))
        self.anchor = checks.number("anchor", anchor, at_least=0, at_most=1)
        self.anchor_temperature = checks.number("anchor_temperature", anchor_temperature, above=0)
        self.size = checks.integer("bank", bank, at_least=0)
        self.indicator = checks.one_of("indicator", indicator, INDICATORS)
        self.bank = ScoreBank(self.size) if bank else None
        self.register_buffer("counts", torch.zeros(4, 0, dtype=torch.float64), persistent=bool(bank))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64), persistent=callable(temperature))

    @property
    def stateless(self) -> bool:  # type: ignore[override]
        return self.bank is None and not callable(self.temperature)

    def for_one_batch(self) -> Engine | None:
        if callable(self.temperature):
            return None
        return SmoothEngine(
            self.temperature,
            relative=self.relative,
            anchor=self.anchor,
            anchor_temperature=self.anchor_temperature,
            indicator=self.indicator,
        )

    def for_batch_of(self, rows: int) -> Engine:
        """Without the bank, where the batch is larger: older scores beside it would only blur its own gradient."""
        return self.for_one_batch() or self if self.size and rows > self.size else self

    def for_logits(self) -> Engine:
        plain = self.relative or callable(self.temperature)
        return SmoothEngine(
            self.temperature if plain else 1.0,
            relative=self.relative,
            anchor=self.anchor,
            bank=self.size,
            indicator=self.indicator,
        )

    def refuses(self, metric: Any) -> str | None:
        reason = super().refuses(metric)
        if reason is None and self.size and metric.remembers == "nothing":
            return "its batches do not add up to one list, so a bank has no meaning: leave bank= out"
        return reason

    def holds(self, metric: HasSmooth, batch: Batch) -> tuple[str, ...]:
        form = self.formulate(metric, batch)
        bank = ("the bank's share",) * (self.bank is not None and self.training)
        return form.holds(self._softness(form)) + bank

    def formulate(self, metric: HasSmooth, batch: Batch) -> SmoothForm:
        return metric.smooth_form(batch)

    def forward(self, metric: HasSmooth, batch: Batch) -> EngineOutput:
        learning = self.training and torch.is_grad_enabled()
        if self.bank is None or not learning:
            output = self.solve(self.formulate(metric, batch))
        elif metric.remembers == "counts":
            output = self._among_counts(metric, batch)
        else:
            output = self._among_scores(metric, batch)
        if learning and callable(self.temperature):
            self.step += 1
        return output

    def solve(self, form: SmoothForm) -> EngineOutput:
        return self._solve(form, self._softness(form))[0]

    def _solve(self, form: SmoothForm, softness: Softness) -> tuple[EngineOutput, Tensor | None]:
        loss, value, counts = form.loss(softness)
        stats = {"value": value, "temperature": softness.temperature}
        if undefined_number(value):
            return undefined(form.scores, stats), counts
        defined = defined_flag(value)
        if defined is None:
            return EngineOutput(loss, stats=Stats(stats) if callable(value) else stats), counts
        return EngineOutput(torch.where(defined, loss, 0.0), defined, Stats(stats)), counts

    def _softness(self, form: SmoothForm) -> Softness:
        given = self.temperature
        plain = checks.number("temperature(step)", given(int(self.step)), above=0) if callable(given) else float(given)
        unit = unit_of(form.spread()) if self.relative else 1.0  # all tied: any temperature sees the same
        relative = plain if self.relative else None
        return Softness(plain * unit, relative, self.anchor, None, self.indicator, self.anchor_temperature)

    def _among_counts(self, metric: HasSmooth, batch: Batch) -> EngineOutput:
        """This batch's counts on top of those of the recent past, which fade as new ones come."""
        form = self.formulate(metric, batch)
        past = self.counts.to(batch.scores.device) if self.counts.numel() else None
        output, counts = self._solve(form, replace(self._softness(form), past=past))
        if counts is not None:
            examples = number(counts.sum(0).max()) / batch.pixels if counts.numel() else 0.0
            share = clamped(examples / self.size, 0.0 if batch.pixels == 1 else 1.0 / MASK_BATCHES, 1.0)
            # In place: a captured step finds the counts there the next time.
            self.counts = counts if past is None else past.mul_(1.0 - share).add_(counts)
        return output

    def _among_scores(self, metric: HasSmooth, batch: Batch) -> EngineOutput:
        """The batch as part of one list with the last scores, which are constants to the gradient."""
        assert self.bank is not None
        one_list = batch.scores.ndim == 2 and batch.targets.ndim == 2
        if one_list and len(batch.scores) != 1:
            raise InputError(
                "scores",
                f"{len(batch.scores)} lists",
                "one list, of which every batch is a part, with bank=",
                "Whole lists need no bank: leave it out.",
            )
        flat = _flat(batch) if one_list else batch
        joined, _ = self.bank.join(flat)
        form = self.formulate(metric, _as_list(joined) if one_list else joined)
        n = max(1, flat.targets.numel())
        output, _ = self._solve(form, self._softness(form))
        self.bank.push(flat)
        # A batch of n among N joined examples moves the metric by n/N of what it would move alone; N/n makes up for it.
        enlarge, loss = (_mass(joined) / n).clamp_min(1.0).to(output.loss), output.loss
        enlarged = once(loss.detach() + enlarge * (loss - loss.detach()), BANK_HELD, batch.scores)
        return EngineOutput(enlarged, output.unread if output.unread is not None else output.status, output.stats)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.bank is not None:
            destination[prefix + "counts"] = filled(self.counts)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The counts take their shape from the first batch; saved ones bring their own.
        saved = state_dict.get(prefix + "counts")
        if saved is None:
            super()._load_from_state_dict(state_dict, prefix, *rest)
            return
        saved = unfilled(saved)
        self.counts = torch.empty_like(saved, device=self.step.device)
        super()._load_from_state_dict({**state_dict, prefix + "counts": saved}, prefix, *rest)

    def extra_repr(self) -> str:
        bank = f", bank={self.size}" if self.size else ""
        unit = "" if self.anchor_temperature == 1.0 else f", anchor_temperature={self.anchor_temperature:g}"
        bounds = "" if self.indicator == "sigmoid" else f", indicator={self.indicator!r}"
        return f"temperature={self.temperature!r}, relative={self.relative}, anchor={self.anchor:g}{unit}{bank}{bounds}"


def _mass(batch: Batch) -> Tensor:
    weights = batch.effective_weights()
    return torch.tensor(batch.targets.numel()) if weights is None else (weights > 0).sum()


def _flat(batch: Batch) -> Batch:
    """One list ``(1, l)`` as examples ``(l,)``: what a bank can keep."""
    weights, where = (
        None if rows is None else rows.expand_as(batch.scores)[0] for rows in (batch.weights, batch.where)
    )
    return Batch(batch.scores[0], batch.targets[0], weights, where, batch.index)


def _as_list(batch: Batch) -> Batch:
    weights, where = (None if row is None else row[None] for row in (batch.weights, batch.where))
    return Batch(batch.scores[None], batch.targets[None], weights, where)
