"""Positive and unlabelled data: some positives are known, and nobody said of any example that it is negative.

Labels are 1 (positive) and 0 (unlabelled). ``prior`` is the share π of positives *among the unlabelled*; the known
positives must be drawn from all positives alike. With ℓ the logistic loss, the risk of a classifier is

    R = π·E₊[ℓ(f)] + (1 − π)·E₋[ℓ(−f)]    and    (1 − π)·E₋[ℓ(−f)] = E_u[ℓ(−f)] − π·E₊[ℓ(−f)],

so that negatives are not needed. What a metric is worth without them: `evaluate_pu`; what π is: `estimate_prior`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import checks
from .engine import EngineOutput, undefined
from .errors import InputError
from .metrics import AUROC
from .watch import BatchCounts, DegenerateWatch

__all__ = ["PULoss", "PUValues", "estimate_prior", "evaluate_pu"]


class PULoss(nn.Module):
    """The logistic risk from positive and unlabelled examples.

    ``correction="non_negative"`` is π·E₊[ℓ(f)] + max(0, E_u[ℓ(−f)] − π·E₊[ℓ(−f)]). The second term estimates a risk,
    which cannot be below 0; where a flexible model drives it there, it fits the unlabelled examples one by one. In such
    a batch the gradient is that of *minus* that term, a step back (Kiryo's algorithm); elsewhere it is the loss's own.
    ``"unbiased"`` leaves the maximum out: right on average, unbounded below, for linear models.

    Args:
        prior: Share of positives among the unlabelled, in (0, 1): known, or from `estimate_prior`.
        correction: "non_negative" or "unbiased".

    Attributes:
        counts: How many training batches there were, and how many lacked positives or unlabelled examples.

    Raises:
        InputError: A prior outside (0, 1), an unknown correction, labels other than 0 and 1.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([2.0, 0.5, -1.0, -2.0], requires_grad=True)
        >>> loss = aimfor.PULoss(prior=0.3)(scores, torch.tensor([1, 0, 0, 0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)
        0.0381

    References:
        du Plessis, Niu and Sugiyama, 2015 (unbiased); Kiryo et al., 2017 (non-negative).
    """

    def __init__(self, prior: float, correction: str = "non_negative") -> None:
        super().__init__()
        self.prior = checks.number("prior", prior, above=0, below=1)
        self.correction = checks.one_of("correction", correction, ("non_negative", "unbiased"))
        self.counts = BatchCounts()
        self._watch = DegenerateWatch()

    def forward(self, scores: Tensor, labels: Tensor, *, weights: Any = None, where: Any = None) -> Tensor:
        """The risk, a scalar attached to the graph; 0 in a batch without positives or without unlabelled examples.

        Args:
            scores: ``(n,)``, ``(n, 1)`` or masks of any shape, higher = more positive.
            labels: As many: 1 is positive, 0 unlabelled.
            weights, where: As for `MetricLoss`.
        """
        batch = checks.binary(scores, labels, weights=weights, where=where)
        given = batch.effective_weights()
        mass = torch.ones_like(batch.scores) if given is None else given
        labelled, unknown = mass * batch.targets, mass * ~batch.targets
        if not (float(labelled.sum()) > 0 and float(unknown.sum()) > 0):
            return self._seen(undefined(batch.scores)).loss
        as_positive, as_negative = functional.softplus(-batch.scores), functional.softplus(batch.scores)
        positive = self.prior * (labelled * as_positive).sum() / labelled.sum()
        negative = (unknown * as_negative).sum() / unknown.sum()
        negative = negative - self.prior * (labelled * as_negative).sum() / labelled.sum()
        if self.correction == "non_negative" and float(negative.detach()) < 0:
            back = -negative
            loss = positive.detach() + (back - back.detach())
        else:
            loss = positive + negative
        return self._seen(EngineOutput(loss)).loss

    def _seen(self, output: EngineOutput) -> EngineOutput:
        if self.training and torch.is_grad_enabled():
            self.counts.add(output)
            self._watch.observe(output, self.counts, self, False)
        return output

    def extra_repr(self) -> str:
        return f"prior={self.prior:g}, correction={self.correction!r}"


def estimate_prior(scores: Tensor, labels: Tensor, confidence: float = 0.9) -> float:
    """The share of positives among the unlabelled, from scores on rows that no model was fitted on.

    At any threshold the unlabelled above it are at least π times as many, in share, as the positives above it; where
    only positives stand, exactly that. So the least ratio of the two shares estimates π, and what a small sample may be
    off (Dvoretzky, Kiefer and Wolfowitz, at ``confidence``) decides which threshold to trust. Where no threshold is
    passed by positives alone, the estimate is above π.

    Args:
        scores: ``(n,)`` of any classifier of positives against unlabelled.
        labels: 1 is positive, 0 unlabelled.
        confidence: In (0, 1).

    Returns:
        In (0, 1): what `PULoss` takes.

    Raises:
        InputError: No positive or no unlabelled rows.

    Example:
        >>> import torch
        >>> from aimfor.positive_unlabelled import estimate_prior
        >>> known, unlabelled = torch.linspace(2, 4, 2000), torch.cat((torch.linspace(2, 4, 900), torch.zeros(2100)))
        >>> labels = torch.cat((torch.ones(2000), torch.zeros(3000)))
        >>> round(estimate_prior(torch.cat((known, unlabelled)), labels), 3)
        0.3

    References:
        Garg et al., Mixture proportion estimation and PU learning, 2021 (best bin).
    """
    positive, unlabelled = _both(scores, labels)
    doubt = math.log(4.0 / (1.0 - checks.number("confidence", confidence, above=0, below=1))) / 2.0
    slack = (doubt / positive.numel()) ** 0.5 + (doubt / unlabelled.numel()) ** 0.5
    thresholds = positive.unique()
    passed, among = (
        1.0 - torch.searchsorted(scores.sort().values, thresholds) / scores.numel() for scores in (positive, unlabelled)
    )
    best = int(((among + slack) / passed).argmin())
    ratio = float(among[best] / passed[best])
    return min(max(ratio, 1.0 / unlabelled.numel()), 1.0 - 1.0 / unlabelled.numel())


@dataclass(frozen=True)
class PUValues:
    """What can be said without negatives.

    Attributes:
        recall: Share of the known positives above the threshold; an estimate of the recall itself.
        auroc_unlabelled: AUROC of known positives against unlabelled rows.
        auroc: That of positives against negatives, ``(auroc_unlabelled − π/2)/(1 − π)``; NaN without a prior.
        precision_at_least: Known positives among the rows above the threshold: no row can make it less.
        precision: Of the unlabelled rows above the threshold, ``π · recall`` over their share; NaN without a prior.

    Example:
        >>> import torch
        >>> from aimfor.positive_unlabelled import evaluate_pu
        >>> evaluate_pu(torch.tensor([2.0, 1.0, -1.0]), torch.tensor([1, 0, 0])).precision_at_least
        0.5
    """

    recall: float
    auroc_unlabelled: float
    auroc: float
    precision_at_least: float
    precision: float


def evaluate_pu(scores: Tensor, labels: Tensor, prior: float | None = None, threshold: float = 0.0) -> PUValues:
    """The metrics that survive without negatives, on rows that no model was fitted on.

    Those with a prior are estimates: they may leave [0, 1] on few rows, and are as good as the prior.

    Args:
        scores: ``(n,)``.
        labels: 1 is positive, 0 unlabelled.
        prior: Share of positives among the unlabelled, or None.
        threshold: A row is decided positive when its score is above it.

    Raises:
        InputError: No positive or no unlabelled rows, or a prior outside (0, 1).

    Example:
        >>> import torch
        >>> from aimfor.positive_unlabelled import evaluate_pu
        >>> found = evaluate_pu(torch.tensor([2.0, 1.0, 1.5, -1.0, -2.0]), torch.tensor([1, 1, 0, 0, 0]), prior=1 / 3)
        >>> round(found.auroc, 3), round(found.precision, 3)
        (1.0, 1.0)
    """
    positive, unlabelled = _both(scores, labels)
    threshold = checks.number("threshold", threshold)
    share = math.nan if prior is None else checks.number("prior", prior, above=0, below=1)
    recall, passed = (float((side > threshold).double().mean()) for side in (positive, unlabelled))
    both = torch.cat((positive, unlabelled))
    area = float(AUROC().value(both, torch.arange(both.numel(), device=both.device) < positive.numel()))
    above = int((both > threshold).sum())
    return PUValues(
        recall,
        area,
        (area - share / 2.0) / (1.0 - share),
        int((positive > threshold).sum()) / above if above else math.nan,
        share * recall / passed if passed else math.nan,
    )


def _both(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of the positives and of the unlabelled, float64, neither empty."""
    batch = checks.binary(scores, labels)
    values = batch.scores.detach().double()
    positive, unlabelled = values[batch.targets], values[~batch.targets]
    for words, side in (("positive", positive), ("unlabelled", unlabelled)):
        if not side.numel():
            raise InputError("labels", f"no {words} row", "both 1 (positive) and 0 (unlabelled)")
    return positive, unlabelled
