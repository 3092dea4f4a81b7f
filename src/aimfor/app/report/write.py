"""The report of whatever a folder holds."""

from __future__ import annotations

from pathlib import Path

from .comparison import write_comparison_report
from .run import write_run_report


def write_report(folder: Path) -> Path:
    """Writes report.html anew. Raises `InputError` when the folder holds neither a run nor a comparison."""
    if (folder / "comparison.json").exists():
        return write_comparison_report(folder)
    return write_run_report(folder)
