"""``aimfor.maximize(recall, subject_to=[precision >= 0.9])``: a loss whose minimum is the best objective under them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks, distributed
from ..constraints.counts import Counts, no_counts
from ..constraints.expressions import Constraint, Expression
from ..constraints.inequalities import Inequality, all_inequalities, is_difference, objective_members
from ..decisions.problem import Problem
from ..decisions.thresholds import tightened
from ..engine import Batch, attached_zero
from ..errors import InputError
from ..twice import once
from .counting import counts_from_state, counts_state, encoded, reduced, tallied
from .duals import DualOptimizer, dual_optimizer
from .prices import PROXIES, PricedDecisions, objective_terms, prices, proxy, proxy_slack
from .saved import as_tensor, from_tensor


class RateProblem(Problem, nn.Module):
    """Maximize or minimize a rate subject to bounds on others, by the proxy-Lagrangian.

    The loss is a smooth proxy of ``−objective − Σ λ·slack``; the multipliers λ see the exact 0-1 rates over the data
    set, from counts that run through the epoch, and take their step in `end_epoch` (and every ``dual_every`` calls).
    An example counts as predicted positive when its score is above 0.

    Make one with `aimfor.maximize` or `aimfor.minimize`; the arguments are explained there.

    Attributes:
        multipliers: λ of each part of a constraint, by its name.
        multiplier_steps: How many steps they have had.

    Example:
        >>> import aimfor
        >>> from aimfor.rates import precision, recall
        >>> aimfor.maximize(recall, subject_to=[precision >= 0.9]).constraints
        (precision >= 0.9,)

    References:
        Cotter, Jiang, Gupta, Wang, Narayan, You, Sridharan, Optimization with non-differentiable constraints with
        applications to fairness, recall, churn, and other goals, 2019.
    """

    def __init__(
        self,
        direction: str,
        objective: Expression,
        subject_to: Sequence[Constraint] | Constraint = (),
        *,
        proxy: str = "auto",
        temperature: float | None = None,
        dual: str | DualOptimizer = "nupi",
        dual_rate: float = 1.0,
        dual_every: int = 0,
        dual_rates: str = "exact",
        initial: float | None = None,
        held_out: int = 0,
    ) -> None:
        nn.Module.__init__(self)
        Problem.__init__(self, direction, objective, subject_to)
        differs = any(is_difference(constraint.left) for constraint in self.constraints)
        chosen = ("sigmoid" if differs else "logistic") if proxy == "auto" else proxy
        self.proxy = checks.one_of("proxy", chosen, PROXIES)
        cool = 0.5 if proxy == "auto" and differs else 1.0
        self.temperature = cool if temperature is None else checks.number("temperature", temperature, above=0)
        self.dual_every = checks.integer("dual_every", dual_every, at_least=0)
        self.dual_rates = checks.one_of("dual_rates", dual_rates, ("exact", "proxy"))
        self.initial = None if initial is None else checks.number("initial", initial, at_least=0)
        self.held_out = checks.integer("held_out", held_out, at_least=0)
        self.dual = dual_optimizer(dual, checks.number("dual_rate", dual_rate, above=0))
        self._reset()

    def _reset(self) -> None:
        self.multipliers: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.calls = self.calls_in_epoch = self.epochs = self.multiplier_steps = 0
        self._window = self._epoch = self._basis = no_counts(self.attributes)
        self._soft = torch.zeros(2, 1, dtype=torch.float64)
        self._prices: tuple[Tensor, Tensor, float] | None = None
        self._prices_on: tuple[torch.device, torch.dtype] | None = None

    # ------------------------------------------------------------ the loss

    def forward(
        self,
        scores: Tensor,
        targets: Tensor,
        *,
        weights: Tensor | None = None,
        where: Tensor | None = None,
        groups: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """The proxy-Lagrangian of this batch, a scalar attached to the graph; in training mode it is counted too."""
        batch = checks.binary(scores, targets, weights=weights, where=where, groups=groups)
        with torch.autocast(batch.scores.device.type, enabled=False):  # sums of prices need their digits
            return self.lagrangian(batch)

    def lagrangian(self, batch: Batch) -> Tensor:
        """As `forward`, for a batch that has passed the gate."""
        codes, levels = encoded(batch, self._epoch.levels.union(self._basis.levels))
        weights = batch.effective_weights()
        mass = float(batch.scores.shape[0]) if weights is None else float(weights.sum())
        if self.training and torch.is_grad_enabled():
            self._count(batch, codes, tallied(batch, batch.scores.detach() > 0, codes, levels))
        if mass == 0.0:
            return attached_zero(batch.scores)
        up, down, constant = self._priced(batch.scores, levels)
        kind = batch.targets.long() if not levels.names else codes * 2 + batch.targets.long()
        up, down = up[kind], down[kind]
        if weights is not None:
            up, down = up * weights, down * weights
        loss: Tensor = PricedDecisions.apply(batch.scores, up, down, self.proxy, self.temperature, None)[0]
        loss = once(loss, "the multipliers of a problem with constraints follow the scores.", batch.scores)
        return loss / mass + constant

    def _count(self, batch: Batch, codes: Tensor, counts: Counts) -> None:
        self._epoch = self._epoch.plus(counts)
        self._window = self._window.plus(counts)
        if self.dual_rates == "proxy":
            self._count_proxies(batch, codes, counts)
        self.calls += 1
        self.calls_in_epoch += 1
        if self.epochs == 0 and _is_time(self.calls_in_epoch):
            self._basis, self._prices = reduced(self._epoch), None
        if self.dual_every and self.calls % self.dual_every == 0:
            self._dual_step(reduced(self._window))

    def _priced(self, scores: Tensor, levels: Any) -> tuple[Tensor, Tensor, float]:
        """Prices for these labels, on the scores' device, made again only when counts or multipliers changed."""
        kind = (scores.device, scores.dtype)
        stale = self._prices is None or self._prices_on != kind
        if stale or self._prices[0].numel() != 2 * levels.combinations:  # type: ignore[index]
            counts = self._basis.on(self._basis.levels.union(levels))
            terms = objective_terms(self.objective, counts, self._known_shares(counts))
            inequalities = self._inequalities(counts)
            multipliers = {inequality.name: self._multiplier(inequality) for inequality in inequalities}
            sign = 1.0 if self.direction == "maximize" else -1.0
            made = prices(sign, terms, inequalities, multipliers, counts)
            up, down = (torch.from_numpy(side).to(*kind) for side in (made.up, made.down))
            self._prices = up, down, made.constant
            self._prices_on = kind
        assert self._prices is not None
        return self._prices

    # ------------------------------------------------------------ the dual step

    def end_epoch(self) -> None:
        """The dual step on the epoch's exact counts. Call it once per epoch; it counts afresh from here on."""
        if self.calls_in_epoch == 0:
            return
        counts = reduced(self._epoch)
        if not self.dual_every:
            self._dual_step(counts)
        self._basis, self._prices = counts, None
        self._epoch = no_counts(self.attributes).on(counts.levels)
        self.epochs += 1
        self.calls_in_epoch = 0

    def _dual_step(self, counts: Counts) -> None:
        for inequality in self._inequalities(counts):
            slack = self._seen_slack(inequality, counts)
            if math.isfinite(slack):  # a group without examples in the window says nothing
                self.multipliers[inequality.name] = self.dual.step(
                    inequality.name, self._multiplier(inequality), -slack
                )
        self._shift_shares(counts)
        self._window = no_counts(self.attributes).on(counts.levels)
        self._soft = torch.zeros(2, 1, dtype=torch.float64)
        self._prices = None
        self.multiplier_steps += 1

    def _inequalities(self, counts: Counts) -> list[Inequality]:
        return [
            tightened(inequality, counts, self.held_out, len(self.constraints))
            for inequality in all_inequalities(self.constraints, counts.levels)
        ]

    def _multiplier(self, inequality: Inequality) -> float:
        """A floor starts at 1, so that the first epoch does not run away from it; a difference at 0: both of its
        directions at once would only pull all scores to 0."""
        start = self.initial if self.initial is not None else float(len(inequality.terms) == 1)
        return self.multipliers.get(inequality.name, start)

    def _seen_slack(self, inequality: Inequality, counts: Counts) -> float:
        if self.dual_rates == "exact":
            return float(inequality.slack(counts))
        soft = self._soft.numpy().reshape(2, *counts.levels.sizes, 2)
        return proxy_slack(inequality, counts, soft[0], soft[1])

    def _count_proxies(self, batch: Batch, codes: Tensor, counts: Counts) -> None:
        if distributed.world_size() > 1:
            raise InputError("dual_rates", "'proxy' under torch.distributed", "'exact' with several processes")
        size = 2 * counts.levels.combinations
        if self._soft.numel() != 2 * size:
            if float(self._soft.abs().sum()) > 0:
                raise InputError("groups", "a new label within an epoch", "all labels in the first batch of proxies")
            self._soft = torch.zeros(2, size, dtype=torch.float64)
        weights = batch.effective_weights()
        scores = batch.scores.detach().double() / self.temperature
        for row, signed in enumerate((scores, -scores)):
            value = proxy(self.proxy, signed)[0]
            value = value if weights is None else value * weights
            self._soft[row].index_add_(0, (codes * 2 + batch.targets.long()).cpu(), value.cpu())

    def _known_shares(self, counts: Counts) -> dict[str, float]:
        names = [repr(rate) for rate in objective_members(self.objective, counts.levels)]
        total = sum(self.shares.get(name, 1.0) for name in names)
        return {name: self.shares.get(name, 1.0) / total for name in names}

    def _shift_shares(self, counts: Counts) -> None:
        """Multiplicative weights: the group that is worst off gains weight."""
        shares = self._known_shares(counts)
        sign = -1.0 if self.direction == "maximize" else 1.0
        for rate in objective_members(self.objective, counts.levels):
            value = float(rate.value(counts))
            if math.isfinite(value):
                shares[repr(rate)] *= math.exp(self.dual.rate * sign * value)
        total = sum(shares.values())
        self.shares = {name: max(share / total, 1e-6) for name, share in shares.items()}

    # ------------------------------------------------------------ state

    def get_extra_state(self) -> Tensor:
        state = {
            "problem": repr(self),
            "multipliers": dict(self.multipliers),
            "shares": dict(self.shares),
            "dual": self.dual.state_dict(),
            "steps": [self.calls, self.calls_in_epoch, self.epochs, self.multiplier_steps],
            "counts": [counts_state(counts) for counts in (self._window, self._epoch, self._basis)],
            "soft": self._soft.tolist(),
        }
        return as_tensor(state)

    def set_extra_state(self, saved: Tensor) -> None:
        state = from_tensor(saved)
        if state["problem"] != repr(self):
            raise InputError(
                "state_dict", f"the state of\n{state['problem']}", f"the state of\n{self!r}", "Build the same problem."
            )
        self.dual.load_state_dict(state["dual"])
        self.multipliers, self.shares = dict(state["multipliers"]), dict(state["shares"])
        self.calls, self.calls_in_epoch, self.epochs, self.multiplier_steps = (*state["steps"], 0)[:4]
        self._window, self._epoch, self._basis = (counts_from_state(table) for table in state["counts"])
        self._soft = torch.as_tensor(state["soft"], dtype=torch.float64).clone()
        self._prices = None


