"""The site's own code: every public name has its place in the API reference, and every page its place in the menu."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import aimfor

DOCS = Path(__file__).parent.parent / "docs"


def extension(name: str) -> ModuleType:
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


api_pages, site_sources = extension("api_pages"), extension("site_sources")


def test_every_public_name_is_in_the_reference() -> None:
    pages = api_pages.pages()
    for package in (*aimfor._PACKAGES, *api_pages.IMPORTED):
        assert any(page == f"aimfor.{package}" or page.startswith(f"aimfor.{package}.") for page in pages)
    whole = "\n".join(pages.values())
    for page, text in pages.items():
        for name in importlib.import_module(page).__all__:
            entry = re.search(rf"(::|`{name} <)\s*(aimfor[\w.]*\.{name})\b", text)
            assert entry, f"{page}.{name}"
            if entry[1] != "::":  # a line of the table: what it leads to has an entry
                assert re.search(rf":: {re.escape(entry[2])}\n", whole), entry[2]


def test_an_undocumented_name_stops_the_build() -> None:
    module = ModuleType("aimfor.made_up")

    class Bare:
        pass

    vars(module).update(Bare=Bare, __all__=["Bare"])
    with pytest.raises(ValueError, match=r"aimfor\.made_up\.Bare is public and has no docstring"):
        api_pages._page(module, {})
    del module.__all__
    with pytest.raises(ValueError, match=r"has no __all__"):
        api_pages._page(module, {})


def test_formulas_in_docstrings_are_shown_as_they_are_written() -> None:
    lines = ["What it solves:", "", "    min |w|", "", "Args:", "    x: A number."]
    api_pages.keep_formulas(None, "class", "", None, None, lines)
    assert lines[0] == "What it solves::"
    assert lines[4] == "Args:"


def test_links_out_of_docs_lead_to_the_sites_own_pages() -> None:
    assert site_sources.site_links("[e](../EVIDENCE.md#x)", 0) == "[e](evidence.md#x)"
    assert site_sources.site_links("[e](../../EVIDENCE.md)", 1) == "[e](../evidence.md)"
    assert site_sources.site_links("[e](../pyproject.toml)", 0) == "[e](../pyproject.toml)"


def test_a_new_page_enters_the_menu_by_itself(tmp_path: Path) -> None:
    for name in ("index", "known", "new_page"):
        (tmp_path / f"{name}.md").write_text("# x")
    menu = site_sources.other_pages("known\n{{other pages}}\n", tmp_path)
    assert menu == "known\nnew_page\n"
    titled = site_sources.other_pages("What we know <known>\n{{other pages}}\n", tmp_path)
    assert titled == "What we know <known>\nnew_page\n"


def test_every_link_between_pages_leads_somewhere() -> None:
    """Without Sphinx: files exist, and headings that are linked to are there."""
    for page in [*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), DOCS.parent / "README.md"]:
        if page.parent.name == "api":
            continue
        for target in re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
