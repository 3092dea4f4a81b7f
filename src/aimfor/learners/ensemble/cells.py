"""The cells of an ensemble, member by fold: each a pure function of the data and its name, run once and kept."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ...data import checkpoint
from ...data.executors import TRIES, end_with_parent, process_pool
from ...errors import AimforError, Interrupted
from ...targets.folds import Folds
from ...targets.objective import Objective
from ..networks.loop import never_stop
from .levels import Levels
from .members import Fitted, Job, Member, Rows

Kept = tuple[dict[str, Tensor], dict[str, Any]]


class Store(Protocol):
    """Named tensors with JSON facts. A name that was never put is None.

    Example:
        >>> class Nowhere:
        ...     def get(self, name): return None
        ...     def put(self, name, tensors, facts): pass
        >>> store: Store = Nowhere()
    """

    def get(self, name: str) -> Kept | None: ...

    def put(self, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None: ...


class MemoryStore:
    """Forgets with the process.

    Example:
        >>> import torch
        >>> store = MemoryStore()
        >>> store.put("linear-0", {"weight": torch.ones(2)}, {"seconds": 0.1})
        >>> store.get("linear-0")[1], store.get("linear-1")
        ({'seconds': 0.1}, None)
    """

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def get(self, name: str) -> Kept | None:
        return self.kept.get(name)

    def put(self, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.kept[name] = (tensors, facts)


class FolderStore:
    """One safetensors file per cell, written whole or not at all; a damaged one is named, not used.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FolderStore(Path(folder)).put("linear-0", {"weight": torch.ones(2)}, {"seconds": 0.1})
        ...     FolderStore(Path(folder)).get("linear-0")
        ({'weight': tensor([1., 1.])}, {'seconds': 0.1})
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str) -> Kept | None:
        path = self._path(name)
        return checkpoint.load(path) if path.exists() else None

    def put(self, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(self._path(name), tensors, facts)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"


#: What the members import on their way.
IMPORTED = (__name__, "lightgbm", "sklearn.linear_model", "torch._dynamo")


@dataclass(frozen=True)
class Table:
    """All that cells depend on besides their own names.

    Attributes:
        rows: All labelled rows.
        folds: Which of them are held out where.
        objective: The metric.
        outputs: 1 for one score per row, else the number of classes.
        seed: Decides everything random.
        levels: Columns that hold numbers of levels.
    """

    rows: Rows
    folds: Folds
    objective: Objective
    outputs: int
    seed: int
    levels: tuple[int, ...] = ()

    @property
    def cells(self) -> int:
        """Of a member: one a fold, and where folds follow time one more, which learns from all rows and is kept."""
        return len(self.folds) + (self.folds.trained is not None)

    def trained(self, fold: int) -> Rows:
        every = fold == len(self.folds)
        return self.rows if every else self.rows.take(self.folds.train(fold))

    def held(self, fold: int) -> Rows:
        return self.rows.take(self.folds.held[min(fold, len(self.folds) - 1)])

    def seed_of(self, fold: int) -> int:
        return (self.seed * 1009 + fold) % 2**31

    def levels_of(self, fold: int) -> tuple[Levels, Rows]:
        """Statistics of levels from the fold's training rows, and those rows with statistics of others."""
        return Levels.fit(self.trained(fold), self.levels, self.outputs, self.seed_of(fold))

    def key(self, member: Member) -> str:
        """A name that changes whenever a cell of this member could."""
        total = hashlib.sha256()
        for tensor in (self.rows.x, self.rows.y, self.rows.weights, *self.folds.held, *(self.folds.trained or ())):
            total.update(b"-" if tensor is None else tensor.contiguous().numpy().tobytes())
        if self.rows.lists is not None:
            total.update(self.rows.lists.contiguous().numpy().tobytes())
        metric = self.objective.name if member.chosen_by_metric else ""
        own = {name: value for name, value in vars(member).items() if not name.startswith("_")}
        plain = [type(member).__name__, own, metric, self.outputs, self.seed, self.levels, self.cells]
        total.update(json.dumps(plain, sort_keys=True, default=str).encode())
        return total.hexdigest()[:24]


@dataclass
class Cell:
    """One member on one fold, after learning: at its checkpoints, with the scores of the held-out rows."""

    fitted: Fitted
    held_scores: Tensor  # (checkpoints, rows of the fold) or (checkpoints, rows, classes)
    seconds: float


class MemberFailed(AimforError):
    """A member could not learn on a fold, or says of rows what is no number; the others go on without it."""


@dataclass(frozen=True)
class Progress:
    """Where the ensemble stands, told after every cell.

    Example:
        >>> told = Progress("linear", "a linear model", 0, 5, 1, 15, seconds=2.0, left=28.0)
        >>> f"{told.done} of {told.total}, fold {told.fold + 1} of {told.folds}"
        '1 of 15, fold 1 of 5'
    """

    member: str
    title: str
    fold: int
    folds: int
    done: int
    total: int
    seconds: float
    left: float


@dataclass
class Runner:
    """Runs the cells of members in their order, and keeps each finished one.

    Args:
        table: The data.
        store: Where cells are kept.
        workers: Processes; 1 works in this one.
        report: Called after every cell.
        stop: Asked often; true ends with `Interrupted`.
        deadline: `time.monotonic()` after which no further member is begun or finished; None for no limit.
    """

    table: Table
    store: Store = field(default_factory=MemoryStore)
    workers: int = 1
    report: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] = never_stop
    deadline: float | None = None
    _pool: concurrent.futures.ProcessPoolExecutor | None = None

    def cells(self, member: Member, starts: list[Fitted] | None, after: int, total: int) -> list[Cell] | None:
        """All cells of a member, or None when time was up before the last of them.

        Args:
            member: Who learns.
            starts: The fitted members of each fold it starts from, where it names one.
            after: Cells done before, for the report.
            total: Cells in all.
        """
        folds, key = range(self.table.cells), self.table.key(member)
        done: dict[int, Cell] = {}
        for fold in folds:
            kept = self.store.get(f"{member.name}-{fold}")
            if kept is not None and kept[1]["key"] == key:
                done[fold] = _restored(member, *kept)
        todo = [fold for fold in folds if fold not in done]
        began = time.monotonic()
        for count, (fold, cell) in enumerate(self._run(member, todo, starts), start=1):
            tensors, facts = cell.fitted.state()
            tensors = {**tensors, "held_scores": cell.held_scores}
            self.store.put(f"{member.name}-{fold}", tensors, {"key": key, "seconds": cell.seconds, "fitted": facts})
            done[fold] = cell
            self._tell(member, fold, after + len(done), total, (time.monotonic() - began) / count)
        return [done[fold] for fold in folds] if len(done) == len(folds) else None

    def _tell(self, member: Member, fold: int, done: int, total: int, each: float) -> None:
        if self.report is not None:
            folds = self.table.cells
            progress = Progress(member.name, member.title, fold, folds, done, total, each, each * (total - done))
            self.report(progress)

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _run(self, member: Member, todo: list[int], starts: list[Fitted] | None) -> Iterator[tuple[int, Cell]]:
        if self.workers > 1 and len(todo) > 1:
            yield from self._spread(member, todo, starts)
            return
        for fold in todo:
            if self.stop():
                raise Interrupted("stopped; finished cells are kept")
            try:
                yield fold, run_cell(self.table, member, fold, starts[fold] if starts else None, self._stop_or_late)
            except Interrupted:
                if self._late() and not self.stop():
                    return
                raise

    def _stop_or_late(self) -> bool:
        return self.stop() or self._late()

    def _spread(self, member: Member, todo: list[int], starts: list[Fitted] | None) -> Iterator[tuple[int, Cell]]:
        """On the pool, and on another one when a worker dies, until that happens too often without a finished cell."""
        left, losses = list(todo), 0
        while left:
            try:
                for fold, cell in self._on_pool(member, list(left), starts):
                    left.remove(fold)
                    losses = 0
                    yield fold, cell
                return
            except BrokenProcessPool:
                self.close()
                losses += 1
                if losses == TRIES:
                    came = f"workers died {losses} times without finishing a cell; finished cells are kept"
                    remedy = "Continue where there is more memory: aimfor train --resume RUN"
                    raise AimforError(f"{came}. {remedy}") from None

    def _on_pool(self, member: Member, todo: list[int], starts: list[Fitted] | None) -> Iterator[tuple[int, Cell]]:
        """A stop kills the workers: what they were doing is done again, what they finished is kept."""
        if self._pool is None:
            self._pool = process_pool(self.workers, _hire, (self.table,), IMPORTED)
        waiting = {
            self._pool.submit(_work, member, fold, starts[fold].state() if starts else None): fold for fold in todo
        }
        try:
            while waiting:
                done, _ = concurrent.futures.wait(waiting, 0.1, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    fold = waiting.pop(future)
                    yield fold, _restored(member, *future.result())
                if self.stop() or self._late():
                    self.close()
                    if self.stop():
                        raise Interrupted("stopped; finished cells are kept")
                    return
        finally:
            for future in waiting:  # of a member that failed on another fold
                future.cancel()

    def close(self) -> None:
        """Ends the workers at once."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def run_cell(
    table: Table, member: Member, fold: int, start: Fitted | None = None, stop: Callable[[], bool] = never_stop
) -> Cell:
    """Learns on the fold's training rows and scores its held-out rows at every checkpoint.

    Raises:
        MemberFailed: The member could not.
    """
    began, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)  # the last bits must not depend on how many cores were free
    try:
        train, held = table.trained(fold), table.held(fold)
        if table.levels:
            levels, train = table.levels_of(fold)
            held = replace(held, x=levels(held.x))
        job = Job(train, held, table.objective, table.outputs, table.seed_of(fold), stop, start)
        try:
            fitted = member.fit(job)
            held_scores = torch.stack([fitted.scores(held.x, checkpoint) for checkpoint in range(fitted.checkpoints)])
        except (Interrupted, MemoryError):
            raise
        except Exception as error:
            message = " ".join(str(error).split())
            raise MemberFailed(f"it failed in fold {fold + 1}: {type(error).__name__}: {message}") from error
    finally:
        torch.set_num_threads(threads)
    if not bool(held_scores.isfinite().all()):
        raise MemberFailed(f"it says of rows of fold {fold + 1} what is no finite number")
    return Cell(fitted, held_scores, time.monotonic() - began)


def _restored(member: Member, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Cell:
    own = {name: tensor for name, tensor in tensors.items() if name != "held_scores"}
    return Cell(member.restore(own, facts["fitted"]), tensors["held_scores"], float(facts["seconds"]))


_hired: list[Table] = []


def _hire(table: Table) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    end_with_parent()
    _hired[:] = [replace(table)]


def _work(member: Member, fold: int, start: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    first = None if start is None else member.restore_start(*start)
    cell = run_cell(_hired[0], member, fold, first)
    tensors, facts = cell.fitted.state()
    return {**tensors, "held_scores": cell.held_scores}, {"seconds": cell.seconds, "fitted": facts}
