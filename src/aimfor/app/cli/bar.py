"""The live line that every long command shows: what is being done, how far it is, and about how long it will take."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


def console() -> Console:
    """Output for people goes to stderr, so that pipelines get data alone. User text is never read as markup."""
    return Console(file=sys.stderr, markup=False, highlight=False, soft_wrap=True)


class TimeLeft(ProgressColumn):
    """About how long the rest will take, in words: from the tool's own estimate, else from the pace so far."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
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
