"""The report of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from .. import __version__
from ..data import checkpoint
from ..runs.compare.entrants import ENSEMBLE
from ..runs.compare.plan import BEST_OF_ALL, BEST_RIVAL
from ..targets.evaluate.results import AnyPart
from . import figures
from .evaluated import certificate_section, part_sections
from .page import number, render, safe_svg


def write_comparison_report(folder: Path) -> Path:
    """report.html of a comparison."""
    document = checkpoint.read_json(folder / "comparison.json")
    with checkpoint.reading(folder / "comparison.json"):
        page = _page(document)
    path = folder / "report.html"
    checkpoint.write_text(path, page)
    return path


def _page(document: dict[str, Any]) -> str:
    parts, first, settings = document["parts"], document["parts"][0], document["settings"]
    example = first["example"]
    details = part_sections(_part(example), example["threshold"], example["classes"], first["metric"])
    details |= {"certificate": None, "beside": [], "beside_text": ""}  # shown above, for everyone
    return render(
        title=f"{Path(document['data']).name}: does training for the metric help?",
        subtitle=f"aimfor {__version__}; rivals over {first['seeds']} paired seeds and splits",
        remark=first["verdicts"][0],
        headline=[tile for part in parts for tile in _tiles(part)],
        comparisons=[_comparison_part(part, place) for place, part in enumerate(parts)],
        slider_text=f"The model chosen on validation for {first['metric']}, first seed ({example['entrant']}): "
        f"{example['test']['n']} test rows.",
        facts=[
            ("model", settings["model"]),
            ("epochs (0: from the data)", settings["epochs"]),
            ("first seed", settings["seed"]),
        ],
        notes=example["notes"],
        **details,
    )


def _comparison_part(part: dict[str, Any], place: int) -> dict[str, Any]:
    """One metric's table, verdict and figures as the template wants them; curves for the first metric alone."""
    compared = [row for row in part["table"] if "difference" in row]
    train, validation, test = part["rows"]
    verdict, *sentences = part["verdicts"]
    svgs, legend = figures.curve_panels(part["curves"], prefix="all-") if part["curves"] and not place else ([], [])
    figure = figures.differences(compared, part["metric"], f"differences{place}") if compared else ""
    return {
        "metric": part["metric"],
        "verdict": verdict if place else "",  # the first metric's is the page's
        "sentences": [*sentences, *(f"Not tried: {one}" for one in part["skipped"])],
        "rows": [_table_row(row) for row in part["table"]],
        "method": f"{part['seeds']} paired seeds and splits ({train} training, {validation} validation, {test} test). "
        "The rival is, for each seed, the one that is best on validation rows. Thresholds come from validation rows, "
        "the ensemble's from out-of-fold rows. Intervals: corrected resampled t-test (Nadeau and Bengio), Bonferroni "
        f"over {part['comparisons']} comparisons; p-values: Holm.",
        "certificate": certificate_section(getattr(_part(part["example"]), "certificate", None)),
        "figure": safe_svg(figure),
        "panels": [safe_svg(svg) for svg in svgs],
        "legend": legend,
    }


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    compared = "difference" in row
    return {
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


def _tiles(part: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What `train` makes, the rival to beat, and what choosing on validation rows gives."""
    wanted = {ENSEMBLE.name: "what train makes", BEST_RIVAL: "best rival", BEST_OF_ALL: "chosen of all"}
    rows = {row["name"]: row for row in part["table"]}
    return [
        (f"{part['metric']}, {title}", number(rows[name]["test"]), f"± {number(rows[name]['deviation'])} over splits")
        for name, title in wanted.items()
        if name in rows
    ]


def _part(example: dict[str, Any]) -> AnyPart:
    """What the example found on its test rows."""
    return TypeAdapter(AnyPart).validate_python(example["test"])
