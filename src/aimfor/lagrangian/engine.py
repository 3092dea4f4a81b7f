"""Engine "lagrangian": F_β of the whole data set as a term in a loss, with one dual per example."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Batch, Engine, EngineOutput, attached_zero, undefined
from ..errors import InputError
from .bound import SURROGATES, bound_from_scores
from .duals import Duals, with_gradients, with_gradients_of_all
from .form import ConstraintForm, ConstraintProblem, HasConstraints
from .groups import checked_index, group_labels
from .history import History, diagnose
from .schedule import Schedule, schedule


class LagrangianEngine(Engine):
    """Ravi's reparameterized dual ascent for F_β, on scores of an auxiliary output.

    The problem is ``min β²nε + Σ_neg φ(f_j; ε)  s.t.  τ_i ≤ ε, τ_i ≤ f_i, Στ = 1, ε ≥ 0`` over the whole data set;
    its value V certifies ``F_β ≥ (1 + β²)/(1 + V)`` at threshold 0. A batch gives an unbiased estimate of its
    Lagrangian (see `Duals` for the units). τ and ε descend with every batch; ``end_epoch()`` projects and takes
    the dual step. In evaluation mode, and under ``no_grad``, the loss is one minus the bound that the given scores
    certify, no index is needed and no state changes.

    Args:
        labels: ``(N,)`` groups of the whole data set: bool or 0/1 (1 is S⁺), or 0 … p−1 for p > 2 groups, where
            each ordered pair of groups is a program of its own on the first group's column of scores.
        mode: ``"ravi"``: project onto {τ_i ≤ ε, ε ≥ 0} once per epoch. ``"ravi-full"``: after every step.
            ``"venkatesh"``: no projection, one more multiplier γ_i for each τ_i ≤ ε.
        surrogate: What a negative costs: ``"hinge"``, ``"squared_hinge"``, ``"squared"``, ``"logistic"``.
        penalty: ρ of the augmented Lagrangian. 0 is the papers' plain Lagrangian, which circles around the
            optimum and comes near it only with a well chosen constant dual step.
        primal: ``"own"``: the engine steps τ and ε itself, whatever the weight of this loss in the objective.
            ``"optimizer"``: they are trainable parameters and the user's optimizer steps them (plain SGD: a
            projection is right only in the metric of the step before it).
        primal_step: Step of τ and ε per epoch for ``primal="own"``: a number or a function of the epoch. Keep it
            below ``1/(2·penalty)``.
        dual_step: Step of λ: a number, or a function of the number of the dual step (1, 2, …), such as
            `PowerDecay`. None means ``penalty`` (1 if that is 0).
        mu_step: Step of μ, likewise. None means ``dual_step``.
        gamma_step: Step of γ in mode "venkatesh", likewise. None means ``dual_step``.
        inner: Calls of ``end_epoch()`` for each dual step: a number, or a function of the number of the dual step.
        projection: ``"exact"``; ``"batch"``: in mode "ravi-full" only ε and the τ_i of the batch between epochs (the
            two-sample rule when there is one); ``"sampled"``: threshold from ``sample`` entries.
        sample: Size of the sample for ``projection="sampled"``.
        sampling: How batches are drawn: ``"uniform"``, or ``"stratified"`` for class-balanced samplers.

    Stats:
        ``value``: Lagrangian, or V when evaluating; ``bound``: (when evaluating) on F_β; ``positives``,
        ``negatives``: how many of each were in the batch.

    Raises:
        InputError: Labels with one class, unknown options; when training also a missing or wrong index.

    Example:
        >>> import torch, aimfor
        >>> labels = torch.tensor([1, 0, 1, 0])
        >>> loss_fn = aimfor.MetricLoss(aimfor.FBeta(1.0), aimfor.LagrangianEngine(labels))
        >>> scores = torch.tensor([0.2, -0.1, 0.3], requires_grad=True)
        >>> index = torch.tensor([0, 1, 2])
        >>> loss_fn(scores, labels[index], index=index).backward()
        >>> loss_fn.end_epoch()

    References:
        Ravi et al., 2020, Algorithm 3; Venkatesh and Zeng, 2019, Algorithm 1; Rockafellar, 1973 (penalty).
    """

    name: ClassVar[str] = "lagrangian"
    capability: ClassVar[type] = HasConstraints
    cost: ClassVar[str] = "O(n) a step, O(n log n) an epoch"
    stateless: ClassVar[bool] = False
    has_duals: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = False
    default_constructible: ClassVar[bool] = False

    labels: Tensor
    checked_labels: Tensor
    epoch: Tensor
    rounds: Tensor
    waited: Tensor
    projections: Tensor

    def __init__(
        self,
        labels: Tensor,
        *,
        mode: str = "ravi",
        surrogate: str = "hinge",
        penalty: float = 3.0,
        primal: str = "own",
        primal_step: float | Schedule = 0.1,
        dual_step: float | Schedule | None = None,
        mu_step: float | Schedule | None = None,
        gamma_step: float | Schedule | None = None,
        inner: int | Callable[[int], int] = 1,
        projection: str = "exact",
        sample: int = 1000,
        sampling: str = "uniform",
    ) -> None:
        super().__init__()
        self.mode = checks.one_of("mode", mode, ("ravi", "ravi-full", "venkatesh"))
        self.surrogate = checks.one_of("surrogate", surrogate, SURROGATES)
        self.penalty = checks.number("penalty", penalty, at_least=0)
        self.primal = checks.one_of("primal", primal, ("own", "optimizer"))
        self.primal_step = schedule("primal_step", primal_step)
        self.dual_step = schedule("dual_step", (self.penalty or 1.0) if dual_step is None else dual_step)
        self.mu_step = self.dual_step if mu_step is None else schedule("mu_step", mu_step)
        self.gamma_step = self.dual_step if gamma_step is None else schedule("gamma_step", gamma_step)
        if gamma_step is not None and mode != "venkatesh":
            raise InputError("gamma_step", repr(gamma_step), f"None: mode {mode!r} projects, it has no γ")
        self.inner = inner if callable(inner) else checks.integer("inner", inner, at_least=1)
        self.projection = checks.one_of("projection", projection, ("exact", "batch", "sampled"))
        self.sample = checks.integer("sample", sample, at_least=1)
        self.sampling = checks.one_of("sampling", sampling, ("uniform", "stratified"))
        groups = group_labels(labels)
        self.groups = int(groups.max()) + 1
        self.register_buffer("labels", groups)
        # The labels as the metric's gate hands them over, so that one comparison checks a batch.
        checked = groups.bool() if self.groups == 2 else groups.long()
        self.register_buffer("checked_labels", checked, persistent=False)
        for name in ("epoch", "rounds", "waited", "projections"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))
        p = self.groups
        self.pairs = [(1, 0)] if p == 2 else [(j, k) for j in range(p) for k in range(p) if j != k]
        options = {"cap": mode == "venkatesh", "trainable": primal == "optimizer"}
        self.duals = nn.ModuleList([Duals(groups == j, groups == k, **options) for j, k in self.pairs])
        self._programs: dict[tuple[int, int], Duals] = dict(zip(self.pairs, self.duals, strict=True))  # type: ignore[arg-type]
        self.history = History()
        self._beta = 1.0
        self._seconds = 0.0

    def refuses(self, metric: Any) -> str | None:
        reason = super().refuses(metric)
        if reason is None and (metric.group_count == 2) != (self.groups == 2):
            return f"its labels have {self.groups} groups (two groups: FBeta; more: PairwiseFBeta)"
        return reason

    def formulate(self, metric: HasConstraints, batch: Batch) -> ConstraintForm:
        if batch.weights is not None:
            raise InputError(
                "weights",
                "a tensor",
                "None: the multipliers are per example",
                "Repeat examples in the data set, or leave some out.",
            )
        # The penalty squares what the scores miss, in their own dtype.
        checks.finite("scores", batch.scores, 1e15 if batch.scores.dtype == torch.float32 else 1e100)
        return metric.constraint_form(batch)

    def solve(self, form: ConstraintForm) -> EngineOutput:
        if not (self.training and torch.is_grad_enabled()):
            return self._evaluate(form)
        index = checked_index(form.index, form.groups, self.checked_labels)
        problems = [problem for problem in form.problems if problem.scores.numel()]
        if not problems:
            return undefined(form.scores)
        if self._beta != form.beta:
            self._beta = form.beta
        losses = [self._train(problem) for problem in problems]
        if self.groups == 2:
            loss, positives = losses[0]
        else:
            loss, positives = torch.stack([term for term, _ in losses]).sum() / len(self.pairs), index.numel()
        stats = {"value": loss.detach(), "positives": positives, "negatives": index.numel() - positives}
        return EngineOutput(loss, stats=stats)

    # ------------------------------------------------------------ one batch

    def _train(self, problem: ConstraintProblem) -> tuple[Tensor, int]:
        """The Lagrangian of a batch, after the step of τ and ε, and how many positives it had."""
        duals, index = self._programs[problem.pair], problem.index
        assert index is not None
        if self.mode == "ravi-full" and self.primal == "optimizer":
            self._project(duals)  # the optimizer stepped since the last batch
        scores = problem.scores.detach()
        terms = duals.terms(
            scores,
            problem.positive,
            index,
            self._beta,
            self.penalty,
            SURROGATES[self.surrogate],
            self.sampling == "stratified",
        )
        duals.remember(scores, index)
        if self.primal == "optimizer":
            return with_gradients_of_all(problem.scores, duals, terms), terms.slots.numel()
        share = index.numel() / duals.size
        duals.descend(terms, share * self.primal_step(int(self.epoch) + 1))
        if self.mode == "ravi-full":
            self._project(duals, terms.slots if self.projection == "batch" else None)
        return with_gradients(problem.scores, terms), terms.slots.numel()

    def _project(self, duals: Duals, slots: Tensor | None = None) -> None:
        start = time.perf_counter()
        duals.project(slots, self.sample if self.projection == "sampled" else 0, int(self.projections))
        self.projections += 1
        self._seconds += time.perf_counter() - start

    def _evaluate(self, form: ConstraintForm) -> EngineOutput:
        """One minus the bound that these scores certify; groups that are missing do not count."""
        bounds = [
            bound_from_scores(problem.scores, problem.positive, form.beta)
            for problem in form.problems
            if bool(problem.positive.any())
        ]
        if not bounds:
            return undefined(form.scores)
        bound = torch.stack([each.bound for each in bounds]).mean()
        value = torch.stack([each.value for each in bounds]).mean()
        stats = {"value": value.detach(), "bound": bound.detach()}
        return EngineOutput(1.0 - bound + attached_zero(form.scores), stats=stats)

    # ------------------------------------------------------------ one epoch

    @torch.no_grad()
    def end_epoch(self, scores: Tensor | None = None) -> None:
        """Project, take the dual step when it is due, and write a row of `history`.

        Args:
            scores: Scores of the whole data set under the current model, ``(N,)`` or ``(N, p)``, for an exact dual
                step. None uses the scores that the epoch's batches had.
        """
        if scores is not None:
            self._refresh(scores)
        programs = list(self._programs.values())
        for duals in programs:
            duals.settle()
        rows = [diagnose(duals, self._beta, SURROGATES[self.surrogate]) for duals in programs]
        if self.mode != "venkatesh":
            for duals in programs:
                self._project(duals)
        self.epoch += 1
        self.waited += 1
        due = int(self.rounds) + 1
        step = 0.0
        if int(self.waited) >= (self.inner(due) if callable(self.inner) else self.inner):
            step = self.dual_step(due)
            for duals in programs:
                duals.ascend(step, self.mu_step(due), self.gamma_step(due))
            self.rounds += 1
            self.waited.zero_()
        row = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
        row |= {"epoch": float(self.epoch), "dual_step": step, "projections": float(self.projections)}
        self.history.append(row, self._seconds)
        self._seconds = 0.0

    def _refresh(self, scores: Tensor) -> None:
        expected = (self.labels.numel(),) if self.groups == 2 else (self.labels.numel(), self.groups)
        if not isinstance(scores, Tensor) or tuple(scores.shape) != expected:
            came = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
            raise InputError("scores", came, f"scores of the whole data set, shape {expected}")
        checks.finite("scores", scores)
        for (head, _), duals in self._programs.items():
            duals.arrived.copy_(scores if self.groups == 2 else scores[:, head])

    # ------------------------------------------------------------ state

    def param_group(self, lr: float) -> dict[str, Any]:
        """τ and ε as a group for the user's optimizer (``primal="optimizer"``), without weight decay."""
        if self.primal != "optimizer":
            raise InputError("primal", repr(self.primal), "'optimizer'", "With 'own' the engine steps them itself.")
        return {"params": list(self.parameters()), "lr": checks.number("lr", lr, above=0), "weight_decay": 0.0}

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        # Refuse before anything is copied: a multiplier belongs to one example of one data set.
        saved, remedy = state_dict.get(prefix + "labels"), "Make the engine with the labels it was trained with."
        if saved is not None and saved.shape != self.labels.shape:
            came, here = f"the state of {saved.numel()} examples", f"{self.labels.numel()} examples"
            raise InputError("state_dict", came, here, remedy)
        if saved is not None and not torch.equal(saved.to(self.labels), self.labels):
            raise InputError("state_dict", "the state of other labels", "the labels of this engine", remedy)
        gamma = state_dict.get(f"{prefix}duals.0.gamma")
        if gamma is not None and bool(gamma.numel()) != (self.mode == "venkatesh"):
            raise InputError("state_dict", "the state of another mode", f"mode={self.mode!r}")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"examples={self.labels.numel()}, groups={self.groups}, mode={self.mode!r}, penalty={self.penalty:g}"
