"""The committee: every row trains, every row judges, and the metric decides who speaks and where the threshold lies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ..calibrate import probability
from ..objective import Objective
from .cells import Cell, Progress, Runner, Table
from .decide import Threshold, promised, threshold_of
from .folds import make_folds, make_list_folds
from .gate import check_lists, check_rows
from .looks import best_look, learning_curves, out_of_fold
from .members import FOR_TABLES, Fitted, Member, Rows, every_member, members
from .members.base import Never
from .scale import Scale
from .store import Kept, MemoryStore, Store
from .weights import DEFAULT, Judge, choose, mixed

#: A member with less than this share is not asked.
SILENT = 1e-3
#: LightGBM keeps a table of what each grade is worth.
HIGHEST_GRADE = 1000
_BY_NAME = {member.name: member for member in every_member()}


@dataclass
class Seat:
    """A member in the committee: one fitted copy a fold, one scale, one share of the vote."""

    name: str
    title: str
    fitted: list[Fitted]
    scale: Scale
    share: float
    look: int
    seconds: float
    #: What the folds' judging rows said at every look; None for a seat that was restored.
    curves: dict[str, Any] | None = None

    def scores(self, x: Tensor) -> Tensor:
        """The mean of the folds' calibrated log-odds."""
        total = self.scale(self.fitted[0].scores(x))
        for one in self.fitted[1:]:
            total = total + self.scale(one.scores(x))
        return total / len(self.fitted)


@dataclass
class OutOfFold:
    """What was said about rows by models that had not learned from them.

    Attributes:
        rows: Row numbers in the table that was given, ascending.
        y: Their classes.
        weights: Their weights, or None.
        folds: The fold each was judged in.
        members: ``(m, n)`` or ``(m, n, c)`` calibrated log-odds of the members.
        scores: ``(n,)`` or ``(n, c)`` of the committee.
        lists: The list of each, or None.
    """

    rows: Tensor
    y: Tensor
    weights: Tensor | None
    folds: Tensor
    members: Tensor
    scores: Tensor
    lists: Tensor | None = None


@dataclass
class Committee:
    """A fitted committee. `fit_committee` makes one.

    Attributes:
        objective: The metric it was made for.
        outputs: 1 for one score a row, else the number of classes.
        seats: The members, with their shares of the vote.
        scale: From mixed scores to calibrated log-odds.
        threshold: Decisions are ``score > threshold.value``.
        promised: The metric on out-of-fold rows, each judged by weights and a threshold chosen without it.
        judged: Out-of-fold scores; None for a committee that was restored.
        notes: What was left out or assumed.
    """

    objective: Objective
    outputs: int
    seats: list[Seat]
    scale: Scale
    threshold: Threshold
    promised: float
    judged: OutOfFold | None
    notes: list[str] = field(default_factory=list)

    def scores(self, x: Tensor) -> Tensor:
        """Calibrated log-odds ``(n,)``, or one score a class ``(n, c)``, float64."""
        loud = [seat for seat in self.seats if seat.share >= SILENT]
        shares = torch.tensor([seat.share for seat in loud], dtype=torch.float64)
        return self.scale(mixed(torch.stack([seat.scores(x) for seat in loud]), shares / shares.sum()))

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
        """Everything but the fitted members, as JSON."""
        seats = [
            {
                "name": seat.name,
                "title": seat.title,
                "folds": len(seat.fitted),
                "share": seat.share,
                "look": seat.look,
                "seconds": seat.seconds,
                "scale": seat.scale.state,
            }
            for seat in self.seats
        ]
        return {
            "metric": self.objective.name,
            "outputs": self.outputs,
            "ranked": self.objective.ranked,
            "seats": seats,
            "scale": self.scale.state,
            "threshold": self.threshold.value,
            "threshold_text": self.threshold.text,
            "promised": self.promised,
            "notes": self.notes,
        }

    def parts(self) -> Iterator[tuple[str, Kept]]:
        """The fitted members by name, ``trees-0`` …, of those that are asked."""
        for seat in self.seats:
            if seat.share >= SILENT:
                for fold, one in enumerate(seat.fitted):
                    yield f"{seat.name}-{fold}", one.state()

    @classmethod
    def restore(cls, facts: dict[str, Any], get: Callable[[str], Kept]) -> Committee:
        """From `facts` and a function that gives the fitted members by name."""
        seats = []
        for one in facts["seats"]:
            member, loud = _BY_NAME[one["name"]], one["share"] >= SILENT
            fitted = [member.restore(*get(f"{one['name']}-{fold}")) for fold in range(one["folds"])] if loud else []
            scale, rest = Scale.restore(one["scale"]), (one["share"], one["look"], one["seconds"])
            seats.append(Seat(one["name"], one["title"], fitted, scale, *rest))
        objective = Objective.of(facts["metric"]).on_classes(max(2, facts["outputs"]))
        return cls(
            objective.by_list() if facts.get("ranked") else objective,
            facts["outputs"],
            seats,
            Scale.restore(facts["scale"]),
            Threshold(facts["threshold"], facts["threshold_text"]),
            facts["promised"],
            None,
            list(facts["notes"]),
        )


