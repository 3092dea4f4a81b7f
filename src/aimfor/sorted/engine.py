"""Engine "sorted": exact sums over all pairs by one sort."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..bank import ScoreBank
from ..engine import Batch, Engine, EngineOutput, Number, internal_dtype, undefined
from ..errors import InputError
from ..twice import again
from .form import HasPairs, PairForm, PairProblem
from .kernels import KERNELS, top_fraction

#: Beyond this, squares of differences leave float64.
MAX_SCORE = 1e100


class SortedEngine(Engine):
    """Mean of a surrogate over all positive-negative pairs, exact in value and gradient.

    With ``d`` the positive's score minus the negative's:

    =================  ===================================  ==========  =========================
    surrogate          ℓ(d)                                 time        bounds 1 − AUC from above
    =================  ===================================  ==========  =========================
    ``squared_hinge``  ``max(0, margin − d)²``              O(n log n)  if margin >= 1
    ``hinge``          ``max(0, margin − d)``               O(n log n)  if margin >= 1
    ``squared``        ``(margin − d)²``                    O(n)        if margin >= 1
    ``ramp``           ``min(1, max(0, margin−d)/margin)``  O(n log n)  yes
    ``logistic``       ``log(1 + exp(−d))``                 O(p q)      after division by log 2
    =================  ===================================  ==========  =========================

    Memory is O(n) for all of them.

    Args:
        surrogate: One of the above.
        margin: Wanted gap between a positive's and a negative's score. ``logistic`` has none: leave it at 1.
        bank: Number of recent scores to rank each batch against (0: the batch alone). The bank is filled in training
            mode only and saved with the module.

    Stats:
        ``pairs``: number of problems that were defined; ``problems``: number of problems in the form.

    Example:
        >>> import torch, aimfor
        >>> loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine("hinge", margin=2.0))
        >>> scores = torch.tensor([2.0, 0.5, 1.0], requires_grad=True)
        >>> loss_fn(scores, torch.tensor([1, 1, 0])).backward()
        >>> scores.grad.tolist()
        [-0.5, -0.5, 1.0]
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
        terms, everything = [], 0.0
        defined: int | Tensor = 0
        weight: Number = 0.0
        for problem in form.problems:
            loss, mass = _PairMean.apply(problem.scores, problem, self.surrogate, self.margin)
            everything += problem.scale * problem.count
            nonzero = mass.count_nonzero()
            count = int(nonzero) if nonzero.is_cpu else nonzero  # elsewhere the host would have to wait
            if isinstance(count, Tensor) or count:
                terms.append(loss)
                defined, weight = defined + count, weight + problem.scale * count
        stats = {"pairs": defined, "problems": sum(problem.count for problem in form.problems)}
        if not terms:
            return undefined(form.scores, stats)
        loss = terms[0] if len(terms) == 1 else torch.stack(terms).sum()
        # Classes missing from a mini-batch: the mean is over the pairs of classes that are there.
        if isinstance(weight, Tensor):
            return EngineOutput(loss * torch.where(weight > 0, everything / weight, 0.0), weight > 0, stats)
        return EngineOutput(loss * (everything / weight) if defined < stats["problems"] else loss, stats=stats)

    def extra_repr(self) -> str:
        return f"surrogate={self.surrogate!r}, margin={self.margin:g}"


class _PairMean(torch.autograd.Function):
    """Scaled mean over the pairs of a problem, summed over problems side by side, and the mass of pairs of each.

    The gradient is found in the forward pass, and backward only scales it.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, problem: PairProblem, surrogate: str, margin: float) -> tuple[Tensor, Tensor]:
        total, gradient, mass = _pair_sum(scores, problem, surrogate, margin)
        # A problem without mass has total and gradient zero already.
        ctx.mark_non_differentiable(mass)
        share = mass.clamp_min(torch.finfo(mass.dtype).tiny).div_(problem.scale)
        total, gradient = total.div_(share).sum(), gradient.div_(share.unsqueeze(-1))
        # float32 cannot hold the square of 1e30: stay finite, also in a sum over many problems that is scaled up for
        # the classes that are missing. (A gradient is at most the spread, which it can hold.)
        ctx.save_for_backward(scores, gradient.to(scores.dtype))
        ctx.again = problem, surrogate, margin
        return total.clamp(0.0, 1e-6 * torch.finfo(scores.dtype).max).to(scores.dtype), mass

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, grad_count: Any) -> tuple[Tensor, None, None, None]:
        scores, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = again(gradient, scores, lambda x: _plain_mean(x, *ctx.again))
        return gradient * grad_loss, None, None, None


def _plain_mean(scores: Tensor, problem: PairProblem, surrogate: str, margin: float) -> Tensor:
    """The same through autograd: the kernels' totals are polynomials of sorted scores and prefix sums."""
    total, _, mass = _pair_sum(scores, problem, surrogate, margin)
    return (total / mass.clamp_min(torch.finfo(mass.dtype).tiny) * problem.scale).sum()


def _pair_sum(scores: Tensor, problem: PairProblem, surrogate: str, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    """Sum over the problem's pairs, its gradient, and the pairs' total weight."""
    kernel, dtype = KERNELS[surrogate], internal_dtype(scores)
    if problem.weights is None:
        a = problem.positive.to(dtype)
        b = torch.rsub(a, 1.0)
    else:
        weights = problem.weights.to(dtype)
        a = weights * problem.positive
        b = weights - a
    x = _centred(scores, dtype) if scores.numel() else scores.to(dtype)
    if problem.top < 1.0 and x.numel():
        b = top_fraction(x, b, problem.top)
    if problem.fresh is None:
        return (*kernel(x, a, b, margin), a.sum(-1) * b.sum(-1))
    # Only pairs with a fresh member: (fresh positives × all negatives) and (banked positives × fresh negatives).
    fresh_a, fresh_b = a * problem.fresh, b * problem.fresh
    old_a = a - fresh_a
    ours, banked = kernel(x, fresh_a, b, margin), kernel(x, old_a, fresh_b, margin)
    mass = fresh_a.sum(-1) * b.sum(-1) + old_a.sum(-1) * fresh_b.sum(-1)
    return ours[0] + banked[0], ours[1] + banked[1], mass


def _centred(scores: Tensor, dtype: torch.dtype) -> Tensor:
    """Scores shifted by their mean: differences are unchanged and squares lose no digits.

    The mean is rounded to float32, so that subtracting it from scores of few digits is exact and pairs that lie
    exactly at the margin stay there.
    """
    x = scores.to(dtype)
    mean = x.mean(-1, keepdim=True)
    if scores.dtype == torch.float64:
        low, high = (float(bound) for bound in x.detach().aminmax())
        if max(high, -low) > MAX_SCORE:
            raise InputError(
                "scores",
                f"values from {low:.3g} to {high:.3g}",
                f"values up to {MAX_SCORE:g}",
                "The model has diverged: lower the learning rate.",
            )
        mean = mean.clamp(-1e38, 1e38)  # what float32 can hold
    return x - mean.float()
