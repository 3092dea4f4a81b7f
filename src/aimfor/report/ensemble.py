"""The page of an ensemble on classes or ranked lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.evaluation import TEST_ROWS, EnsembleEvaluation, Members
from ..targets.evaluate.results import Interval
from ..targets.importance import Importance
from . import figures
from .evaluated import part_sections
from .page import between, number, safe_svg

#: Columns shown in the picture of importance.
MOST_COLUMNS = 20


def ensemble_page(found: EnsembleEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """The parts of the page."""
    settings, test, metric = config["settings"], found.test, found.metric
    ensemble = found.ensemble
    return {
        "title": f"{Path(settings['data']).name}: trained for {metric}",
        "subtitle": f"aimfor {config['aimfor']}; {_parts(found.rows)}",
        "headline": [
            (
                f"{metric}, expected on new rows",
                number(found.expected.metric),
                f"{_within(found.expected.interval)}each row by models and choices made without it",
            ),
            *_tested(found),
            (f"{metric}, without a model", number(test.baseline), "the best constant"),
        ],
        "ensemble": members_section(ensemble),
        "slider_text": f"{test.n} {found.part}; the tuned threshold: {found.threshold_text}.",
        "group_name": settings.get("group") or "",
        "log_odds": True,
        "facts": [
            ("model", f"ensemble of {len(ensemble.weighted)} members, {ensemble.folds} folds"),
            ("decisions", found.threshold_text),
            ("seed", settings["seed"]),
            ("seconds", number(found.seconds, 1)),
        ],
        **part_sections(test, found.threshold, config["labels"]["classes"], metric),
        "judged_on": found.part,
        **_learning(ensemble),
        **importance_section(found.importance, metric, found.part),
    }


def _tested(found: EnsembleEvaluation) -> list[tuple[str, str, str]]:
    if found.part != TEST_ROWS:
        return []
    interval = found.test.interval
    return [(f"{found.metric}, test rows", number(found.test.metric), f"95 %: {between(interval)}" if interval else "")]


def _within(interval: Interval | None) -> str:
    return f"95 %: {between(interval)}; " if interval else ""


def _parts(rows: dict[str, int]) -> str:
    """How many rows each part has; an ensemble needs no validation part."""
    names = {"train": "training", "validation": "validation", "aside": "kept aside", "test": "test"}
    return ", ".join(f"{rows[part]} {name}" for part, name in names.items() if rows.get(part)) + " rows"


def _learning(found: Members) -> dict[str, Any]:
    members = [(one.title, one.curves) for one in found.members if one.curves is not None]
    if not members:
        return {}
    text = "One line per fold, on rows it did not learn from; dotted: the checkpoint used for all folds, chosen on "
    text += "all these rows together."
    return {"learning": safe_svg(figures.fold_curves(members)), "learning_legend": [], "learning_text": text}


def importance_section(found: Importance, metric: str, part: str) -> dict[str, Any]:
    """Picture and sentence; a sentence alone where nothing was computed."""
    if found.left_out is not None:
        return {"importance_text": f"Not computed: {found.left_out}."}
    rows = found.columns
    text = f"{metric} lost on {found.rows} {part} when one column's values change places among them, mean of "
    text += f"{found.shuffles} shuffles; bars are 95 % intervals over rows and shuffles. "
    text += "It shows what this model uses: of two columns with the same information, either may get the credit."
    if len(rows) > MOST_COLUMNS:
        text += f" Shown: the first {MOST_COLUMNS} of {len(rows)} columns; metrics.json has them all."
    return {"importance": safe_svg(figures.importance(rows[:MOST_COLUMNS], metric)), "importance_text": text}


def members_section(found: Members) -> dict[str, Any]:
    """Members by weight."""
    rows = [
        {
            "title": one.title or one.name,
            "weight": number(one.weight, 3),
            "width": f"{8 * max(0.0, min(1.0, one.weight)):.2f}",
            "out_of_fold": number(one.out_of_fold),
            "seconds": number(one.seconds, 1),
        }
        for one in sorted(found.members, key=lambda one: -one.weight)
    ]
    return {"members": rows, "folds": found.folds, "rule": found.rule}
