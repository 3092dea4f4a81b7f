"""`aimfor train` on several labels, with a live line, a report and a few words at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from ...fitting.committee import Progress
from ..cli.bar import console
from ..cli.progress import learning
from ..data.features import Work
from ..report.page import between, number, render
from ..report.run import written
from ..run.folder import check_unchanged, read_source, stopped_run
from . import run as many
from .sheets import write_label_sheets


def reopen(folder: Path, work: Work) -> many.Ready:
    """A run to be continued. Raises `InputError` when it is finished or has other data now."""
    config, settings = stopped_run(folder)
    ready = many.prepare(settings, read_source(settings, work), work)
    check_unchanged(folder, config, ready.fingerprint)
    return ready


def finish(folder: Path, ready: many.Ready, quiet: bool) -> None:
    """Learns with a live line, writes the report and says how good it is."""
    with learning(folder, ready.notes, quiet) as (live, stop):
        line = live.add_task("training", total=len(ready.names), value="")

        def tell(name: str, progress: Progress) -> None:
            done = ready.names.index(name) + progress.done / max(1, progress.total)
            live.update(line, completed=done, value=f"{name}, {progress.title}")

        metrics = many.finish(folder, ready, tell, stop, write_label_sheets)
    write_many_report(folder)
    table, test = Table(box=None, show_header=False, pad_edge=False), metrics["test"]
    table.add_row(
        f"mean {metrics['metric']} on test pictures", f"{test['metric']:.4f} (95 %: {between(test['interval'])})"
    )
    for one in metrics["labels"]:
        row = _row(one)
        table.add_row(row["name"], f"{row['value']}, precision {row['precision']}, recall {row['recall']}")
    table.add_row("report", str(folder / "report.html"))
    console().print(table)


def write_many_report(folder: Path) -> Path:
    """report.html: the mean, and a row for each label."""
    return written(folder, _page)


def _page(metrics: dict[str, Any], config: dict[str, Any], sheets: list[dict[str, Any]]) -> str:
    return render(
        title=f"{Path(config['settings']['data']).name}: {len(metrics['labels'])} labels for {metrics['metric']}",
        subtitle=f"{metrics['pictures']['train']} training and {metrics['pictures']['test']} test pictures",
        metric=metrics["metric"],
        headline=[_head(metrics)],
        facts=[("model", config["settings"]["model"]), ("seconds", number(metrics["seconds"], 1))],
        notes=metrics["notes"],
        sheets=sheets,
        label_rows=[_row(one) for one in metrics["labels"]],
    )


def _head(metrics: dict[str, Any]) -> tuple[str, str, str]:
    test = metrics["test"]
    return f"mean {metrics['metric']}, test", number(test["metric"]), f"95 %: {between(test['interval'])}"


def _row(one: dict[str, Any]) -> dict[str, str]:
    return {
        "name": str(one["label"]),
        "value": number(one["value"]),
        "width": f"{8 * max(0.0, min(1.0, one['value'] or 0.0)):.2f}",
        "positives": str(one["positives"]),
        "threshold": number(one["threshold"], 3),
        "precision": number(one["precision"], 3),
        "recall": number(one["recall"], 3),
    }
