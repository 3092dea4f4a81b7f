"""report.html of whatever a folder holds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from shlex import quote
from typing import Any

from ..data import checkpoint
from ..data.settings import Settings
from ..runs.evaluation import (
    FINISHED,
    EnsembleEvaluation,
    LabelsEvaluation,
    NeighboursEvaluation,
    PixelsEvaluation,
    read_evaluation,
)
from ..runs.folder import check_sealed
from ..runs.sheets import read_sheets
from .comparison import comparison_page
from .ensemble import ensemble_page
from .page import number, render
from .pictures import labels_page, masks_page, neighbours_page
from .summary import verdict

PAGES: dict[type, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    EnsembleEvaluation: ensemble_page,
    LabelsEvaluation: labels_page,
    PixelsEvaluation: masks_page,
    NeighboursEvaluation: neighbours_page,
}


def write_report(folder: Path) -> Path:
    """Writes report.html anew. Raises `InputError` when the folder holds neither a finished run nor a comparison."""
    path, of_comparison = folder / "report.html", folder / "comparison.json"
    if of_comparison.exists():
        document = checkpoint.read_json(of_comparison)
        with checkpoint.reading(of_comparison):
            page = render(**comparison_page(document))
    else:
        check_sealed(folder)
        page = _page_of_run(folder)
    checkpoint.write_text(path, page)
    return path


def _page_of_run(folder: Path) -> str:
    evaluation, config = read_evaluation(folder), checkpoint.read_json(folder / "config.json")
    with checkpoint.reading(folder / FINISHED):
        page, settings = PAGES[type(evaluation)](evaluation, config), config["settings"]
        day = date.fromtimestamp((folder / FINISHED).stat().st_mtime).isoformat()
        facts = [("seconds", number(evaluation.seconds, 1)), ("command", command(settings)), ("finished", day)]
        page |= {"title": f"{Path(settings['data']).name}: {page['title']}", "facts": [*page["facts"], *facts]}
        page |= {"remark": verdict(evaluation), "metric": evaluation.metric, "notes": evaluation.notes}
        return render(**page, sheets=read_sheets(folder))


def command(settings: dict[str, Any]) -> str:
    """The words of `aimfor train` that these settings stand for; those that are as by default are left out.

    Example:
        >>> command({"data": "a b.csv", "metric": "f1", "target": "y", "members": ["linear", "trees"], "fast": True})
        "aimfor train 'a b.csv' --metric f1 --target y --members linear,trees --fast"
    """
    words = ["aimfor", "train", quote(str(settings["data"]))]
    for name, field in Settings.model_fields.items():
        value, default = settings.get(name, field.default), field.default
        value = tuple(value) if isinstance(value, list) else value
        option = "--" + name.removesuffix("_minutes").replace("_", "-")
        if name == "data" or value == default:
            continue
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif name == "column":
            words += [word for entry in value for word in (option, quote(entry))]
        else:
            words += [option, quote(",".join(value) if isinstance(value, tuple) else str(value))]
    return " ".join(words)
