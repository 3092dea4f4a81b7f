"""Engine "sorted": exact sums over all pairs by one sort."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import checks
from ..engine import Batch, Engine, EngineOutput, internal_dtype, undefined
from ..errors import InputError
from .bank import ScoreBank
from .form import HasPairs, PairForm, PairProblem
from .kernels import KERNELS, Kernel, top_fraction

#: Beyond this, squares of differences leave float64.
MAX_SCORE = 1e100


class SortedEngine(Engine):
    """Mean of a surrogate over all positive-negative pairs, exact in value and gradient.

    With ``d`` the positive's score minus the negative's:

    ==================  =================================  ============  ============================
    surrogate           ℓ(d)                               time          bounds 1 − AUC from above
    ==================  =================================  ============  ============================
    ``squared_hinge``   ``max(0, margin − d)²``            O(n log n)    if margin >= 1
    ``hinge``           ``max(0, margin − d)``             O(n log n)    if margin >= 1
    ``squared``         ``(margin − d)²``                  O(n)          if margin >= 1
    ``ramp``            ``min(1, max(0, margin−d)/margin)``  O(n log n)  yes
    ``logistic``        ``log(1 + exp(−d))``               O(p q)        after division by log 2
    ==================  =================================  ============  ============================

    Memory is O(n) for all of them.

    Args:
        surrogate: One of the above.
        margin: Wanted gap between a positive's and a negative's score. ``logistic`` has none: leave it at 1.
        bank: Number of recent scores to rank each batch against (0: the batch alone). The bank is filled in training
            mode only and saved with the module.

    Stats:
        ``pairs``: number of problems that were defined; ``problems``: number of problems in the form.
    """

    name: ClassVar[str] = "sorted"
    capability: ClassVar[type] = HasPairs
    cost: ClassVar[str] = "O(n log n)"

    def __init__(self, surrogate: str = "squared_hinge", margin: float = 1.0, *, bank: int = 0) -> None:
        super().__init__()
        self.surrogate = checks.one_of("surrogate", surrogate, KERNELS)
        self.margin = checks.number("margin", margin, above=0)
        if surrogate == "logistic" and margin != 1.0:
            raise InputError("margin", repr(margin), "1.0 with the logistic surrogate, which has no margin")
        self.bank = ScoreBank(checks.integer("bank", bank, at_least=0)) if bank else None

    @property
    def stateless(self) -> bool:  # type: ignore[override]
        return self.bank is None

    def forward(self, metric: HasPairs, batch: Batch) -> EngineOutput:
        if self.bank is None or not (self.training and torch.is_grad_enabled()):
            return self.solve(self.formulate(metric, batch))
        joined, fresh = self.bank.join(batch)
        output = self.solve(metric.pair_form(joined, fresh))
        self.bank.push(batch)
        return output

    def formulate(self, metric: HasPairs, batch: Batch) -> PairForm:
        return metric.pair_form(batch)

    def solve(self, form: PairForm) -> EngineOutput:
        terms, defined, weight, everything = [], 0, 0.0, 0.0
        for problem in form.problems:
            loss, count = _PairMean.apply(problem.scores, problem, self.surrogate, self.margin)
            everything += problem.scale * problem.count
            if count:
                terms.append(loss if problem.scale == 1.0 else problem.scale * loss)
                defined, weight = defined + count, weight + problem.scale * count
        stats = {"pairs": defined, "problems": sum(problem.count for problem in form.problems)}
        if not terms:
            return undefined(form.scores, stats)
        loss = terms[0] if len(terms) == 1 else torch.stack(terms).sum()
        if defined < stats["problems"]:
            # Classes missing from a mini-batch: the mean is over the pairs of classes that are there.
            loss = loss * (everything / weight)
        return EngineOutput(loss, stats=stats)

    def extra_repr(self) -> str:
        return f"surrogate={self.surrogate!r}, margin={self.margin:g}"


class _PairMean(torch.autograd.Function):
    """Mean over the pairs of a problem, summed over problems side by side, and how many of them are defined.

    The gradient is found in the forward pass, and backward only scales it.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, problem: PairProblem, surrogate: str, margin: float) -> tuple[Tensor, int]:
        total, gradient, mass = _pair_sum(scores, problem, surrogate, margin)
        if scores.ndim == 1:
            count = int(mass > 0)
            if count:
                total, gradient = total / mass, gradient / mass
        else:
            # A problem without mass has total and gradient zero already.
            share = mass.clamp_min(torch.finfo(mass.dtype).tiny)
            total, gradient, count = (total / share).sum(), gradient / share.unsqueeze(-1), int((mass > 0).sum())
        # float32 cannot hold the square of 1e30: stay finite. (A gradient is at most the spread, which it can.)
        ctx.save_for_backward(gradient.to(scores.dtype))
        return total.clamp(0.0, torch.finfo(scores.dtype).max).to(scores.dtype), count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, grad_count: Any) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_loss, None, None, None


def _pair_sum(scores: Tensor, problem: PairProblem, surrogate: str, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    """Sum over the problem's pairs, its gradient, and the pairs' total weight."""
    kernel, dtype = KERNELS[surrogate], internal_dtype(scores)
    a = problem.positive.to(dtype)
    if problem.weights is None:
        b = 1.0 - a
    else:
        weights = problem.weights.to(dtype)
        a = weights * a
        b = weights - a
    x = scores.detach().to(dtype)
    if x.numel():
        x = _centred(x, scores)
    if problem.top < 1.0 and x.numel():
        b = top_fraction(x, b, problem.top)
    if problem.fresh is None:
        return _sum_if_any(kernel, x, a, b, margin)
    # Only pairs with a fresh member: (fresh positives × all negatives) and (banked positives × fresh negatives).
    fresh = problem.fresh.to(dtype)
    ours = _sum_if_any(kernel, x, a * fresh, b, margin)
    banked = _sum_if_any(kernel, x, a * (1.0 - fresh), b * fresh, margin)
    return ours[0] + banked[0], ours[1] + banked[1], ours[2] + banked[2]


def _sum_if_any(kernel: Kernel, x: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    mass = a.sum(-1) * b.sum(-1)
    if not bool((mass > 0).any()):
        return torch.zeros_like(mass), torch.zeros_like(x), mass
    return (*kernel(x, a, b, margin), mass)


def _centred(x: Tensor, scores: Tensor) -> Tensor:
    """Scores shifted by their mean: differences are unchanged and squares lose no digits.

    The mean is rounded to float32, so that subtracting it from scores of few digits is exact and pairs that lie
    exactly at the margin stay there.
    """
    if scores.dtype == torch.float64:
        low, high = (float(bound) for bound in x.aminmax())
        if max(high, -low) > MAX_SCORE:
            raise InputError(
                "scores",
                f"values from {low:.3g} to {high:.3g}",
                f"values up to {MAX_SCORE:g}",
                "The model has diverged: lower the learning rate.",
            )
    return x - x.mean(-1, keepdim=True).clamp(-1e38, 1e38).float()
