"""Fills the templates: user text is escaped by them, and data for the script is JSON that cannot close its element."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import InputError

MOST_BYTES = 1_500_000
#: With pictures in it.
MOST_BYTES_WITH_PICTURES = 5_000_000
#: What a caller may leave out of the page.
_EMPTY: dict[str, Any] = {
    "comparisons": [], "classes": None, "slider": None, "slider_json": "", "slider_text": "",
    "judged_on": "test rows", "ensemble": None,
    "beside": [], "beside_text": "", "curves": [], "histogram": "", "histogram_legend": [], "reliability": "",
    "reliability_text": "", "importance": "", "importance_text": "", "learning": "", "learning_legend": [],
    "intervals": [], "certificate": None, "groups": [], "group_name": "", "notes": [], "remark": "", "metric": "",
    "queries": None, "log_odds": False, "learning_text": "", "sheets": [], "mask_classes": [], "label_rows": [],
}  # fmt: skip


def render(**sections: Any) -> str:
    """The page. Raises `InputError` if it would not stay below 1.5 MB, or 5 MB with pictures."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    folder = Path(__file__).with_name("templates")
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=FileSystemLoader(folder))
    assets = {name: Markup((folder / name).read_text(encoding="utf8")) for name in ("style.css", "script.js")}
    page = environment.get_template("page.html").render(**_EMPTY | sections, assets=assets).lstrip()
    most = MOST_BYTES_WITH_PICTURES if sections.get("sheets") else MOST_BYTES
    if len(page.encode()) > most:
        raise InputError("report", f"a page of {len(page.encode())} bytes", f"at most {most}")
    return page


def number(value: Any, digits: int = 4) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def between(interval: Any) -> str:
    """An interval in words; a dash where there is none."""
    return "–" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def bar(value: float) -> str:
    """The width of a bar of 8 rem for a value between 0 and 1; what is undefined has none."""
    return f"{8 * max(0.0, min(1.0, value)) if math.isfinite(value) else 0:.2f}"


def script_json(value: Any) -> Any:
    """JSON for a <script> element: no character in it can end the element or start a comment."""
    from markupsafe import Markup

    return Markup(json.dumps(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def safe_svg(svg: str) -> Any:
    """SVG made by `figures`, whose texts matplotlib has escaped."""
    from markupsafe import Markup

    return Markup(svg)
