"""Fills the template: user text is escaped by it, and data for the script is JSON that cannot close its element."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ..compare.plan import BEST_OF_ALL, BEST_RIVAL
from ..run.evaluate import rates
from . import figures

MOST_BYTES = 1_500_000


def number(value: Any, digits: int = 4) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def render(**parts: Any) -> str:
    """The page. Raises `InputError` if it would not stay below 1.5 MB."""
    from jinja2 import Environment, StrictUndefined

    empty: dict[str, Any] = {
        "comparisons": [], "learning": "", "slider": None, "curves": "", "histogram": "", "intervals": [],
        "certificate": None, "groups": [], "group_name": "", "notes": [], "slider_json": "", "slider_text": "",
        "remark": "",
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
    """Slider, curves, histogram, intervals, certificate and groups of one evaluated test part."""
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
    intervals = [
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
        "intervals": intervals,
        "certificate": certificate_part(test),
        "groups": groups,
    }


def certificate_part(test: dict[str, Any]) -> dict[str, Any] | None:
    """The certificate of the metric's floor as the template wants it; None where the metric states no floor."""
    found = test.get("certificate")
    if found is None:
        return None
    shown = ("value", "slack", "low", "high")
    rows = [{**finding, **{key: number(finding[key]) for key in shown}} for finding in found["findings"]]
    return {**found, "objective_value": number(found["objective_value"]), "rows": rows}


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
        remark=(metrics.get("last_phase") or {}).get("text", ""),
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


def _comparison_part(part: dict[str, Any]) -> dict[str, Any]:
    """One metric's table, verdict and figures as the template wants them."""
    table = []
    for row in part["table"]:
        compared = "difference" in row
        table.append(
            {
                "title": row["title"],
                "reference": row["name"] == BEST_RIVAL,
                "test": f"{number(row['test'])} ± {number(row['deviation'])}",
                "validation": number(row["validation"]),
                "difference": f"{100 * row['difference']:+.2f} points" if compared else "",
                "interval": f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}" if compared else "",
                "p": number(row["p"], 3) if compared else "",
                "seconds": number(row["seconds"], 1),
                "memory": number(row["megabytes"], 0),
            }
        )
    compared_rows = [row for row in part["table"] if "difference" in row]
    train, validation, test = part["rows"]
    return {
        "metric": part["metric"],
        "verdicts": [*part["verdicts"], *(f"Not tried: {one}" for one in part["skipped"])],
        "rows": table,
        "method": f"{part['seeds']} paired seeds and splits ({train} training, {validation} validation, {test} test). "
        "The rival is, for each seed, the cross-entropy variant that is best on validation rows. Thresholds come from "
        "validation rows. Intervals: corrected resampled t-test (Nadeau and Bengio), Bonferroni over "
        f"{part['comparisons']} comparisons; p-values: Holm.",
        "certificate": certificate_part(part["example"]["test"]),
        "figure": safe_svg(figures.differences(compared_rows, part["metric"])) if compared_rows else "",
        "curves": safe_svg(figures.curve_panels(part["curves"])) if part["curves"] else "",
    }


def write_comparison_report(folder: Path) -> Path:
    """report.html of a comparison."""
    document = checkpoint.read_json(folder / "comparison.json")
    parts, first = document["parts"], document["parts"][0]
    example = first["example"]
    settings = document["settings"]
    details = test_parts(example["test"], example["threshold"], example["classes"], None)
    for shown_above in ("curves", "certificate"):
        details.pop(shown_above, None)
    page = render(
        title=f"{Path(document['data']).name}: does training for the metric help?",
        subtitle=f"aimfor {__version__}; rivals and recipes over {first['seeds']} paired seeds and splits",
        headline=[(f"{part['metric']}, best rival", number(_row(part, BEST_RIVAL)["test"])) for part in parts]
        + [(f"{part['metric']}, chosen of all", number(_row(part, BEST_OF_ALL)["test"])) for part in parts],
        comparisons=[
            _comparison_part({**part, "curves": part["curves"] if i == 0 else {}}) for i, part in enumerate(parts)
        ],
        slider_text=f"The model chosen on validation for {first['metric']}, first seed ({example['recipe']}): "
        f"{example['test']['n']} test rows.",
        facts=[
            ("model", settings["model"]),
            ("epochs (0: from the data)", settings["epochs"]),
            ("first seed", settings["seed"]),
        ],
        notes=example["notes"],
        **details,
    )
    path = folder / "report.html"
    checkpoint.write_text(path, page)
    return path


def _row(part: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in part["table"] if row["name"] == name)


def write_report(folder: Path) -> Path:
    """The report of whatever the folder holds. Raises `InputError` when it is neither a run nor a comparison."""
    if (folder / "comparison.json").exists():
        return write_comparison_report(folder)
    return write_run_report(folder)
