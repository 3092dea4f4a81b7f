"""The report of whatever a folder holds."""

from __future__ import annotations

from pathlib import Path

from ..many.command import write_many_report
from ..masks.command import rewrite_mask_report
from ..retrieval.report import write_retrieval_report
from ..run.folder import kind_of
from .comparison import write_comparison_report
from .run import write_run_report


def write_report(folder: Path) -> Path:
    """Writes report.html anew. Raises `InputError` when the folder holds neither a run nor a comparison."""
    if (folder / "comparison.json").exists():
        return write_comparison_report(folder)
    kind = kind_of(folder)
    if kind == "masks":
        return rewrite_mask_report(folder)
    if kind == "many":
        return write_many_report(folder)
    if kind == "retrieval":
        return write_retrieval_report(folder)
    return write_run_report(folder)
