"""The page of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from .. import __version__
from ..runs.compare.entrants import ENSEMBLE
from ..runs.compare.plan import BEST_OF_ALL, BEST_RIVAL
from ..targets.results import AnyPart
from . import figures
from .ensemble import certificate_section, part_sections
from .page import number, safe_svg


def comparison_page(document: dict[str, Any]) -> dict[str, Any]:
    """What the page is filled with."""
    metrics, first, settings = document["parts"], document["parts"][0], document["settings"]
    example = first["example"]
    details = part_sections(_test_of(example), example["threshold"], example["classes"], first["metric"])
    details |= {"certificate": None, "beside": [], "beside_text": ""}  # shown above, for everyone
    return {
        "title": f"{Path(document['data']).name}: does training for the metric help?",
        "subtitle": f"aimfor {__version__}; rivals over {first['seeds']} paired seeds and splits",
        "remark": first["verdicts"][0],
        "headline": [tile for compared in metrics for tile in _tiles(compared)],
        "comparisons": [_section(compared, index) for index, compared in enumerate(metrics)],
        "slider_text": f"The model chosen on validation for {first['metric']}, first seed ({example['entrant']}): "
        f"{example['test']['n']} test rows.",
        "facts": [
            ("model", settings["model"]),
            ("epochs (0: from the data)", settings["epochs"]),
            ("first seed", settings["seed"]),
        ],
        "notes": example["notes"],
        **details,
    }


def _section(compared: dict[str, Any], index: int) -> dict[str, Any]:
    """One metric's table, verdict and figures as the template wants them; curves for the first metric alone."""
    differing = [row for row in compared["table"] if "difference" in row]
    train, validation, test = compared["rows"]
    verdict, *sentences = compared["verdicts"]
    curves = compared["curves"] if index == 0 else None
    svgs, legend = figures.curve_panels(curves, prefix="all-") if curves else ([], [])
    figure = figures.differences(differing, compared["metric"], f"differences{index}") if differing else ""
    return {
        "metric": compared["metric"],
        "verdict": verdict if index else "",  # the first metric's is the page's
        "sentences": [*sentences, *(f"Not tried: {reason}" for reason in compared["skipped"])],
        "rows": [_table_row(row) for row in compared["table"]],
        "method": f"{compared['seeds']} paired seeds and splits ({train} training, {validation} validation, {test} "
        "test). The rival is, for each seed, the one that is best on validation rows. Thresholds come from validation "
        "rows, the ensemble's from out-of-fold rows. Intervals: corrected resampled t-test (Nadeau and Bengio), "
        f"Bonferroni over {compared['comparisons']} comparisons; p-values: Holm. Peak MB: of the whole process while "
        "it learned, libraries and data included; the largest over splits.",
        "certificate": certificate_section(getattr(_test_of(compared["example"]), "certificate", None)),
        "figure": safe_svg(figure),
        "panels": [safe_svg(svg) for svg in svgs],
        "legend": legend,
    }


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    differs = "difference" in row
    return {
        "title": row["title"],
        "reference": row["name"] == BEST_RIVAL,
        "test": f"{number(row['test'])} ± {number(row['deviation'])}",
        "validation": number(row["validation"]),
        "difference": f"{100 * row['difference']:+.2f} points" if differs else "",
        "interval": f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}" if differs else "",
        "p": number(row["p"], 3) if differs else "",
        "seconds": number(row["seconds"], 1),
        "memory": number(row["megabytes"], 0),
    }


def _tiles(compared: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What `train` makes, the rival to beat, and what choosing on validation rows gives."""
    wanted = {ENSEMBLE.name: "what train makes", BEST_RIVAL: "best rival", BEST_OF_ALL: "chosen of all"}
    rows = {row["name"]: row for row in compared["table"]}
    tiles = [(f"{compared['metric']}, {title}", rows[name]) for name, title in wanted.items() if name in rows]
    return [(title, number(row["test"]), f"± {number(row['deviation'])} over splits") for title, row in tiles]


def _test_of(example: dict[str, Any]) -> AnyPart:
    """What the example found on its test rows."""
    return TypeAdapter(AnyPart).validate_python(example["test"])
