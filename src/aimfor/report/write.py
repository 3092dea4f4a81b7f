"""The report of whatever a folder holds."""

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
from .comparison import write_comparison_report
from .ensemble import ensemble_page
from .page import render
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
    if (folder / "comparison.json").exists():
        return write_comparison_report(folder)
    check_sealed(folder)
    found, config = read_evaluation(folder), checkpoint.read_json(folder / "config.json")
    with checkpoint.reading(folder / FINISHED):
        parts = PAGES[type(found)](found, config)
        parts["facts"] = [
            *parts["facts"],
            ("command", command(config["settings"])),
            ("finished", _day(folder / FINISHED)),
        ]
        text = render(
            **parts, remark=verdict(found), metric=found.metric, notes=found.notes, sheets=read_sheets(folder)
        )
    path = folder / "report.html"
    checkpoint.write_text(path, text)
    return path


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
            words += [word for one in value for word in (option, quote(one))]
        else:
            words += [option, quote(",".join(value) if isinstance(value, tuple) else str(value))]
    return " ".join(words)


def _day(path: Path) -> str:
    return date.fromtimestamp(path.stat().st_mtime).isoformat()
