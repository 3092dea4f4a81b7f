"""What a user sees while waiting: one live line per run, then the result in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Task as Line
from rich.table import Table
from rich.text import Text

from ..data.features import Work
from ..errors import Interrupted
from ..report.write import summary, verdict, write_report
from ..runs import driver
from ..runs.evaluation import FINISHED, EnsembleEvaluation
from ..runs.kinds import Step, Task
from ..runs.process import stop_on_signal
from .terminal import readable


def console() -> Console:
    """Output for people goes to stderr, so that pipelines get data alone. User text is never read as markup."""
    return Console(file=sys.stderr, markup=False, highlight=False, soft_wrap=True)


class TimeLeft(ProgressColumn):
    """About how long the rest will take, in words: from the tool's own estimate, else from the pace so far."""

    max_refresh = 0.5

    def render(self, task: Line) -> Text:
        given = task.fields.get("left")
        left = task.time_remaining if given is None else given
        return Text("" if task.finished or left is None else f"about {spoken(left)} left")


def spoken(seconds: float) -> str:
    """``75`` is "1 min 15 s"; hours are without seconds.

    Example:
        >>> spoken(8.2), spoken(75), spoken(5_400)
        ('8 s', '1 min 15 s', '1 h 30 min')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def bar(screen: Console, quiet: bool) -> Progress:
    """A bar with elapsed and remaining time; tasks carry a text ``value`` and may state their own ``left`` seconds."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[value]}"),
        TimeElapsedColumn(),
        TimeLeft(),
        console=screen,
        disable=quiet or not screen.is_terminal,
        transient=True,
    )


#: Exit code of a run that is finished and whose floor is not guaranteed.
UNGUARANTEED = 4


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


def finish(folder: Path, task: Task, quiet: bool, as_json: bool) -> None:
    """Goes on to the end with a live line, writes the report, and says what was found and where everything is."""
    screen = console()
    notes = list(task.notes)
    _print_notes(notes, quiet)
    try:
        with bar(screen, quiet) as live:
            line = live.add_task("training", total=1.0, value="")

            def tell(step: Step) -> None:
                how = {"completed": step.done, "total": step.total, "left": step.left}
                live.update(line, description=step.doing, value=step.value, **how)  # type: ignore[arg-type]

            evaluation = driver.finish(folder, task, tell)
    except Interrupted:
        screen.print(driver.how_to_go_on(folder))
        raise
    _print_notes([note for note in evaluation.notes if note not in notes], quiet)
    print(readable(verdict(evaluation), sys.stderr), file=sys.stderr)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")  # a path that is cut short is of no use
    for title, value in [*summary(evaluation), ("report", str(write_report(folder)))]:
        table.add_row(title, value)
    screen.print(table)
    certificate = getattr(evaluation.test, "certificate", None)
    if certificate is not None:
        print(readable(f"certificate, {certificate.text}", sys.stderr), file=sys.stderr)
    if as_json:
        print((folder / FINISHED).read_text(encoding="utf-8"))
    if isinstance(evaluation, EnsembleEvaluation) and evaluation.guaranteed is False:
        print(f"aimfor: finished, but {evaluation.threshold_text}", file=sys.stderr)
        raise typer.Exit(UNGUARANTEED)


def _print_notes(notes: list[str], quiet: bool) -> None:
    for note in () if quiet else notes:
        print(readable(f"note: {note}", sys.stderr), file=sys.stderr)
