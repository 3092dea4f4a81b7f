"""The gallery: twelve scripts (test_docs runs them), each with its picture, and notebooks that are the scripts."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
try:
    gallery = importlib.import_module("gallery")
finally:
    sys.path.pop(0)


def test_every_script_is_in_the_gallery_with_a_picture() -> None:
    assert {path.stem for path in gallery.EXAMPLES.glob("*.py")} == set(gallery.ORDER)
    assert len(gallery.ORDER) >= 12
    for name in gallery.ORDER:
        title, rest, code = gallery.parts(name)
        assert title
        assert rest
        assert f'figure.savefig("{name}.svg")' in code
        assert "<svg" in (gallery.PICTURES / f"{name}.svg").read_text()


def test_page_and_notebooks_are_those_of_the_scripts() -> None:
    assert gallery.PAGE.read_text() == gallery.page(), "run python tools/gallery.py"
    for name in gallery.NOTEBOOKS:
        stored = (gallery.EXAMPLES / "notebooks" / f"{name}.ipynb").read_text()
        assert stored == gallery.notebook(name), "run python tools/gallery.py"


@pytest.mark.parametrize("name", gallery.NOTEBOOKS)
def test_notebooks_open_and_their_cells_are_the_script(name: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    text = gallery.notebook(name)
    book = nbformat.reads(text, as_version=4)
    nbformat.validate(book)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert len(cells) >= 4
    joined = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
    script = gallery.parts(name)[2].replace("# %%\n", "")
    assert [line for line in joined.split("from IPython")[0].splitlines() if line.strip()] == [
        line for line in script.splitlines() if line.strip()
    ]
    for cell in cells:
        compile(cell.source, name, "exec")
