"""What a built page gets: names of aimfor in its code lead to the reference, and menu captions have a level."""

from __future__ import annotations

import importlib
import re
from functools import partial
from typing import Any

import aimfor

NAME = re.compile(r'<span class="n">aimfor</span><span class="o">\.</span><span class="n">(\w+)</span>')


def homes(objects: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Name in `aimfor` → (page, anchor) of its entry, on whichever page the thing is described."""
    modules = {full: importlib.import_module(full) for full, entry in objects.items() if entry.objtype == "module"}
    found = {}
    for full, entry in objects.items():
        module, _, name = full.rpartition(".")
        if name in aimfor.__all__ and getattr(modules.get(module), name, None) is getattr(aimfor, name):
            found[name] = (entry.docname, full)
    return found


def linked(body: str, places: dict[str, str]) -> str:
    """The page with a link around each known name in code."""

    def link(found: re.Match[str]) -> str:
        place = places.get(found[1])
        return found[0] if place is None else f'<a class="to-reference" href="{place}">{found[0]}</a>'

    return NAME.sub(link, body)


def finish(app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    if "body" not in context:
        return
    known = homes(app.env.get_domain("py").objects)
    away = partial(app.builder.get_relative_uri, page)
    context["body"] = linked(context["body"], {name: f"{away(doc)}#{full}" for name, (doc, full) in known.items()})
    menu = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = menu.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Any) -> dict[str, Any]:
    app.connect("html-page-context", finish, priority=900)  # behind the theme's own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
