"""What `aimfor compare` and `aimfor demo` do: run, print the table and the verdict, write the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from ..data import checkpoint
from ..data.executors import cores, local_workers
from ..data.settings import Settings
from ..runs.compare.plan import BEST_OF_ALL, Plan, Results, add_choices, make_plan, run_plans, summarize
from ..runs.folder import new_folder
from ..runs.lock import locked
from ..runs.signals import interrupt_on_signal
from .progress import bar, console, features
from .words import readable

#: Of `aimfor demo`: a floor so near to what the data can give that a threshold without a margin misses it.
DEMO = "recall@precision=0.97"
STOPPED = "Stopped; finished cells are kept in {folder}. Run the same command again to continue."


def run(
    given: Sequence[Settings], seeds: int, executor: str | None, out: Path | None, quiet: bool
) -> tuple[Path, list[dict[str, Any]]]:
    """Compares for each metric in turn; all end in one folder and one report."""
    executor = executor or f"local:{cores()}"
    if local_workers(executor) is None:
        given = [_from_anywhere(settings) for settings in given]
    with features(Path("runs") if out is None else out.resolve().parent, quiet) as work:
        plans = [make_plan(settings, seeds, work) for settings in given]
    name = Path(given[0].data).name.split(".")[0]
    folder = new_folder(out, f"compare-{name}")
    with locked(folder / ".lock"), interrupt_on_signal(folder, STOPPED.format(folder=folder)):
        return folder, _compare(plans, given, folder, executor, quiet)


def _compare(
    plans: Sequence[Plan], given: Sequence[Settings], folder: Path, executor: str, quiet: bool
) -> list[dict[str, Any]]:
    screen = console()
    live = bar(screen, quiet)
    with live:
        line = live.add_task("cells", total=sum(len(plan.entrants) * plan.seeds for plan in plans), value="")
        try:
            everything = run_plans(plans, folder, executor, partial(_tick, live, line))
        except KeyboardInterrupt:
            screen.print(STOPPED.format(folder=folder))
            raise
    summaries = [{**summarize(one, plan), **_pictures(one, plan)} for one, plan in zip(everything, plans, strict=True)]
    document = {"data": given[0].data, "settings": given[0].model_dump(), "parts": summaries}
    checkpoint.write_json(folder / "comparison.json", document)
    from ..report.write import write_report

    write_report(folder)
    return summaries


def show(folder: Path, summaries: Sequence[dict[str, Any]]) -> None:
    """The tables and the verdicts, for the terminal."""
    for summary in summaries:
        _print(summary)
    print(f"\nReport: {folder / 'report.html'}")


def show_json(folder: Path, summaries: Sequence[dict[str, Any]]) -> None:
    """The same for a program: tables and verdicts without what only the report draws."""
    drawn = ("curves", "example")
    parts = [{name: value for name, value in one.items() if name not in drawn} for one in summaries]
    print(json.dumps({"folder": str(folder), "parts": parts}, indent=1))


def _from_anywhere(settings: Settings) -> Settings:
    """With the data's full path: workers elsewhere stand in other directories."""
    path = Path(settings.data)
    return settings.model_copy(update={"data": str(path.resolve())}) if path.exists() else settings


def _tick(live: Progress, line: TaskID, done: int, total: int) -> None:
    live.update(line, completed=done, total=total, value=f"{done} of {total}")


def _pictures(results: Results, plan: Plan) -> dict[str, Any]:
    """What the report draws: curves of every entrant by seed, and the first seed's test part of the chosen model."""
    complete = add_choices(results, plan)
    shown = [one.name for one in plan.entrants] + [BEST_OF_ALL]
    titles = {one.name: one.title for one in plan.entrants} | {BEST_OF_ALL: "chosen on validation"}
    first = complete[BEST_OF_ALL][plan.settings.seed]
    curves = {
        titles[name]: [one["test"]["curves"] for one in complete[name].values()]
        for name in shown
        if "curves" in next(iter(complete[name].values()))["test"]
    }
    return {
        "curves": curves,
        "example": {key: first[key] for key in ("test", "threshold", "classes", "entrant", "notes")},
    }


def _print(summary: dict[str, Any]) -> None:
    """The verdict first, then the numbers; what 80 columns have no room for is in the report."""
    first, *others = summary["verdicts"]
    print("\n" + readable(first))
    table = Table(
        title=f"\n{summary['metric']} on test rows, mean ± deviation over {summary['seeds']} paired seeds and splits",
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for head in ("model", "test", "points above rival", "seconds"):
        table.add_column(head, justify="left" if head == "model" else "right", no_wrap=head != "model")
    for row in summary["table"]:
        apart = "" if "difference" not in row else f"{100 * row['difference']:+.2f} {_between(row)}"
        test = f"{row['test']:.4f} ± {row['deviation']:.4f}"
        table.add_row(row["title"], test, apart, f"{row['seconds']:.1f}")
    screen = Console(markup=False, highlight=False)
    if not screen.is_terminal:
        screen.width = 110
    screen.print(table)
    for sentence in others:
        print(readable(f"→ {sentence}"))
    for sentence in summary["skipped"]:
        print(readable(f"  not tried: {sentence}"))


def _between(row: dict[str, Any]) -> str:
    return f"[{100 * row['low']:+.2f}, {100 * row['high']:+.2f}]"
