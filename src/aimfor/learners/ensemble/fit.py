"""Fitting an ensemble: every row trains, every row is held out once, and the metric sets the weights of members."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...targets.classes import HIGHEST_GRADE
from ...targets.folds import Folds, make_folds, make_list_folds, make_time_folds
from ...targets.objective import Objective
from ..networks.loop import never_stop
from .cells import Cell, MemberFailed, MemoryStore, Progress, Runner, Store, Table
from .choices import Choosing, MemberOutput, learning_curves
from .ensemble import Ensemble, OutOfFold, WeightedMember
from .members import FOR_TABLES, Fitted, Member, Rows
from .members import members as of_kinds


def fit_ensemble(
    x: Tensor,
    y: Tensor,
    objective: Objective,
    *,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    lists: Tensor | None = None,
    times: Tensor | None = None,
    outputs: int | None = None,
    levels: tuple[int, ...] = (),
    kinds: tuple[Any, ...] = FOR_TABLES,
    members: tuple[Member, ...] | None = None,
    seed: int = 0,
    folds: int | Folds | None = None,
    single: bool = False,
    first_member_only: bool = False,
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
        times: ``(n,)``; folds learn from rows before those they hold out, and the members that stay from all rows.
        outputs: Scores per row; by default 1 for a binary metric, else the number of classes.
        levels: Columns of ``x`` that hold numbers of levels: members see what the target says about each instead.
        kinds: Of members: ``linear``, ``trees``, ``network``; `FOR_FEATURES` for features of a pretrained network;
            scikit-learn classifiers, which learn from the encoded columns.
        members: Members themselves, instead of kinds.
        seed: Decides folds and everything random.
        folds: Their number, by default 5, or 10 under 1,000 rows; or the folds themselves.
        single: One split instead of folds.
        first_member_only: Only the first member of the kinds.
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
    rows = Rows(x, y, weights, lists, groups).take(kept)
    if isinstance(folds, Folds):
        parts = folds
    elif times is not None:
        parts = make_time_folds(times[kept], rows.y, rows.clusters, 1 if single else folds)
    elif rows.lists is not None:
        parts = make_list_folds(rows.lists, rows.y, seed, folds, single)
    else:
        parts = make_folds(rows.y, seed, None if groups is None else groups[kept], folds, single)
    table = Table(rows, parts, objective, outputs, seed, levels)
    notes += table.folds.notes
    runner = Runner(table, store or MemoryStore(), workers, report, stop)
    if minutes is not None:
        runner.deadline = time.monotonic() + 60.0 * minutes
    try:
        wanted = (members or of_kinds(kinds, objective.ranked))[: 1 if first_member_only else None]
        outputs_of, cells_of = _learn(table, runner, _able(table, wanted, notes), notes)
    finally:
        runner.close()
    return _assembled(table, outputs_of, cells_of, kept, notes)


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
) -> tuple[list[MemberOutput], list[list[Cell]]]:
    """Members that learned in time and tell rows apart: their out-of-fold scores and their cells."""
    outputs: list[MemberOutput] = []
    cells_of: dict[str, list[Cell]] = {}
    left_out: dict[str, str] = {}
    limit = runner.deadline
    for number, member in enumerate(able):
        runner.deadline = limit if outputs else None  # without one member there is no answer at all
        starts = None
        if member.starts_from in cells_of:
            starts = _at_best(table, outputs[list(cells_of).index(member.starts_from)], cells_of[member.starts_from])
        elif member.starts_from is not None:
            left_out[member.title] = "it starts from a member that was left out"
            continue
        try:
            cells = runner.cells(member, starts, number * table.cells, len(able) * table.cells)
        except MemberFailed as failure:
            left_out[member.title] = str(failure)
            continue
        if cells is None:
            left_out[member.title] = "the time limit was reached before it had learned"
            continue
        cells_of[member.name] = cells
        outputs.append(MemberOutput.of(table, member, cells[: len(table.folds)]))
    useful = [_tells_rows_apart(table, output) for output in outputs]
    if any(useful):  # where no member tells rows apart there is nothing to learn, and the metric says so
        same = [output.member.title for output, tells in zip(outputs, useful, strict=True) if not tells]
        left_out |= dict.fromkeys(same, "it says the same of every row")
        outputs = [output for output, tells in zip(outputs, useful, strict=True) if tells]
    notes += [f"{title} left out: {reason}" for title, reason in left_out.items()]
    if not outputs:
        raise InputError("--members", "none that learned: " + "; ".join(notes), "at least one")
    return outputs, [cells_of[output.member.name] for output in outputs]


def _tells_rows_apart(table: Table, output: MemberOutput) -> bool:
    """Whether a member says different things of two rows of any fold, at any checkpoint."""
    held = [output.scores[:, table.folds.numbers == fold] for fold in range(len(table.folds))]
    return any(bool((scores != scores[:, :1]).any()) for scores in held)


def _at_best(table: Table, output: MemberOutput, cells: list[Cell]) -> list[Fitted]:
    """The fitted member of each fold at the checkpoint that all held-out rows together like best."""
    checkpoint = output.best(table.objective, table.rows.take(table.folds.covered))
    return [cell.fitted.at(checkpoint) for cell in cells]


def _assembled(
    table: Table, outputs: list[MemberOutput], cells_of: list[list[Cell]], kept: Tensor, notes: list[str]
) -> Ensemble:
    """All choices by all out-of-fold scores, and what to expect of them by choices made without each part."""
    rows = table.folds.covered
    covered, objective = table.rows.take(rows), table.objective
    choosing = Choosing(outputs, covered, objective, table.seed)
    everywhere = choosing.everywhere
    chosen = choosing.on(everywhere)
    final = slice(0 if table.folds.trained is None else len(table.folds), None)  # in time: those that saw all rows
    levels = [table.levels_of(fold)[0] for fold in range(table.cells)[final]] if table.levels else []
    members = []
    for number, (output, cells) in enumerate(zip(outputs, cells_of, strict=True)):
        member, checkpoint = output.member, chosen.checkpoints[number]
        curves = learning_curves(table, member, cells[: len(table.folds)])
        members.append(
            WeightedMember(
                member.name,
                member.title,
                [cell.fitted.at(min(checkpoint, cell.fitted.checkpoints - 1)) for cell in cells[final]],
                choosing.scale(number, checkpoint),
                float(chosen.shares[number]),
                checkpoint,
                sum(cell.seconds for cell in cells),
                {**curves, "chosen": curves["ticks"][checkpoint]},
                levels,
            )
        )
    judged = choosing.judged(table.folds, chosen.scale)
    record = OutOfFold(
        kept[rows],
        covered.y,
        covered.weights,
        table.folds.numbers,
        choosing.members(chosen.checkpoints, everywhere),
        choosing.scores(chosen, everywhere),
        covered.lists,
        judged,
    )
    expected = math.nan if judged is None else judged.value(objective, covered)
    return Ensemble(objective, table.outputs, members, chosen.scale, chosen.threshold, expected, record, notes)


def check_lists(
    objective: Objective, lists: Tensor | None, y: Tensor, weights: Tensor | None, groups: Tensor | None
) -> None:
    """Raises `InputError` unless lists and objective belong together."""
    if objective.ranked != (lists is not None):
        came = "none for an objective of lists" if objective.ranked else f"some for {objective.name!r} of rows"
        raise InputError("lists", came, "lists with Objective.by_list(), and only there")
    if lists is None:
        return
    if lists.shape != y.shape or lists.dtype != torch.int64:
        raise InputError("lists", f"{lists.dtype} of shape {tuple(lists.shape)}", "one int64 list number for each row")
    if weights is not None or groups is not None:
        raise InputError("weights" if groups is None else "groups", "some with ranked lists", "none")
    if not objective.graded and len(y) and int(y.max()) > 1:
        raise InputError("y", f"grades up to {int(y.max())}", f"0 and 1 for {objective.name}", "Use (y > 0).long().")


def check_rows(
    x: Tensor, y: Tensor, weights: Tensor | None, groups: Tensor | None, outputs: int, notes: list[str]
) -> Tensor:
    """Numbers of the rows that count. Raises `InputError` before anything is done."""
    if x.ndim not in (2, 4) or x.dtype != torch.float32 or x.shape[1] == 0:
        wanted = "(n, d) float32 with at least one column, or pictures (n, c, h, w)"
        raise InputError("x", f"shape {tuple(x.shape)}, {x.dtype}", wanted)
    if not bool(x.isfinite().all()):
        raise InputError(
            "x", "values that are not finite", "an encoded matrix: missing values are filled by the encoder"
        )
    for name, values in (("y", y), ("weights", weights), ("groups", groups)):
        if values is not None and values.shape != (len(x),):
            raise InputError(name, f"shape {tuple(values.shape)}", f"({len(x)},), one for each row of x")
    last = max(2, outputs) - 1
    if y.dtype != torch.int64 or not len(y) or int(y.min()) < 0 or int(y.max()) > last:
        came = f"{y.dtype} {y.min().item()} … {y.max().item()}" if len(y) else "no rows"
        raise InputError("y", came, f"int64 class ids 0 … {last}")
    if weights is None:
        return torch.arange(len(x))
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise InputError("weights", "negative or infinite ones", "numbers of at least 0")
    kept = (weights > 0).nonzero().reshape(-1)
    if len(kept) < len(x):
        notes.append(f"{len(x) - len(kept)} rows of weight 0 left out")
    return kept
