"""Documentation is executed: every python block of README and docs runs, and so does every docstring example."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

import aimfor
import paper
from aimfor.fitting.committee import folds
from undrawn import draw_less, undraw

ROOT = Path(__file__).parent.parent
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))] if path.exists()]
GALLERY = sorted((ROOT / "examples").glob("*.py"))
MODULES = sorted(
    module.name
    for package in (aimfor, paper)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if "__main__" not in module.name
)


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for change in (undraw, draw_less):
        change(monkeypatch)
    if "assert committee" not in page.read_text():  # what is said of a committee is said of one of ten folds
        monkeypatch.setattr(folds, "SMALL_FOLDS", 3)
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("aimfor"):
            raise
        pytest.skip(f"the optional package {missing.name} is not installed")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.name)
def test_gallery_script_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


@cache
def imported_on_pages() -> dict[str, set[str]]:
    """What README, docs and examples tell a user to import, by module."""
    found: dict[str, set[str]] = {}
    for path in (*PAGES, *GALLERY):
        for module, names in re.findall(r"^from (aimfor[\w.]*) import (.+)$", path.read_text(), re.MULTILINE):
            found.setdefault(module, set()).update(re.findall(r"\w+", names.partition("#")[0]))
    return found


@pytest.mark.parametrize(
    "package",
    [
        "",
        *(name for name in aimfor._PACKAGES if name not in ("fitting", "integrations")),
        *(
            name.removeprefix("aimfor.")
            for name in MODULES
            if name.startswith(("aimfor.fitting", "aimfor.integrations")) and ".members" not in name
        ),
    ],
)
def test_every_public_name_says_what_it_is_and_shows_it(package: str) -> None:
    """Abstract classes have nothing to show, and errors are shown where they are raised (docs/errors.md).

    Of ``fitting`` and ``integrations`` those names are public that stand in an ``__all__`` or on a page; members of a
    committee are asked for by their kind, never imported.
    """
    module = importlib.import_module(f"aimfor.{package}".rstrip("."))
    names = {*getattr(module, "__all__", ()), *imported_on_pages().get(module.__name__, ())}
    things = {name: getattr(module, name) for name in names}
    things = {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)}
    assert [name for name, thing in things.items() if not (thing.__doc__ or "").strip()] == []
    shown = {
        name: thing
        for name, thing in things.items()
        if not (inspect.isclass(thing) and (inspect.isabstract(thing) or issubclass(thing, BaseException)))
    }
    assert [name for name, thing in shown.items() if ">>> " not in (inspect.getdoc(thing) or "")] == []
