"""What a user sees while waiting: one live line per run, then the result in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ...fitting import checkpoint
from ...fitting.committee import Progress as CellProgress
from ...fitting.loop import Interrupted
from ..data.features import Work
from ..run.evaluate import or_undefined
from ..run.evaluating import EVALUATING
from ..run.folder import Prepared
from ..run.lock import locked
from ..run.signals import stop_on_signal
from ..run.training import finish, how_to_go_on
from ..stream.prepare import Ready as StreamReady
from .bar import bar, console


@contextmanager
def features(runs: Path, quiet: bool) -> Iterator[Work]:
    """Work on pictures with a live line while their features are computed; Ctrl-C ends it after whole shards."""
    live = bar(console(), quiet)
    with stop_on_signal() as stop, live:
        line: list[Any] = []

        def tell(done: int, total: int) -> None:
            if not line:
                line.append(live.add_task("features", total=total, value=""))
            live.update(line[0], completed=done, value=f"{done} of {total} pictures")

        yield Work(runs, tell=tell, stop=stop)


@contextmanager
def telling(folder: Path, notes: Iterable[str], quiet: bool) -> Iterator[Progress]:
    """The notes, then a live bar. One that was stopped is told how to go on."""
    screen = console()
    for note in () if quiet else notes:
        screen.print(f"note: {note}")
    try:
        with bar(screen, quiet) as live:
            yield live
    except Interrupted:
        screen.print(how_to_go_on(folder))
        raise


@contextmanager
def learning(folder: Path, notes: Iterable[str], quiet: bool) -> Iterator[tuple[Progress, Callable[[], bool]]]:
    """The same with a question whether to stop, in a folder where nobody else works."""
    alone, asked = locked(folder / "config.json"), stop_on_signal(folder, how_to_go_on(folder))
    with telling(folder, notes, quiet) as live, alone, asked as stop:
        yield live, stop


def training(folder: Path, ready: Prepared, quiet: bool) -> None:
    """Trains with a live line, writes the report, and prints where everything is."""
    from ..report.run import write_run_report

    with telling(folder, ready.notes, quiet) as live:
        line = live.add_task("training", total=1.0, value="")
        metrics = finish(folder, ready, lambda event: live.update(line, **_of_cells(event)))
    write_run_report(folder)
    _summary(console(), folder, metrics)
    _end(folder)


def streaming(folder: Path, ready: StreamReady, quiet: bool) -> None:
    """The same for a table that is read as a stream."""
    from ..report.run import write_run_report
    from ..stream import run as stream

    with learning(folder, [*ready.notes, *stream.members_of(ready)[1]], quiet) as (live, stop):
        line = live.add_task("training", total=1.0, value="")
        metrics = stream.finish(folder, ready, lambda event: live.update(line, **_of_cells(event)), stop)
    write_run_report(folder)
    _summary(console(), folder, metrics)
    _end(folder)


#: Exit code of a run that is finished and whose floor is not guaranteed.
UNGUARANTEED = 4


def _end(folder: Path) -> None:
    """Says so, and ends with a code of its own, where the floor that was asked for is not guaranteed."""
    decision = checkpoint.read_json(folder / "threshold.json")
    if decision.get("guaranteed") is False:
        print(f"aimfor: finished, but {decision['tuned_on']}", file=sys.stderr)
        raise typer.Exit(UNGUARANTEED)


def _of_cells(event: CellProgress) -> dict[str, Any]:
    """The line while a committee learns, or while its columns are evaluated."""
    if event.member == EVALUATING:
        columns = f"{event.done} of {event.total} columns" if event.total else ""
        words, total = {"description": event.title, "value": columns}, max(1, event.total)
    else:
        title = f"{event.title}, fold {event.fold + 1} of {event.folds}"
        words, total = {"description": title, "value": f"{event.done} of {event.total} cells"}, event.total
    return {**words, "completed": event.done, "total": total, "left": event.left}


def _summary(screen: Console, folder: Path, metrics: dict[str, Any]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")  # a path that is cut short is of no use
    test = metrics["test"]
    table.add_row(f"{metrics['metric']} on test rows", or_undefined(test["metric"]))
    table.add_row(f"{metrics['metric']} estimated from rows not learned from", or_undefined(metrics["validation"]))
    if "queries" in test:
        table.add_row("test queries", f"{test['queries']['counted']} (of {test['n']} rows)")
    if "rates" in test:
        rates = test["rates"]
        both = ", ".join(f"{name} {or_undefined(rates[name], 3)}" for name in ("precision", "recall"))
        table.add_row("at the tuned threshold", both)
    weighted = sorted(metrics["committee"]["members"], key=lambda one: -one["weight"])
    table.add_row("members", ", ".join(f"{one['title']} {one['weight']:.2f}" for one in weighted if one["weight"] > 0))
    table.add_row("decisions" if "queries" in test else "threshold", metrics["threshold_text"])
    table.add_row("report", str(folder / "report.html"))
    screen.print(table)
    if "certificate" in test:
        screen.print(f"certificate, {test['certificate']['text']}")