def fit_committee(
    x: Tensor,
    y: Tensor,
    objective: Objective,
    *,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    lists: Tensor | None = None,
    outputs: int | None = None,
    kinds: tuple[str, ...] = FOR_TABLES,
    seed: int = 0,
    folds: int | None = None,
    single: bool = False,
    alone: bool = False,
    rule: str = DEFAULT,
    store: Store | None = None,
    workers: int = 1,
    minutes: float | None = None,
    report: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] = Never,
) -> Committee:
    """Folds the rows, lets every member predict out of fold, and lets the metric weigh them.

    Args:
        x: ``(n, d)`` float32, encoded, not clipped.
        y: ``(n,)`` class ids; 1 is the positive class of a binary metric.
        objective: The metric.
        weights: ``(n,)``, at least 0; rows of weight 0 are left out.
        groups: ``(n,)`` ids; rows of one group are never on both sides of a fold.
        lists: ``(n,)`` ids of ranked lists (queries), for an objective of `Objective.by_list`; ``y`` are grades then.
        outputs: Scores per row; by default 1 for a binary metric, else the number of classes.
        kinds: Of members: ``linear``, ``trees``, ``network``; `FOR_FEATURES` for features of a pretrained network.
        seed: Decides folds and everything random.
        folds: Their number; by default 5, or 10 under 1,000 rows.
        single: One split instead of folds.
        alone: Only the first member of the kinds.
        rule: How members are weighed; see `weights.RULES`.
        store: Where finished cells are kept; a second call with the same store goes on from there.
        workers: Processes.
        minutes: Members that would end later are left out, with a note; the first always stays.
        report: Called after every cell.
        stop: True ends with `Interrupted`; finished cells are kept.

    Raises:
        InputError: Bad shapes or values, one class only, a class with one row.
        Interrupted: ``stop()`` became true.

    Example:
        >>> x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0.5).long()
        >>> found = fit_committee(x, y, Objective.of("auroc"), kinds=("linear",))
        >>> found.promised > 0.99, found.decide(x[:2]).shape
        (True, torch.Size([2]))
    """
    outputs = outputs or (1 if objective.binary else int(y.max()) + 1 if len(y) else 1)
    notes: list[str] = []
    check_lists(objective, lists, y, weights, groups)
    kept = check_rows(x, y, weights, groups, HIGHEST_GRADE + 1 if objective.ranked else outputs, notes)
    rows = Rows(x, y, weights, lists).take(kept)
    if rows.lists is not None:
        parts = make_list_folds(rows.lists, rows.y, seed, folds, single)
    else:
        parts = make_folds(rows.y, seed, None if groups is None else groups[kept], folds, single)
    table = Table(rows, parts, objective, outputs, seed)
    notes += table.folds.notes
    runner = Runner(table, store or MemoryStore(), workers, report, stop)
    if minutes is not None:
        runner.deadline = time.monotonic() + 60.0 * minutes
    try:
        wanted = members(kinds, objective.ranked)[: 1 if alone else None]
        seats, said = _learn(table, runner, _able(table, wanted, notes), notes)
    finally:
        runner.close()
    return _convened(table, seats, said, rule, kept, notes)


