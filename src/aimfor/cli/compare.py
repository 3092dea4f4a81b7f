"""What `aimfor compare` and `aimfor demo` do: run, print the table and the verdict, write the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..data import checkpoint
from ..data.backbones import is_backbone
from ..data.executors import cores, local_workers
from ..data.settings import Settings, settings
from ..report.write import write_report
from ..runs.compare.plan import BEST_OF_ALL, Plan, Results, add_choices, make_plan, run_plans, summarize
from ..runs.folder import new_folder
from ..runs.process import interrupt_on_signal, locked
from . import options
from .progress import bar, console, features
from .terminal import readable

#: Options that say where and how it runs, not what is compared.
_HOW = ("seeds", "jobs", "executor", "out", "json", "quiet")
#: Of `aimfor demo`: a floor so near to what the data can give that a threshold without a margin misses it.
DEMO = "recall@precision=0.97"
STOPPED = "Stopped; finished cells are kept in {folder}. Run the same command again to continue."


def settings_of(given: dict[str, Any]) -> list[Settings]:
    """Settings for each metric. Raises `InputError` for an option that is none."""
    options.check_model(given["model"])
    members = options.kinds_of(given["members"], features=is_backbone(given["model"]))
    same = {name: value for name, value in given.items() if name not in (*_HOW, "metric", "members")}
    return [settings(metric=metric, members=members, **same) for metric in given["metric"]]


def run(
    given: Sequence[Settings], seeds: int, executor: str | None, out: Path | None, quiet: bool
) -> tuple[Path, list[dict[str, Any]]]:
    """Compares for each metric in turn; all end in one folder and one report."""
    executor = executor or f"local:{cores()}"
    if local_workers(executor) is None:
        given = [_from_anywhere(of_metric) for of_metric in given]
    with features(Path("runs") if out is None else out.resolve().parent, quiet) as work:
        plans = [make_plan(of_metric, seeds, work) for of_metric in given]
    name = Path(given[0].data).name.split(".")[0]
    folder = new_folder(out, f"compare-{name}")
    with locked(folder), interrupt_on_signal(folder, STOPPED.format(folder=folder)):
        return folder, _compare(plans, given, folder, executor, quiet)


def _compare(
    plans: Sequence[Plan], given: Sequence[Settings], folder: Path, executor: str, quiet: bool
) -> list[dict[str, Any]]:
    screen = console()
    live = bar(screen, quiet)
    with live:
        line = live.add_task("cells", total=sum(len(plan.entrants) * plan.seeds for plan in plans), value="")

        def tell(done: int, total: int) -> None:
            live.update(line, completed=done, total=total, value=f"{done} of {total}")

        try:
            results = run_plans(plans, folder, executor, tell)
        except KeyboardInterrupt:
            screen.print(STOPPED.format(folder=folder))
            raise
    pairs = zip(results, plans, strict=True)
    summaries = [{**summarize(cells, plan), **_pictures(cells, plan)} for cells, plan in pairs]
    document = {"data": given[0].data, "settings": given[0].model_dump(), "parts": summaries}
    checkpoint.write_json(folder / "comparison.json", document)
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
    parts = [{name: value for name, value in summary.items() if name not in drawn} for summary in summaries]
    print(json.dumps({"folder": str(folder), "parts": parts}, indent=1))


def _from_anywhere(given: Settings) -> Settings:
    """With the data's full path: workers elsewhere stand in other directories."""
    path = Path(given.data)
    return given.model_copy(update={"data": str(path.resolve())}) if path.exists() else given


def _pictures(results: Results, plan: Plan) -> dict[str, Any]:
    """What the report draws: curves of every entrant by seed, and the first seed's test part of the chosen model."""
    complete = add_choices(results, plan)
    titles = {entrant.name: entrant.title for entrant in plan.entrants} | {BEST_OF_ALL: "chosen on validation"}
    first = complete[BEST_OF_ALL][plan.settings.seed]
    curves = {
        title: [cell["test"]["curves"] for cell in complete[name].values()]
        for name, title in titles.items()
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
        points = [f"{100 * row[name]:+.2f}" for name in ("difference", "low", "high") if "difference" in row]
        apart = f"{points[0]} [{points[1]}, {points[2]}]" if points else ""
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