def _is_time(call: int) -> bool:
    """At 1, 2, …, 10 and then whenever the number of calls has grown by a tenth: the same on every process."""
    return call <= 10 or int(math.log(call, 1.1)) != int(math.log(call - 1, 1.1))


def maximize(
    objective: Expression,
    subject_to: Sequence[Constraint] | Constraint = (),
    *,
    proxy: str = "auto",
    temperature: float | None = None,
    dual: str | DualOptimizer = "nupi",
    dual_rate: float = 1.0,
    dual_every: int = 0,
    dual_rates: str = "exact",
    initial: float | None = None,
    held_out: int = 0,
) -> RateProblem:
    """The problem of making a rate as large as possible while others keep their bounds.

    Args:
        objective: A rate, a linear combination of rates, or ``rate.worst("group")``.
        subject_to: Constraints such as ``precision >= 0.9``, ``fpr.gap("sex") <= 0.02``.
        proxy: What stands in for a decision in the primal step: ``logistic``, ``sigmoid`` or ``hinge``. ``auto``
            (default) is logistic, but sigmoid at temperature 0.5 where a constraint bounds a difference of rates: a
            convex proxy bounds both sides of it from above, and all scores are pulled to 0.
        temperature: Scores are divided by it before the proxy; 1 unless ``auto`` says otherwise.
        dual: ``nupi`` (default), ``plain``, ``momentum``, or a `DualOptimizer`.
        dual_rate: Step size of the multipliers, in units of (multiplier per unit of violation).
        dual_every: Take a dual step every so many calls as well; 0 (default) only in `end_epoch`.
        dual_rates: ``exact`` 0-1 rates in the dual step (default), or the ``proxy``: the plain Lagrangian.
        initial: Multiplier that constraints start with; by default 1 for a bound on one rate, 0 for a difference.
        held_out: Number of examples that the certificate will have. Training then aims inside each bound by the margin
            that a certificate of that size asks for; 0 (default) aims at the bounds themselves.

    Returns:
        An ``nn.Module``: call it as a loss, call `end_epoch` once per epoch, and call `decide` and `certificate` on
        held-out data.

    Raises:
        InputError: Contradictory constraints, a gap as objective, options out of range.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import recall, precision, fpr
        >>> problem = aimfor.maximize(recall, subject_to=[precision >= 0.9, fpr.gap("sex") <= 0.02])
        >>> problem
        maximize    recall
        subject to  precision >= 0.9
                    gap(fpr, sex) <= 0.02
        >>> scores = torch.tensor([1.5, -0.5, 0.3, -2.0], requires_grad=True)
        >>> loss = problem(scores, torch.tensor([1, 0, 1, 0]), groups={"sex": torch.tensor([0, 0, 1, 1])})
        >>> loss.backward()
        >>> problem.end_epoch()
    """
    return RateProblem("maximize", **locals())  # the arguments, which are those of RateProblem by the same names


def minimize(
    objective: Expression,
    subject_to: Sequence[Constraint] | Constraint = (),
    *,
    proxy: str = "auto",
    temperature: float | None = None,
    dual: str | DualOptimizer = "nupi",
    dual_rate: float = 1.0,
    dual_every: int = 0,
    dual_rates: str = "exact",
    initial: float | None = None,
    held_out: int = 0,
) -> RateProblem:
    """As `maximize`, for a rate that should be small.

    Example:
        >>> import aimfor
        >>> from aimfor.rates import error_rate, positive_rate
        >>> aimfor.minimize(error_rate, positive_rate.gap("sex") <= 0.05)
        minimize    error_rate
        subject to  gap(positive_rate, sex) <= 0.05
    """
    return RateProblem("minimize", **locals())  # the arguments, which are those of RateProblem by the same names
