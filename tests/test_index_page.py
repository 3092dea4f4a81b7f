"""The page of a package index: no link of it is dead, with the repository's address or without."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import index_page as hook  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
HOME = "https://example.org/aimfor"


def metadata(monkeypatch: pytest.MonkeyPatch, address: str) -> dict[str, Any]:
    monkeypatch.setenv("AIMFOR_URL", address)
    found: dict[str, Any] = {}
    hook.IndexPage(str(ROOT), {}).update(found)
    return found


def places(text: str) -> list[str]:
    """Where Markdown's links and pictures lead, by a parser that is not the hook's."""
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt().enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or []]
    attributes = {"link_open": "href", "image": "src"}
    return [str(token.attrs[attributes[token.type]]) for token in inline if token.type in attributes]


def test_with_an_address_every_file_of_the_repository_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata(monkeypatch, HOME + "/")
    before, after = places(README), places(found["readme"]["text"])
    assert len(before) == len(after) > 20
    for old, new in zip(before, after, strict=True):
        assert new in (f"{HOME}/blob/main/{old}", f"{HOME}/raw/main/{old}")
        assert (ROOT / old.split("#")[0]).exists()
    assert f"{HOME}/raw/main/docs/report.png" in after
    for name, page in found["urls"].items():
        path = page.removeprefix(HOME).removeprefix("/blob/main/")
        assert name in ("Source", "Issues") or (ROOT / path).is_file(), page


def test_without_an_address_none_is_invented_and_the_words_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata(monkeypatch, "")
    text = found["readme"]["text"]
    assert found["urls"] == {}
    assert places(text) == []
    kept = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", README)
    assert re.findall(r"\w+", text) == re.findall(r"\w+", re.sub(r"\]\([^)\s]+\)", "]", kept))


@pytest.mark.parametrize(
    "text", ["`x[0](docs/a.md)`", "```python\nf[0](docs/a.md)\n```", "[a](https://b.org)", "[a](#b)"]
)
def test_code_and_outside_links_stay_as_they_are(text: str) -> None:
    assert hook.index_page(text, "") == text == hook.index_page(text, HOME)


def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="AIMFOR_URL: got 'aimfor', expected the repository's address"):
        metadata(monkeypatch, "aimfor")
