"""The report of whatever a folder holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data import checkpoint
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
        text = render(
            **parts, remark=verdict(found), metric=found.metric, notes=found.notes, sheets=read_sheets(folder)
        )
    path = folder / "report.html"
    checkpoint.write_text(path, text)
    return path
