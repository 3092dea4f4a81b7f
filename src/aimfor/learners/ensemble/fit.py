"""Fitting an ensemble: every row trains, every row is held out once, and the metric sets the weights of members."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from ...errors import InputError
from ...targets.folds import Folds, make_folds, make_list_folds
from ...targets.grades import HIGHEST_GRADE
from ...targets.objective import Objective
from ..networks.loop import never_stop
from .cells import Cell, Progress, Runner, Table
from .checkpoints import best_checkpoint, learning_curves, out_of_fold
from .decide import cross_validated, threshold_of
from .ensemble import SILENT, Ensemble, OutOfFold, WeightedMember
from .gate import check_lists, check_rows
from .members import FOR_TABLES, Member, Rows
from .members import members as of_kinds
from .scale import Scale
from .store import MemoryStore, Store
from .weights import DEFAULT, Judge, choose, mixed


def fit_ensemble(
    x: Tensor,
    y: Tensor,
    objective: Objective,
    *,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    lists: Tensor | None = None,
    outputs: int | None = None,
    kinds: tuple[str, ...] = FOR_TABLES,
    members: tuple[Member, ...] | None = None,
    seed: int = 0,
    folds: int | Folds | None = None,
    single: bool = False,
    first_member_only: bool = False,
    rule: str = DEFAULT,
    store: Store | None = None,
    workers: int = 1,
    minutes: float | None = None,
    report: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] = never_stop,
) -> Ensemble:
    """Folds the rows, lets every member predict out of fold, and lets the metric weigh them.

    Args:
        x: ``(n, d)`` float32, encoded, not clipped; ``(n, c, h, w)`` for members that take pictures.
        y: ``(n,)`` class ids; 1 is the positive class of a binary metric.
        objective: The metric.
        weights: ``(n,)``, at least 0; rows of weight 0 are left out.
        groups: ``(n,)`` ids; rows of one group are never on both sides of a fold.
        lists: ``(n,)`` ids of ranked lists (queries), for an objective of `Objective.by_list`; ``y`` are grades then.
        outputs: Scores per row; by default 1 for a binary metric, else the number of classes.
        kinds: Of members: ``linear``, ``trees``, ``network``; `FOR_FEATURES` for features of a pretrained network.
        members: Members themselves, instead of kinds.
        seed: Decides folds and everything random.
        folds: Their number, by default 5, or 10 under 1,000 rows; or the folds themselves.
        single: One split instead of folds.
        first_member_only: Only the first member of the kinds.
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
        >>> found = fit_ensemble(x, y, Objective.of("auroc"), kinds=("linear",))
        >>> found.cross_validated > 0.99, found.decide(x[:2]).shape
        (True, torch.Size([2]))
    """
    outputs = outputs or (1 if objective.binary else int(y.max()) + 1 if len(y) else 1)
    notes: list[str] = []
    check_lists(objective, lists, y, weights, groups)
    kept = check_rows(x, y, weights, groups, HIGHEST_GRADE + 1 if objective.ranked else outputs, notes)
    rows = Rows(x, y, weights, lists).take(kept)
    if isinstance(folds, Folds):
        parts = folds
    elif rows.lists is not None:
        parts = make_list_folds(rows.lists, rows.y, seed, folds, single)
    else:
        parts = make_folds(rows.y, seed, None if groups is None else groups[kept], folds, single)
    table = Table(rows, parts, objective, outputs, seed)
    notes += table.folds.notes
    runner = Runner(table, store or MemoryStore(), workers, report, stop)
    if minutes is not None:
        runner.deadline = time.monotonic() + 60.0 * minutes
    try:
        wanted = (members or of_kinds(kinds, objective.ranked))[: 1 if first_member_only else None]
        weighted_members, out_of_fold_scores = _learn(table, runner, _able(table, wanted, notes), notes)
    finally:
        runner.close()
    return _assembled(table, weighted_members, out_of_fold_scores, rule, kept, notes)


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


def _learn(
    table: Table, runner: Runner, able: list[Member], notes: list[str]
) -> tuple[list[WeightedMember], list[Tensor]]:
    """Seats with even shares, and what each says out of fold."""
    weighted_members: list[WeightedMember] = []
    out_of_fold_scores: list[Tensor] = []
    total = len(able) * len(table.folds)
    limit = runner.deadline
    for number, member in enumerate(able):
        runner.deadline = limit if weighted_members else None  # without one member there is no answer at all
        starts = next((weighted.fitted for weighted in weighted_members if weighted.name == member.starts_from), None)
        missing = member.starts_from is not None and starts is None
        cells = None if missing else runner.cells(member, starts, number * len(table.folds), total)
        if cells is None:
            notes.append(f"{member.title} left out: the time limit was reached before it had learned")
            continue
        weighted, scores = _seated(table, member, cells)
        weighted_members.append(weighted)
        out_of_fold_scores.append(scores)
    return weighted_members, [
        weighted.scale(scores) for weighted, scores in zip(weighted_members, out_of_fold_scores, strict=True)
    ]


def _seated(table: Table, member: Member, cells: list[Cell]) -> tuple[WeightedMember, Tensor]:
    scores = out_of_fold(table, cells)
    checkpoint = best_checkpoint(table, member, scores)
    covered = table.rows.take(table.folds.covered)
    scale = _scale(scores[checkpoint], covered)
    curves = learning_curves(table, member, cells)
    curves["chosen"] = curves["ticks"][checkpoint]
    fitted = [cell.fitted.cut(checkpoint) for cell in cells]
    seconds = sum(cell.seconds for cell in cells)
    return WeightedMember(
        member.name, member.title, fitted, scale, 0.0, checkpoint, seconds, curves, member.columns
    ), scores[checkpoint]


def _assembled(
    table: Table,
    weighted_members: list[WeightedMember],
    out_of_fold_scores: list[Tensor],
    rule: str,
    kept: Tensor,
    notes: list[str],
) -> Ensemble:
    """Weights, final scale, threshold and promise from the out-of-fold scores."""
    rows = table.folds.covered
    covered, together = table.rows.take(rows), torch.stack(out_of_fold_scores)
    judge = Judge(table.objective, together, covered.y, covered.weights, covered.lists)
    shares = choose(rule, judge, table.seed)
    shares = torch.where(shares < SILENT, 0.0, shares)
    shares = shares / shares.sum()
    for weighted, share in zip(weighted_members, shares.tolist(), strict=True):
        weighted.share = share
    mixture = mixed(together, shares)
    scale = _scale(mixture, covered)
    scores = scale(mixture)
    threshold = threshold_of(table.objective, scores, covered.y, covered.weights)
    promise = cross_validated(rule, judge, table.seed)
    record = OutOfFold(kept[rows], covered.y, covered.weights, table.folds.numbers, together, scores, covered.lists)
    return Ensemble(table.objective, table.outputs, weighted_members, scale, threshold, promise, record, notes)


def _scale(scores: Tensor, rows: Rows) -> Scale:
    return Scale.fit(scores, rows.y, rows.weights) if rows.lists is None else Scale.of_lists(scores, rows.lists)
