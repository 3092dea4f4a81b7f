"""The API reference: one page for each public module, written when the site is built from what `__all__` says.

A public name without a docstring stops the build, and so does a public module without `__all__`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import aimfor

#: Modules whose own submodules are what a user imports.
HOUSES = ("data", "targets", "learners", "integrations")
#: Public modules that are reached by import only, not as attributes of `aimfor`.
IMPORTED = ("schedule", "regularized")


def public_modules() -> list[str]:
    """Every module with a page, `aimfor` first."""
    names = ["aimfor"]
    for package in sorted((*aimfor._PACKAGES, *IMPORTED)):
        if package not in HOUSES:
            names.append(f"aimfor.{package}")
            continue
        house = importlib.import_module(f"aimfor.{package}")
        names += [
            f"{house.__name__}.{found.name}"
            for found in pkgutil.iter_modules(house.__path__)
            if "__all__" in _source(house, found.name)
        ]
    return names


def _source(house: ModuleType, name: str) -> str:
    """Read, not imported: an integration's own package may be missing."""
    folder = Path(house.__path__[0])
    file = folder / f"{name}.py"
    return (file if file.exists() else folder / name / "__init__.py").read_text()


def pages() -> dict[str, str]:
    """File name without suffix → text of the page in MyST Markdown. A missing optional package is named there."""
    found = {}
    homes: dict[int, str] = {}
    for name in reversed(public_modules()):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.startswith("aimfor"):
                raise
            found[name] = (
                f"# {name}\n\nNot shown: the package `{missing.name}` was not installed when this site was built.\n"
            )
            continue
        found[name] = _page(module, homes)
    return dict(reversed(found.items()))


def _page(module: ModuleType, homes: dict[int, str]) -> str:
    """Objects that another page has are linked from this one, not written twice."""
    names = getattr(module, "__all__", None)
    if not names:
        raise ValueError(f"{module.__name__} is public and has no __all__")
    here, elsewhere, values = [], [], []
    for name in sorted(names, key=str.lower):
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            values.append((name, thing))
        elif not (inspect.getdoc(thing) or "").strip() or thing.__doc__ is None:
            raise ValueError(f"{module.__name__}.{name} is public and has no docstring")
        elif id(thing) in homes:
            elsewhere.append((name, homes[id(thing)], thing))
        else:
            homes[id(thing)] = f"{module.__name__}.{name}"
            here.append((name, thing))
    parts = [f"# {module.__name__}", _rst(f".. automodule:: {module.__name__}")]
    if elsewhere:
        parts.append("| name | what it is |\n|---|---|")
        parts[-1] += "".join(f"\n| {{py:obj}}`{name} <{home}>` | {_first(thing)} |" for name, home, thing in elsewhere)
    parts += [_entry(module.__name__, name, thing) for name, thing in here]
    if values:
        parts.append("## Values")
        parts += [_rst(f".. py:data:: {module.__name__}.{name}\n\n   {_shown(thing)}") for name, thing in values]
    return "\n\n".join(parts) + "\n"


def _entry(module: str, name: str, thing: Any) -> str:
    heading = f"## {name}"
    if inspect.isclass(thing):
        bases = "" if thing.__bases__ == (object,) else "\n   :show-inheritance:"
        return f"{heading}\n\n" + _rst(f".. autoclass:: {module}.{name}\n   :members:{bases}")
    return f"{heading}\n\n" + _rst(f".. autofunction:: {module}.{name}")


def _rst(text: str) -> str:
    return "```{eval-rst}\n" + text + "\n```"


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|").replace("``", "`")


def _shown(value: Any) -> str:
    text = (
        f"{value}" if isinstance(value, (str, int, float)) or not isinstance(value, tuple) else f"{len(value)} entries"
    )
    return f"``{text}``"


def index() -> str:
    lines = [
        "# API reference",
        "",
        "Every public name, from its docstring. What most programs need is in [`aimfor`](aimfor.md) itself.",
        "",
    ]
    lines += ["```{toctree}", ":maxdepth: 1", "", *public_modules(), "```", ""]
    return "\n".join(lines)


def write(app: Any) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    wanted = {f"{name}.md": text for name, text in pages().items()} | {"index.md": index()}
    for old in folder.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def keep_formulas(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """An indented block after "…:" is a formula or code, to be shown as it is written."""
    for i in range(len(lines) - 2):
        text, indented = lines[i].rstrip(), lines[i + 2]
        depth = len(text) - len(text.lstrip())
        if (
            text.endswith(":")
            and not text.endswith("::")
            and not lines[i + 1].strip()
            and indented[: depth + 1].isspace()
        ):
            lines[i] = text + ":"


def skip_foreign(_app: Any, _what: str, _name: str, thing: Any, _skip: bool, _options: Any) -> bool | None:
    """Methods that another package puts into a class (scikit-learn's `set_…_request`) are its own to document."""
    home = getattr(thing, "__module__", None) or ""
    return True if inspect.isroutine(thing) and not home.startswith("aimfor") else None


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", write)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
