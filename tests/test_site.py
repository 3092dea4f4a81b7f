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


api_pages, names_in_code, site_sources = (extension(one) for one in ("api_pages", "names_in_code", "site_sources"))


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


def test_the_start_page_is_readme_up_to_its_list_of_pages() -> None:
    readme = "# a\n[e](EVIDENCE.md#m) ![m](docs/map.svg) [l](docs/lp.md)\n\n## More\n\n[x](docs/x.md)\n"
    found = site_sources.start_page("{{readme}}\n## Where", readme)
    assert found == "# a\n[e](evidence.md#m) ![m](map.svg) [l](lp.md)\n\n## Where"


def test_words_of_the_glossary_are_index_entries_of_the_page_they_lead_to() -> None:
    words = site_sources.words_of_pages((DOCS / "glossary.md").read_text())
    field = {"imbalanced": "choosing", "conformal": "decide", "risk control": "decide", "fairness": "constraints"}
    field |= {"learning to rank": "ranked_lists", "predict-then-optimise": "predict", "segmentation": "masks"}
    assert {word: page for page, several in words.items() for word in several if word in field} == field
    assert all((DOCS / f"{page}.md").exists() for page in words)
    every = [word.lower() for several in words.values() for word in several]
    assert len(every) > 100
    assert site_sources.with_words("# Title\n\ntext", ["a b", "c"]) == (
        "# Title\n\n```{index} ! a b, ! c\n```\n\n\ntext"
    )


def test_the_gallery_begins_with_every_picture_in_small() -> None:
    page = site_sources.thumbnails((DOCS / "gallery.md").read_text())
    shown = re.findall(r":img-top: (\S+)\n:link: \"#(\S+)\"", page)
    assert sorted(place for place, _ in shown) == sorted(
        f"gallery/{one.name}" for one in (DOCS / "gallery").glob("*.svg")
    )
    headings = {site_sources._anchor(title)[1:] for title in re.findall(r"^## (.+)$", page, re.MULTILINE)}
    assert {anchor for _, anchor in shown} == headings


def test_names_in_code_lead_to_their_entry() -> None:
    name = '<span class="n">aimfor</span><span class="o">.</span><span class="n">{}</span>'
    known, unknown = name.format("MetricLoss"), name.format("Other")
    found = names_in_code.linked(f"{known} {unknown}", {"MetricLoss": "api/aimfor.html#aimfor.MetricLoss"})
    assert found == f'<a class="to-reference" href="api/aimfor.html#aimfor.MetricLoss">{known}</a> {unknown}'


def test_every_link_between_pages_leads_somewhere() -> None:
    """Without Sphinx: files exist, and headings that are linked to are there."""
    for page in [*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), DOCS.parent / "README.md"]:
        if page.parent.name == "api":
            continue
        for target in re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
