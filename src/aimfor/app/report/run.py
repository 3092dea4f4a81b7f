"""The report of one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...fitting import checkpoint
from . import figures
from .evaluated import test_parts
from .page import between, number, render, safe_svg
from .sheets import read_sheets

#: Columns shown in the picture of importance.
MOST_COLUMNS = 20


def write_run_report(folder: Path) -> Path:
    """report.html of a finished run. Raises `InputError` for anything else."""
    return written(folder, _page)


def written(folder: Path, page: Callable[[dict[str, Any], dict[str, Any], list[dict[str, Any]]], str]) -> Path:
    """report.html, made from metrics, settings and contact sheets that a run keeps."""
    metrics, config = (checkpoint.read_json(folder / name) for name in ("metrics.json", "config.json"))
    with checkpoint.reading(folder / "metrics.json"):
        text = page(metrics, config, read_sheets(folder))
    path = folder / "report.html"
    checkpoint.write_text(path, text)
    return path


def _page(metrics: dict[str, Any], config: dict[str, Any], sheets: list[dict[str, Any]]) -> str:
    settings, test, rows = config["settings"], metrics["test"], metrics["rows"]
    metric = metrics["metric"]
    return render(
        title=f"{Path(settings['data']).name}: trained for {metric}",
        subtitle=f"aimfor {config['aimfor']}; {_parts(rows)}",
        metric=metric,
        headline=_headline(metrics),
        committee=committee_part(metrics.get("committee")),
        slider_text=f"{test['n']} test rows; the tuned threshold: {metrics['threshold_text']}.",
        group_name=settings.get("group") or "",
        facts=_facts(metrics, config),
        notes=metrics["notes"],
        sheets=sheets,
        **test_parts(test, metrics["threshold"], config["labels"]["classes"], metric),
        **_learning(metrics),
        **importance_part(metrics.get("importance"), metric),
    )


def _parts(rows: dict[str, int]) -> str:
    """How many rows each part has; a committee needs no validation part."""
    names = {"train": "training", "validation": "validation", "aside": "kept aside", "test": "test"}
    return ", ".join(f"{rows[part]} {name}" for part, name in names.items() if rows.get(part)) + " rows"


def _headline(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    metric, test = metrics["metric"], metrics["test"]
    interval = test.get("interval")
    return [
        (f"{metric}, test", number(test["metric"]), f"95 %: {between(interval)}" if interval else ""),
        (
            f"{metric}, estimated",
            number(metrics["validation"]),
            "out-of-fold rows, each evaluated with choices made without it",
        ),
        (f"{metric}, without a model", number(test.get("baseline")), "the best constant"),
    ]


def _facts(metrics: dict[str, Any], config: dict[str, Any]) -> list[tuple[str, Any]]:
    speaking = sum(one["weight"] > 0 for one in metrics["committee"]["members"])
    return [
        ("model", f"committee of {speaking} members, {metrics['committee']['folds']} folds"),
        ("decisions", metrics["threshold_text"]),
        ("seed", config["settings"]["seed"]),
        ("seconds", number(metrics["seconds"], 1)),
    ]


def _learning(metrics: dict[str, Any]) -> dict[str, Any]:
    members = [one for one in metrics["committee"]["members"] if one.get("curves")]
    if not members:
        return {}
    text = "One line per fold, on rows it did not learn from; dotted: the checkpoint used for all folds, chosen on "
    text += "all these rows together."
    return {"learning": safe_svg(figures.fold_curves(members)), "learning_legend": [], "learning_text": text}


def importance_part(found: dict[str, Any] | None, metric: str) -> dict[str, Any]:
    """Picture and sentence; a sentence alone where nothing was computed."""
    if found is None:
        return {}
    if "left_out" in found:
        return {"importance_text": f"Not computed: {found['left_out']}."}
    rows = found["columns"]
    text = f"{metric} lost on {found['rows']} test rows when one column's values change places among them, mean of "
    text += f"{found['shuffles']} shuffles; bars are 95 % intervals over rows and shuffles. "
    text += "It shows what this model uses: of two columns with the same information, either may get the credit."
    if len(rows) > MOST_COLUMNS:
        text += f" Shown: the first {MOST_COLUMNS} of {len(rows)} columns; metrics.json has them all."
    return {"importance": safe_svg(figures.importance(rows[:MOST_COLUMNS], metric)), "importance_text": text}


def committee_part(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """Members by weight: ``{"members": [{title, weight, out_of_fold, seconds}], "folds", "rule"}``."""
    if not found:
        return None
    members = sorted(found["members"], key=lambda one: -one["weight"])
    rows = [
        {
            "title": one.get("title") or one["name"],
            "weight": number(one["weight"], 3),
            "width": f"{8 * max(0.0, min(1.0, one['weight'])):.2f}",
            "out_of_fold": number(one.get("out_of_fold")),
            "seconds": number(one.get("seconds"), 1),
        }
        for one in members
    ]
    return {"members": rows, "folds": found.get("folds"), "rule": found.get("rule", "")}
