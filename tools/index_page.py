"""What a package index shows of the project: the README with links that work there, and the project's addresses.

A build hook (pyproject.toml names it). README's links lead to files of the repository, which an index page does not
have. Where the repository lives is said once, when a release is built:

    AIMFOR_URL=https://… python -m build

Its links then are absolute, and the page has the addresses of source, documentation, changelog and issues. Without it
no address is invented: links become their words and pictures are left out, so that nothing on the page is dead.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?P<place>[^)\s]+)\)")
OUTSIDE = ("https://", "http://", "mailto:", "#")


def index_page(readme: str, address: str) -> str:
    """The README for an index page: links are absolute where `address` is known, else they are their words alone."""

    def absolute(found: re.Match[str]) -> str:
        picture, words, place = found["picture"], found["words"], found["place"]
        if place.startswith(OUTSIDE):
            return found[0]
        if address:
            return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/main/{place})"
        return "" if picture else words

    # Code stays as it is: in it [a](b) would be an index and a call.
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", readme, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("`") else LINK.sub(absolute, part) for part in parts)


def addresses(address: str) -> dict[str, str]:
    if not address:
        return {}
    files = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md", "Evidence": "EVIDENCE.md"}
    pages = {name: f"{address}/blob/main/{place}" for name, place in files.items()}
    return {"Source": address, **pages, "Issues": f"{address}/issues"}


class IndexPage(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        address = os.environ.get("AIMFOR_URL", "").rstrip("/")
        if address and not address.startswith("https://"):
            raise ValueError(f"AIMFOR_URL: got {address!r}, expected the repository's address, https://…")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_page(text, address)}
        metadata["urls"] = addresses(address)
