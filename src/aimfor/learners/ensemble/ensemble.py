"""A fitted ensemble: the weight of every member, the threshold, and the cross-validated metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...targets.calibrate import probability
from ...targets.objective import Objective
from .calibration import Scale, Threshold
from .cells import Kept
from .choices import SILENT, Judged
from .levels import Levels
from .members import Fitted, every_member
from .weights import mixed


@dataclass
class WeightedMember:
    """A member in the ensemble: one fitted copy per fold, one scale, one share of the vote.

    Example:
        >>> from aimfor.learners.ensemble import fit_ensemble
        >>> x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
        >>> found = fit_ensemble(x, (x[:, 0] > 0).long(), Objective.of("auroc"), kinds=("linear",), folds=2)
        >>> [(weighted.name, weighted.share, len(weighted.fitted)) for weighted in found.weighted_members]
        [('linear', 1.0, 2)]
    """

    name: str
    title: str
    fitted: list[Fitted]
    scale: Scale
    share: float
    checkpoint: int
    seconds: float
    #: What the folds' held-out rows said at every checkpoint; None for one that was restored.
    curves: dict[str, Any] | None = None
    #: Of each fold, what the target says about levels; the same for all members.
    levels: list[Levels] = field(default_factory=list)

    def scores(self, x: Tensor) -> Tensor:
        """The mean of the folds' calibrated log-odds."""
        total = self.of_fold(x, 0)
        for fold in range(1, len(self.fitted)):
            total = total + self.of_fold(x, fold)
        return total / len(self.fitted)

    def of_fold(self, x: Tensor, fold: int) -> Tensor:
        """Calibrated log-odds of the copy that learned without this fold."""
        return self.scale(self.fitted[fold].scores(self.levels[fold](x) if self.levels else x))


@dataclass
class OutOfFold:
    """What was said about rows by models that had not learned from them.

    Attributes:
        rows: Row numbers in the table that was given, ascending.
        y: Their classes.
        weights: Their weights, or None.
        folds: The fold each was held out of.
        members: ``(m, n)`` or ``(m, n, c)`` calibrated log-odds of the members.
        scores: ``(n,)`` or ``(n, c)`` of the ensemble.
        lists: The list of each, or None.
        judged: Scores and thresholds of choices that were made without each row; None where too few rows could choose.

    Example:
        >>> from aimfor.learners.ensemble import fit_ensemble
        >>> x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
        >>> found = fit_ensemble(x, (x[:, 0] > 0).long(), Objective.of("auroc"), kinds=("linear",), folds=2)
        >>> found.out_of_fold.scores.shape, sorted(set(found.out_of_fold.folds.tolist()))
        (torch.Size([120]), [0, 1])
    """

    rows: Tensor
    y: Tensor
    weights: Tensor | None
    folds: Tensor
    members: Tensor
    scores: Tensor
    lists: Tensor | None = None
    judged: Judged | None = None


