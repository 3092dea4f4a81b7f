"""Fills the template: user text is escaped by it, and data for the script is JSON that cannot close its element."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ...errors import InputError
from .. import checkpoint
from ..evaluate import rates
from . import figures

MOST_BYTES = 1_500_000


def number(value: Any, digits: int = 4) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def render(**parts: Any) -> str:
    """The page. Raises `InputError` if it would not stay below 1.5 MB."""
    from jinja2 import Environment, StrictUndefined

    empty: dict[str, Any] = {
        "comparisons": [], "learning": "", "slider": None, "curves": "", "histogram": "", "certificate": [],
        "groups": [], "group_name": "", "notes": [], "slider_json": "", "slider_text": "",
    }  # fmt: skip
    text = Path(__file__).with_name("template.html").read_text(encoding="utf8")
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(text).render(**{**empty, **parts})
    if len(page.encode()) > MOST_BYTES:
        raise InputError("report", f"a page of {len(page.encode())} bytes", f"at most {MOST_BYTES}")
    return page


def script_json(value: Any) -> Any:
    """JSON for a <script> element: no character in it can end the element or start a comment."""
    from markupsafe import Markup

    text = json.dumps(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(text)


def safe_svg(svg: str) -> Any:
    """SVG made by `figures`, whose texts matplotlib has escaped."""
    from markupsafe import Markup

    return Markup(svg)


def test_parts(
    test: dict[str, Any], threshold: float, classes: list[str], runs: dict[str, Any] | None
) -> dict[str, Any]:
    """Slider, curves, histogram, certificate and groups of one evaluated test part."""
    if "steps" not in test:
        return {}
    steps = test["steps"]
    start = min(range(len(steps)), key=lambda i: abs(steps[i][0] - threshold))
    slider = {
        "steps": steps,
        "start": start,
        "positives": test["positives"],
        "negatives": test["n"] - test["positives"],
        "classes": classes,
        "rates": list(rates(test["counts"])),
    }
    certificate = [
        {"name": name, "seen": number(test["rates"][name]), "low": number(low), "high": number(high)}
        for name, (low, high) in test["intervals"].items()
    ]
    groups = [
        {**row, "recall": number(row["recall"]), "fpr": number(row["false positive rate"]),
         "precision": number(row["precision"])}
        for row in test.get("groups", [])
    ]  # fmt: skip
    return {
        "slider": slider,
        "slider_json": script_json({key: slider[key] for key in ("steps", "start", "positives", "negatives")}),
        "curves": safe_svg(figures.curve_panels(runs or {"test": [test["curves"]]})),
        "histogram": safe_svg(figures.score_histogram(test["histogram"], threshold, ["negative", "positive"])),
        "certificate": certificate,
        "groups": groups,
    }


def write_run_report(folder: Path) -> Path:
    """report.html of a finished run. Raises `InputError` for anything else."""
    metrics = checkpoint.read_json(folder / "metrics.json")
    config = checkpoint.read_json(folder / "config.json")
    settings, test, classes = config["settings"], metrics["test"], config["labels"]["classes"]
    metric, rows = metrics["metric"], metrics["rows"]
    page = render(
        title=f"{Path(settings['data']).name}: trained for {metric}",
        subtitle=f"aimfor {config['aimfor']}, {rows['train']} training, {rows['validation']} validation and "
        f"{rows['test']} test rows",
        headline=[
            (f"{metric}, test", number(test["metric"])),
            (f"{metric}, validation", number(metrics["validation"])),
        ],
        learning=safe_svg(figures.learning_curves(metrics["history"], metric)),
        slider_text=f"{test['n']} test rows; the tuned threshold was chosen on validation rows.",
        group_name=settings.get("group") or "",
        facts=[
            ("recipe", config["recipe"]["title"]),
            ("best weights from", f"stage {metrics['chosen']['stage'] + 1} ({metrics['chosen']['loss']})"),
            ("model", f"{settings['model']}, {metrics['parameters']} parameters"),
            (
                "epochs, batch size, learning rate",
                f"{settings['epochs']}, {settings['batch_size']}, {settings['learning_rate']:g}",
            ),
            ("seed", settings["seed"]),
            ("seconds", number(metrics["seconds"], 1)),
        ],
        notes=metrics["notes"],
        **test_parts(test, metrics["threshold"], classes, None),
    )
    path = folder / "report.html"
    checkpoint.write_text(path, page)
    return path