def _able(table: Table, wanted: tuple[Member, ...], notes: list[str]) -> list[Member]:
    """The members that can learn here; the others are named."""
    able: list[Member] = []
    for member in wanted:
        reason = member.why_not(table.objective, table.rows, table.outputs)
        if reason is None:
            able.append(member)
        else:
            notes.append(f"{member.title} left out: {reason}")
    if not able:
        raise InputError("--members", "none that can learn here: " + "; ".join(notes), "at least one")
    return able


def _learn(table: Table, runner: Runner, able: list[Member], notes: list[str]) -> tuple[list[Seat], list[Tensor]]:
    """Seats with even shares, and what each says out of fold."""
    seats: list[Seat] = []
    said: list[Tensor] = []
    total = len(able) * len(table.folds)
    limit = runner.deadline
    for number, member in enumerate(able):
        runner.deadline = limit if seats else None  # without one member there is no answer at all
        starts = next((seat.fitted for seat in seats if seat.name == member.starts_from), None)
        missing = member.starts_from is not None and starts is None
        cells = None if missing else runner.cells(member, starts, number * len(table.folds), total)
        if cells is None:
            notes.append(f"{member.title} left out: the time that was given was up before it had learned")
            continue
        seat, scores = _seated(table, member, cells)
        seats.append(seat)
        said.append(scores)
    return seats, [seat.scale(scores) for seat, scores in zip(seats, said, strict=True)]


def _seated(table: Table, member: Member, cells: list[Cell]) -> tuple[Seat, Tensor]:
    scores = out_of_fold(table, cells)
    look = best_look(table, member, scores)
    judged = table.rows.take(table.folds.judged)
    scale = _scale(scores[look], judged)
    curves = learning_curves(table, member, cells)
    curves["chosen"] = curves["ticks"][look]
    fitted = [cell.fitted.cut(look) for cell in cells]
    seconds = sum(cell.seconds for cell in cells)
    return Seat(member.name, member.title, fitted, scale, 0.0, look, seconds, curves), scores[look]


def _convened(
    table: Table, seats: list[Seat], said: list[Tensor], rule: str, kept: Tensor, notes: list[str]
) -> Committee:
    """Weights, final scale, threshold and promise from the out-of-fold scores."""
    rows = table.folds.judged
    judged, together = table.rows.take(rows), torch.stack(said)
    judge = Judge(table.objective, together, judged.y, judged.weights, judged.lists)
    shares = choose(rule, judge, table.seed)
    shares = torch.where(shares < SILENT, 0.0, shares)
    shares = shares / shares.sum()
    for seat, share in zip(seats, shares.tolist(), strict=True):
        seat.share = share
    mixture = mixed(together, shares)
    scale = _scale(mixture, judged)
    scores = scale(mixture)
    threshold = threshold_of(table.objective, scores, judged.y, judged.weights)
    promise = promised(rule, judge, table.seed)
    record = OutOfFold(kept[rows], judged.y, judged.weights, table.folds.numbers, together, scores, judged.lists)
    return Committee(table.objective, table.outputs, seats, scale, threshold, promise, record, notes)


def _scale(scores: Tensor, rows: Rows) -> Scale:
    return Scale.fit(scores, rows.y, rows.weights) if rows.lists is None else Scale.of_lists(scores, rows.lists)
