"""Documentation is executed: every python block of README and docs runs and prints what the page shows, and so does
every docstring example."""

from __future__ import annotations

import ast
import builtins
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
import runpy
from functools import cache
from pathlib import Path

import pytest
import torch

import aimfor
import paper
from aimfor.targets import folds
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


#: The first line of a block that needs names of an earlier one.
CONTINUED = "# goes on from the block before"


def python_blocks(page: Path) -> list[tuple[str, str]]:
    """Python blocks, each with the ``output`` block that follows it at once."""
    found = re.findall(
        r"^```python\n(.*?)^```\n(?:\s*^```output\n(.*?)^```)?", page.read_text(), re.DOTALL | re.MULTILINE
    )
    return [(code, said) for code, said in found]


def as_shown(printed: str, shown: str) -> bool:
    """Words are the same, and so is every number to the digits that the page shows."""
    number = r"(?<![\w.])[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
    if re.sub(number, "0", printed).split() != re.sub(number, "0", shown).split():
        return False
    ours, theirs = re.findall(number, printed), re.findall(number, shown)
    places = [len(one.partition("e")[0].partition(".")[2]) for one in theirs]
    return all(
        float(one) == pytest.approx(float(other), abs=1.5 * 10.0 ** -min(digits, 4) if digits else 0.0)
        for one, other, digits in zip(ours, theirs, places, strict=True)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_blocks_of_a_page_run_in_order_and_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for change in (undraw, draw_less):
        change(monkeypatch)
    if "assert ensemble" not in page.read_text():  # what is said of an ensemble is said of one of ten folds
        monkeypatch.setattr(folds, "SMALL_FOLDS", 3)
    torch.default_generator.manual_seed(1)  # a page that prints has a seed of its own
    namespace: dict[str, object] = {"__name__": "__page__"}
    for code, shown in python_blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), namespace)
        assert as_shown(printed.getvalue(), shown), f"printed:\n{printed.getvalue()}\nshown:\n{shown}"


def test_printed_and_shown_are_compared() -> None:
    assert as_shown("met: 0.12345 of 20 rows\n", "met: 0.1234\n of 20 rows")
    for shown in ("met: 0.1239 of 20 rows", "met: 0.1234 of 21 rows", "missed: 0.1234 of 20 rows", "met: 0.1234 of 20"):
        assert not as_shown("met: 0.12345 of 20 rows", shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_block_that_needs_another_says_so(page: Path) -> None:
    for code, _ in python_blocks(page):
        needed = _names_from_elsewhere(code)
        assert code.startswith(CONTINUED) == bool(needed), f"{sorted(needed)} in\n{code}"


def _names_from_elsewhere(code: str) -> set[str]:
    own, used = {*dir(builtins), "__name__"}, set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            own |= {(one.asname or one.name).split(".")[0] for one in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name:
            own.add(node.name)
    return used - own


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
        *(name for name in aimfor._PACKAGES if name not in ("data", "targets", "learners", "integrations")),
        *(
            name.removeprefix("aimfor.")
            for name in MODULES
            if name.startswith(("aimfor.data", "aimfor.targets", "aimfor.learners", "aimfor.integrations"))
            and ".members" not in name
        ),
    ],
)
def test_every_public_name_says_what_it_is_and_shows_it(package: str) -> None:
    """Abstract classes have nothing to show, and errors are shown where they are raised (docs/errors.md).

    Of the program's rooms and ``integrations`` those names are public that stand in an ``__all__`` or on a page;
    members of an ensemble are asked for by their kind, never imported.
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
