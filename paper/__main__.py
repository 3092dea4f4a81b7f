"""``python -m paper``: repeat the experiments, rebuild their reports, write EVIDENCE.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from aimfor.errors import AimforError, InputError

from . import NAMES
from .experiment import Cell, Experiment, Options, find_data
from .run import Outcome, load, run


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Experiments to run; 'map' for the regimes of the map, 'all' for every one."),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Paired seeds (default: the experiment's own).")] = None,
    budget: Annotated[float | None, typer.Option(min=0, help="Start no cell after so many seconds.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of data sets (default: AIMFOR_DATA).")] = None,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("paper") / "results",
    full: Annotated[bool, typer.Option("--full", help="The papers' own sizes.")] = False,
    device: Annotated[str, typer.Option(help="Where to train.")] = "cpu",
    model: Annotated[str | None, typer.Option(help="Network of the Meng experiments, e.g. resnet18.")] = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="Write EVIDENCE.md from cached cells and stop.")] = False,
    cached_only: Annotated[bool, typer.Option("--cached-only", help="Only rebuild reports from cached cells.")] = False,
) -> None:
    """Repeat the papers' experiments on real data. Stopped runs go on where they stopped."""
    console = Console()
    if evidence:
        from .evidence import write

        write(out, Path("EVIDENCE.md"))
        console.print(f"EVIDENCE.md, from the cells in {out}")
        return
    if show_list or not names:
        console.print(_listing())
        return
    try:
        groups = {"all": list(NAMES), "map": [name for name in NAMES if name.startswith("map_")]}
        experiments = [load(name) for word in names for name in groups.get(word, [word])]
        folder = None if cached_only and data is None else find_data(data)
        failed = False
        for experiment in experiments:
            options = Options(seeds if seeds is not None else experiment.seeds, folder, full, device, model)
            outcome = _run_with_bar(console, experiment, options, out, budget, cached_only)
            failed = _tell(console, experiment, outcome, out, cached_only) or failed
    except AimforError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {error}", soft_wrap=True, highlight=False)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from None
    except KeyboardInterrupt:
        console.print("Stopped. Finished cells are kept; run the same command to go on.")
        raise typer.Exit(130) from None
    if failed:
        raise typer.Exit(1)


def _listing() -> Table:
    table = Table("name", "what", "from", "seeds")
    for name in NAMES:
        experiment = load(name)
        table.add_row(name, experiment.title, experiment.paper, str(experiment.seeds))
    return table


def _run_with_bar(
    console: Console, experiment: Experiment, options: Options, out: Path, budget: float | None, cached_only: bool
) -> Outcome:
    columns = (
        TextColumn("{task.fields[name]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", name=experiment.name, total=None)

        def show(done: int, total: int, cell: Cell | None) -> None:
            text = "" if cell is None else ", ".join(f"{key} {value}" for key, value in cell.items())
            bar.update(task, completed=done, total=total, description=text[:80])

        return run(experiment, options, out, budget=budget, cached_only=cached_only, progress=show)


def _tell(console: Console, experiment: Experiment, outcome: Outcome, out: Path, cached_only: bool) -> bool:
    """Says how the run went; True when a cell failed."""
    total = len(outcome.finished) + len(outcome.left) + len(outcome.failed)
    console.print(f"{experiment.name}: {len(outcome.finished)} of {total} cells, in {out / experiment.name}")
    if outcome.left:
        reason = "not cached" if cached_only else "left when the budget ran out"
        again = "" if cached_only else "; run the same command to go on"
        console.print(f"  {len(outcome.left)} cells {reason}{again}")
    for cell, error in outcome.failed:
        console.print(f"  [red]failed[/] {cell}: {type(error).__name__}: {error}", soft_wrap=True, highlight=False)
    return bool(outcome.failed)


if __name__ == "__main__":
    typer.run(reproduce)
