"""The last iterate of constrained training need not be the one to keep: hold on to the best feasible one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import integer
from ..constraints.counts import Counts
from ..constraints.inequalities import all_inequalities
from ..decisions.certificate import plain_value, sense_of
from ..decisions.decision import Decision
from ..decisions.thresholds import MARGINS
from ..errors import SolverError
from .counting import counts_from_state, counts_state
from .problem import RateProblem


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model as it was, the decision that goes with it, and what both did on the selection data."""

    weights: dict[str, Tensor]
    decision: Decision
    counts: Counts
    objective: float

    def rank(self, sign: float) -> tuple[int, float]:
        """Feasible before infeasible, a wide margin before a narrow one, then the objective."""
        level = MARGINS.index(self.decision.margin) if self.decision.feasible else -1
        return level, -math.inf if math.isnan(self.objective) else sign * self.objective


class Iterates:
    """Keeps the best feasible iterate, and up to ``most`` iterates for a mixture.

    Args:
        problem: The problem whose constraints decide.
        most: How many iterates to keep for `mixture` (0: only the best).

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import Iterates, recall, precision
        >>> problem = aimfor.maximize(recall, precision >= 0.5)
        >>> model, iterates = torch.nn.Linear(1, 1), Iterates(problem)
        >>> x, y = torch.linspace(-1, 1, 40)[:, None], torch.arange(40) >= 20
        >>> improved = iterates.consider(model, model(x), y)   # after every epoch, on held-out data
        >>> decision = iterates.restore(model)                 # at the end: the weights and their threshold
    """

    def __init__(self, problem: RateProblem, most: int = 0) -> None:
        self.problem = problem
        self.most = integer("most", most, at_least=0)
        self.best: Candidate | None = None
        self.kept: list[Candidate] = []

    def consider(
        self,
        model: nn.Module,
        scores: Tensor,
        targets: Tensor,
        *,
        groups: Mapping[str, Tensor] | None = None,
        per_group: str | None = None,
        margin: str = "certify",
    ) -> bool:
        """Looks at the model's scores on selection data; True if it is the best so far."""
        decision = self.problem.decide(scores, targets, groups=groups, per_group=per_group, margin=margin)
        weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        candidate = self._candidate(weights, decision, scores, targets, groups)
        if self.most:
            # A mixture is of the iterates as trained: those that miss a bound balance those that waste it.
            trained = self._candidate(weights, Decision(0.0), scores, targets, groups)
            self.kept = [*self.kept, trained][-self.most :]
        if self.best is None or candidate.rank(self._sign) > self.best.rank(self._sign):
            self.best = candidate
            return True
        return False

    def _candidate(
        self, weights: dict[str, Tensor], decision: Decision, scores: Tensor, targets: Tensor, groups: Any
    ) -> Candidate:
        counts = self.problem.count(scores, targets, groups=groups, decision=decision)
        objective = plain_value(self.problem.objective, counts, sense_of(self.problem.direction))
        return Candidate(weights, decision, counts, objective)

    @property
    def _sign(self) -> float:
        return 1.0 if self.problem.direction == "maximize" else -1.0

    def restore(self, model: nn.Module) -> Decision:
        """Puts the best iterate's weights back into the model; its decision goes with them."""
        if self.best is None:
            raise SolverError("no iterate yet: call consider(...) after every epoch before restore(...).")
        model.load_state_dict(self.best.weights)
        return self.best.decision

    def mixture(self) -> Mixture:
        """The mixture of kept iterates with the best objective under the constraints: at most m + 1 of them.

        A linear program over the weights (rates of a mixture are averages of rates; a ratio's bound is multiplied
        out). Raises `SolverError` when no mixture of them is feasible.
        """
        if not self.kept:
            raise SolverError("no iterates were kept: make Iterates(problem, most=20) and call consider(...).")
        from scipy.optimize import linprog

        slacks = [
            [-float(inequality.slack(candidate.counts)) for candidate in self.kept]
            for inequality in all_inequalities(self.problem.constraints, self.kept[-1].counts.levels)
        ]
        solved: Any = linprog(
            [-self._sign * candidate.objective for candidate in self.kept],
            A_ub=slacks or None,
            b_ub=[0.0] * len(slacks) or None,
            A_eq=[[1.0] * len(self.kept)],
            b_eq=[1.0],
            method="highs",
        )
        if solved.status != 0:
            raise SolverError("no mixture of the kept iterates satisfies the constraints; train further or keep more.")
        weights: list[float] = solved.x.tolist()
        chosen = [(w, candidate) for w, candidate in zip(weights, self.kept, strict=True) if w > 1e-9]
        return Mixture(tuple(candidate for _, candidate in chosen), tuple(w for w, _ in chosen))

    def state_dict(self) -> dict[str, Any]:
        """Plain containers and tensors: loads with ``weights_only=True``."""
        return {
            "best": None if self.best is None else _packed(self.best),
            "kept": [_packed(candidate) for candidate in self.kept],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = None if state["best"] is None else _unpacked(state["best"])
        self.kept = [_unpacked(candidate) for candidate in state["kept"]]


@dataclass(frozen=True)
class Mixture:
    """A random choice among iterates, drawn anew for each example, the same for the same seed.

    Example:
        >>> from aimfor.rates import Mixture
        >>> Mixture(candidates=(), weights=(0.25, 0.75)).weights
        (0.25, 0.75)
    """

    candidates: tuple[Candidate, ...]
    weights: tuple[float, ...]

    def assign(self, examples: int, seed: int) -> Tensor:
        """Which candidate decides on each example, ``(examples,)``."""
        generator = torch.Generator().manual_seed(seed)
        shares = torch.tensor(self.weights, dtype=torch.float64)
        return torch.multinomial(shares, examples, replacement=True, generator=generator)


def _packed(candidate: Candidate) -> dict[str, Any]:
    return {
        "weights": dict(candidate.weights),
        "decision": {
            "threshold": candidate.decision.threshold,
            "attribute": candidate.decision.attribute,
            "thresholds": dict(candidate.decision.thresholds),
            "feasible": candidate.decision.feasible,
            "margin": candidate.decision.margin,
        },
        "counts": counts_state(candidate.counts),
        "objective": candidate.objective,
    }


def _unpacked(state: Mapping[str, Any]) -> Candidate:
    return Candidate(
        {name: value.clone() for name, value in state["weights"].items()},
        Decision(**state["decision"]),
        counts_from_state(state["counts"]),
        state["objective"],
    )