@dataclass
class Ensemble:
    """A fitted ensemble. `fit_ensemble` makes one.

    Attributes:
        objective: The metric it was made for.
        outputs: 1 for one score per row, else the number of classes.
        weighted_members: The members, with their shares of the vote.
        scale: From mixed scores to calibrated log-odds.
        threshold: Decisions are ``score > threshold.value``.
        cross_validated: The metric on out-of-fold rows, each scored by choices made without it.
        out_of_fold: Out-of-fold scores; None for an ensemble that was restored.
        notes: What was left out or assumed.

    Example:
        >>> from aimfor.learners.ensemble import fit_ensemble
        >>> x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
        >>> found = fit_ensemble(x, (x[:, 0] > 0).long(), Objective.of("auroc"), kinds=("linear",), folds=2)
        >>> again = Ensemble.restore(found.facts, dict(found.parts()).__getitem__)
        >>> torch.equal(again.scores(x), found.scores(x))
        True
    """

    objective: Objective
    outputs: int
    weighted_members: list[WeightedMember]
    scale: Scale
    threshold: Threshold
    cross_validated: float
    out_of_fold: OutOfFold | None
    notes: list[str] = field(default_factory=list)

    def scores(self, x: Tensor) -> Tensor:
        """Calibrated log-odds ``(n,)``, or one score per class ``(n, c)``, float64."""
        return self._mixture(lambda weighted: weighted.scores(x))

    def scores_out_of_fold(self, x: Tensor, folds: Tensor) -> Tensor:
        """The same of rows that trained, each by the copies that learned without its fold ``(n,)``."""
        scores = torch.zeros(len(x), *([] if self.outputs == 1 else [self.outputs]), dtype=torch.float64)
        for fold in folds.unique().tolist():
            held = x[folds == fold]
            scores[folds == fold] = self._mixture(lambda weighted: weighted.of_fold(held, fold))  # noqa: B023
        return scores

    def _mixture(self, scores: Callable[[WeightedMember], Tensor]) -> Tensor:
        loud = [weighted for weighted in self.weighted_members if weighted.share >= SILENT]
        shares = torch.tensor([weighted.share for weighted in loud], dtype=torch.float64)
        return self.scale(mixed(torch.stack([scores(weighted) for weighted in loud]), shares / shares.sum()))

    def probabilities(self, x: Tensor) -> Tensor:
        """Of the positive class ``(n,)``, or of every class ``(n, c)``."""
        scores = self.scores(x)
        return probability(scores) if self.outputs == 1 else scores.softmax(1)

    def decide(self, x: Tensor) -> Tensor:
        """Class ids ``(n,)``."""
        scores = self.scores(x)
        return (scores > self.threshold.value).long() if self.outputs == 1 else scores.argmax(1)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything but the fitted members and how long they took, as JSON: equal models have equal facts."""
        weighted_members = [
            {
                "name": weighted.name,
                "title": weighted.title,
                "folds": len(weighted.fitted),
                "share": weighted.share,
                "look": weighted.checkpoint,
                "scale": weighted.scale.state,
            }
            for weighted in self.weighted_members
        ]
        return {
            "metric": self.objective.name,
            "outputs": self.outputs,
            "ranked": self.objective.ranked,
            "seats": weighted_members,
            "scale": self.scale.state,
            "threshold": self.threshold.value,
            "threshold_text": self.threshold.text,
            "promised": self.cross_validated,
            "notes": self.notes,
            "levels": len(self.levels),
        }

    @property
    def levels(self) -> list[Levels]:
        """Of each fold; none where no column has many levels."""
        return self.weighted_members[0].levels

    def parts(self) -> Iterator[tuple[str, Kept]]:
        """The fitted members by name, ``trees-0`` …, of those that are asked, and ``levels-0`` …."""
        for fold, levels in enumerate(self.levels):
            yield f"levels-{fold}", (levels.tensors, {})
        for weighted in self.weighted_members:
            if weighted.share >= SILENT:
                for fold, fitted in enumerate(weighted.fitted):
                    yield f"{weighted.name}-{fold}", fitted.state()

    @classmethod
    def restore(cls, facts: dict[str, Any], get: Callable[[str], Kept]) -> Ensemble:
        """From `facts` and a function that gives the fitted members by name."""
        weighted_members = []
        levels = [Levels.restore(get(f"levels-{fold}")[0]) for fold in range(facts.get("levels", 0))]
        by_name = {member.name: member for member in every_member()}
        for of_member in facts["seats"]:
            if of_member["name"] not in by_name:
                remedy = "Read the run by the version that config.json names."
                raise InputError(
                    "run", f"a member {of_member['name']!r} in committee.json", "one that this version knows", remedy
                )
            name, fitted = of_member["name"], []
            if of_member["share"] >= SILENT:
                if of_member["folds"] < 1:
                    raise ValueError(f"{name} has a share of the vote and no model")
                fitted = [by_name[name].restore(*get(f"{name}-{fold}")) for fold in range(of_member["folds"])]
            weighted_members.append(
                WeightedMember(
                    name,
                    of_member["title"],
                    fitted,
                    Scale.restore(of_member["scale"]),
                    of_member["share"],
                    of_member["look"],
                    of_member.get("seconds", 0.0),
                    levels=levels,
                )
            )
        objective = Objective.of(facts["metric"]).on_classes(max(2, facts["outputs"]))
        return cls(
            objective.by_list() if facts.get("ranked") else objective,
            facts["outputs"],
            weighted_members,
            Scale.restore(facts["scale"]),
            Threshold(facts["threshold"], facts["threshold_text"]),
            facts["promised"],
            None,
            list(facts["notes"]),
        )
