"""What an experiment writes: ``table.md`` in its folder of results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def write_table(folder: Path, lines: Iterable[str]) -> None:
    """Replaces the experiment's page by these lines."""
    (folder / "table.md").write_text("\n".join(lines) + "\n", encoding="utf8")
