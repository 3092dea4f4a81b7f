"""What an experiment writes, ``table.md`` in its folder of results; and folds of longer pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def write_table(folder: Path, lines: Iterable[str]) -> None:
    """Replaces the experiment's page by these lines."""
    (folder / "table.md").write_text("\n".join(lines) + "\n", encoding="utf8")


def report_of(title: str, lines: Callable[[list[Any]], Iterable[str]]) -> Callable[[list[dict[str, Any]], Path], None]:
    """An experiment's report that is its title and these lines."""
    return lambda results, folder: write_table(folder, [f"# {title}", "", *lines(results)])


def folded(summary: str, lines: Iterable[str]) -> list[str]:
    """Lines behind a summary that opens them. Headings among them become bold: a fold lies within one section."""
    body = [re.sub(r"^#+ (.*)$", r"**\1**", line, flags=re.MULTILINE) for line in lines]
    return [f"<details><summary>{summary}</summary>", "", *body, "", "</details>", ""]
