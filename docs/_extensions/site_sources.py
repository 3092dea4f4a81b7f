"""Pages are read on the site and in the repository alike: what differs between the two is settled here.

- Links to files outside `docs/` that the site has as pages of its own lead to those pages.
- The line `{{other pages}}` in the start page's menu stands for every page of `docs/` that the menu does not name, so
  that a new page is on the site without anybody's help.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: Files beside `docs/` that are pages of the site.
ELSEWHERE = {
    "EVIDENCE.md": "evidence.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",
}
MARK = "{{other pages}}"


def site_links(text: str, depth: int) -> str:
    """`](../EVIDENCE.md)` → `](evidence.md)`, from `depth` folders below `docs/`."""
    up = "../" * (depth + 1)
    for file, page in ELSEWHERE.items():
        text = text.replace(f"]({up}{file}", f"]({'../' * depth}{page}")
    return text


def other_pages(index: str, folder: Path) -> str:
    """The start page with the menu completed."""
    named = set(re.findall(r"^(?:[^<\n]+ <)?([a-z_]+)>?$", index, re.MULTILINE)) | {"index"}
    others = sorted(path.stem for path in folder.glob("*.md") if path.stem not in named)
    return index.replace(MARK, "\n".join(others))


def read(app: Any, docname: str, source: list[str]) -> None:
    source[0] = site_links(source[0], docname.count("/"))
    if docname == "index":
        source[0] = other_pages(source[0], Path(app.srcdir))


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
