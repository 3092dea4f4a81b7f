"""Pages are read on the site and in the repository alike: what differs between the two is settled here.

- Links to files outside `docs/` that the site has as pages of its own lead to those pages.
- The line `{{other pages}}` in the start page's menu stands for every page of `docs/` that the menu does not name, so
  that a new page is on the site without anybody's help; `{{readme}}` is README as far as its list of pages.
- The words of the glossary are index entries of the page that each leads to, which the site's search finds first.
- The gallery begins with its pictures in small.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

#: Files beside `docs/` that are pages of the site.
ELSEWHERE = {
    "EVIDENCE.md": "evidence.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
MARK = "{{other pages}}"
README = "{{readme}}"


def site_links(text: str, depth: int) -> str:
    """`](../EVIDENCE.md)` → `](evidence.md)`, from `depth` folders below `docs/`."""
    up = "../" * (depth + 1)
    for file, page in ELSEWHERE.items():
        text = text.replace(f"]({up}{file}", f"]({'../' * depth}{page}")
    return text


def start_page(index: str, readme: str) -> str:
    """The start page with README up to its list of pages, which the menu is here."""
    text = readme.partition("\n## More\n")[0].replace("](docs/", "](")
    for file, page in ELSEWHERE.items():
        text = text.replace(f"]({file}", f"]({page}")
    return index.replace(README, text)


def other_pages(index: str, folder: Path) -> str:
    """The start page with the menu completed."""
    named = set(re.findall(r"^(?:[^<\n]+ <)?([a-z_]+)>?$", index, re.MULTILINE)) | {"index"}
    others = sorted(path.stem for path in folder.glob("*.md") if path.stem not in named)
    return index.replace(MARK, "\n".join(others))


def words_of_pages(glossary: str) -> dict[str, list[str]]:
    """Page → words of the glossary whose first link leads to it."""
    found: dict[str, list[str]] = {}
    for words, page in re.findall(r"^\| (.+?) \| .+? \| \[[^\]]+\]\((\S+?)\.md", glossary, re.MULTILINE):
        each = (word.strip() for word in re.split(r"[,;()]", words))
        found.setdefault(page, []).extend(word for word in each if word and word != "word")
    return found


@cache
def _glossary(folder: Path) -> dict[str, list[str]]:
    return words_of_pages((folder / "glossary.md").read_text(encoding="utf8"))


def with_words(text: str, words: list[str]) -> str:
    """The page with its words as main index entries, behind its title; an included page gets them before it."""
    entries = "```{index} " + ", ".join(f"! {word}" for word in words) + "\n```\n"
    title, line, rest = text.partition("\n") if text.startswith("# ") else ("", "", text)
    return f"{title}{line}\n{entries}\n{rest}"


def thumbnails(text: str) -> str:
    """The gallery with its pictures in small before the first of them, each leading to its own."""
    shown = re.findall(r"^## (.+?)\n(?:(?!^## ).*\n)*?!\[[^\]]*\]\((\S+?)\)$", text, re.MULTILINE)
    cards = [
        f':::{{grid-item-card}} {title}\n:img-top: {picture}\n:link: "{_anchor(title)}"\n:link-type: url\n'
        ":class-title: small\n:::\n"
        for title, picture in shown
    ]
    grid = "::::{grid} 2 3 4 4\n:gutter: 2\n\n" + "\n".join(cards) + "::::\n\n"
    return text.replace("## ", grid + "## ", 1)


def _anchor(title: str) -> str:
    return "#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def read(app: Any, docname: str, source: list[str]) -> None:
    folder = Path(app.srcdir)
    source[0] = site_links(source[0], docname.count("/"))
    if docname == "index":
        readme = (folder.parent / "README.md").read_text(encoding="utf8")
        source[0] = start_page(other_pages(source[0], folder), readme)
    if docname == "gallery":
        source[0] = thumbnails(source[0])
    if words := _glossary(folder).get(docname):
        source[0] = with_words(source[0], words)


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
