"""The page of an ensemble: what to expect, and sections about the rows that judge."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..runs.evaluation import TEST_ROWS, EnsembleEvaluation, Members
from ..targets.evaluate import rates
from ..targets.importance import Importance
from ..targets.results import AnyPart, Beside, Bin, RankedLists, SeveralClasses, StoredCertificate, TwoClasses
from . import figures
from .page import bar, between, number, safe_svg, script_json

#: Columns shown in the picture of importance, and classes up to which a confusion matrix is shown whole.
MOST_COLUMNS, MOST_IN_MATRIX = 20, 20


def ensemble_page(evaluation: EnsembleEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """What the page is filled with."""
    settings, test, metric = config["settings"], evaluation.test, evaluation.metric
    expected, ensemble, on = evaluation.expected, evaluation.ensemble, evaluation.part
    within = f"95 %: {between(expected.interval)}; " if expected.interval else ""
    small = f"{within}each row by models and choices made without it"
    headline = [(f"{metric}, expected on new rows", number(expected.metric), small)]
    if on == TEST_ROWS:
        small = f"95 %: {between(test.interval)}" if test.interval else ""
        headline.append((f"{metric}, test rows", number(test.metric), small))
    names = {"train": "training", "validation": "validation", "aside": "kept aside", "test": "test"}
    counts = [f"{evaluation.rows[subset]} {name}" for subset, name in names.items() if evaluation.rows.get(subset)]
    return {
        "title": f"trained for {metric}",
        "subtitle": f"aimfor {config['aimfor']}; {', '.join(counts)} rows",
        "headline": [*headline, (f"{metric}, without a model", number(test.baseline), "the best constant")],
        "ensemble": members_section(ensemble),
        "slider_text": f"{test.n} {on}; the tuned threshold: {evaluation.threshold_text}.",
        "group_name": settings.get("group") or "",
        "log_odds": True,
        "facts": [
            ("model", f"ensemble of {len(ensemble.weighted)} members, {ensemble.folds} folds"),
            ("decisions", evaluation.threshold_text),
            ("seed", settings["seed"]),
        ],
        **part_sections(test, evaluation.threshold, config["labels"]["classes"], metric),
        "judged_on": on,
        **_learning(ensemble),
        **importance_section(evaluation.importance, metric, on),
    }


def _learning(ensemble: Members) -> dict[str, Any]:
    members = [(row.title, row.curves) for row in ensemble.members if row.curves is not None]
    if not members:
        return {}
    text = "One line per fold, on rows it did not learn from; dotted: the checkpoint used for all folds, chosen on "
    text += "all these rows together."
    return {"learning": safe_svg(figures.fold_curves(members)), "learning_legend": [], "learning_text": text}


def importance_section(importance: Importance, metric: str, rows: str) -> dict[str, Any]:
    """Picture and sentence; a sentence alone where nothing was computed."""
    if importance.left_out is not None:
        return {"importance_text": f"Not computed: {importance.left_out}."}
    columns = importance.columns
    text = f"{metric} lost on {importance.rows} {rows} when one column's values change places among them, mean of "
    text += f"{importance.shuffles} shuffles; bars are 95 % intervals over rows and shuffles. "
    text += "It shows what this model uses: of two columns with the same information, either may get the credit."
    if len(columns) > MOST_COLUMNS:
        text += f" Shown: the first {MOST_COLUMNS} of {len(columns)} columns; metrics.json has them all."
    return {"importance": safe_svg(figures.importance(columns[:MOST_COLUMNS], metric)), "importance_text": text}


def members_section(ensemble: Members) -> dict[str, Any]:
    """Members by weight."""
    rows = [
        {
            "title": row.title or row.name,
            "weight": number(row.weight, 3),
            "width": bar(row.weight),
            "out_of_fold": number(row.out_of_fold),
            "seconds": number(row.seconds, 1),
        }
        for row in sorted(ensemble.members, key=lambda row: -row.weight)
    ]
    return {"members": rows, "folds": ensemble.folds, "rule": ensemble.rule}


def part_sections(test: AnyPart, threshold: float, classes: list[str], metric: str) -> dict[str, Any]:
    """Everything the page says about the rows that judge: numbers, slider, curves, classes, reliability, groups."""
    sections = _beside(test, metric)
    if isinstance(test, RankedLists):
        return {**sections, "queries": _queries(test, metric)}
    sections |= _reliability(test.reliability, isinstance(test, SeveralClasses))
    if isinstance(test, SeveralClasses):
        return {**sections, "classes": classes_section(test, classes)}
    svg, legend = figures.score_histogram(test.histogram, threshold, [f"is {name}" for name in classes])
    return {
        **sections,
        **_slider(test, threshold, classes),
        **_curves(test),
        "certificate": certificate_section(test.certificate),
        "histogram": safe_svg(svg),
        "histogram_legend": legend,
        "intervals": [
            {"name": name, "seen": number(test.rates[name]), "low": number(low), "high": number(high)}
            for name, (low, high) in test.intervals.items()
        ],
        "groups": [
            {**asdict(row), "recall": number(row.recall), "fpr": number(row.fpr), "precision": number(row.precision)}
            for row in test.groups or []
        ],
    }


def _beside(test: AnyPart, metric: str) -> dict[str, Any]:
    """The metric, and beside it the numbers every reader asks for, each with what a constant would reach."""
    rows = [Beside(metric, test.metric, test.baseline, interval=test.interval), *test.beside]
    cells = [
        {
            "name": row.name + ("" if row.higher_is_better else " (lower is better)"),
            "value": number(row.value),
            "interval": between(row.interval),
            "constant": number(row.constant),
        }
        for row in rows
    ]
    text = "Without a model: the best value when every row gets the same score, decision or probability. "
    if any(row.interval for row in rows):
        drawn = "queries" if isinstance(test, RankedLists) else "rows"
        text += f"Intervals: exact for accuracy, otherwise from bootstrap draws of the {drawn}."
        if not test.interval:
            text += f" {metric} has none: all draws agree, or it is defined in too few of them."
    return {"beside": cells, "beside_text": text.strip()}


def _queries(test: RankedLists, metric: str) -> dict[str, Any]:
    """How the metric is spread over queries, and which queries stand at either end."""
    queries = test.queries
    text = f"{queries.counted} queries count"
    if queries.left_out:
        text += f"; {queries.left_out} without a grade above 0 do not"
    if queries.quartiles is not None and queries.below_chance is not None:
        low, middle, high = (number(quartile) for quartile in queries.quartiles)
        text += f". Half of them lie between {low} and {high}, with {middle} in the middle; "
        text += f"{100 * queries.below_chance:.0f} % are ordered worse than chance would"
    named = [{**asdict(query), "value": number(query.value)} for query in queries.named]
    return {"text": text + ".", "named": named, "figure": safe_svg(figures.queries(queries.histogram, metric))}


def _slider(test: TwoClasses, threshold: float, classes: list[str]) -> dict[str, Any]:
    steps = test.steps
    slider = {
        "steps": steps,
        "start": min(range(len(steps)), key=lambda i: abs(steps[i][0] - threshold)),
        "positives": test.positives,
        "negatives": test.n - test.positives,
    }
    names = {"classes": classes, "rates": list(rates(test.counts))}
    return {"slider": {**slider, **names}, "slider_json": script_json(slider)}


def _curves(test: TwoClasses) -> dict[str, Any]:
    """The three curves with the operating point; precision of no decision at all is drawn at 1, as on the curve."""
    counts, n, positives = test.counts, test.n, test.positives
    decided = counts["tp"] + counts["fp"]
    recall = counts["tp"] / max(positives, 1)
    point = {
        "roc": (counts["fp"] / max(n - positives, 1), recall),
        "pr": (recall, counts["tp"] / decided if decided else 1.0),
        "gain": (decided / n, recall),
    }
    svgs, _ = figures.curve_panels({"test": [test.curves]}, point, positives / n)
    return {"curves": [safe_svg(svg) for svg in svgs]}


def _reliability(bins: list[Bin] | None, several: bool) -> dict[str, Any]:
    if not bins:
        return {}
    text = f"{len(bins)} bins of rows, {min(bin.n for bin in bins)} rows or more in each; bars are exact 95 % "
    text += "intervals. Where probabilities are right, the bars reach the dashed line. "
    text += (
        "With several classes: the probability of the decided class against the share of right decisions."
        if several
        else "The probabilities were calibrated on other rows."
    )
    return {"reliability": safe_svg(figures.reliability(bins, several)), "reliability_text": text}


def classes_section(test: SeveralClasses, names: list[str]) -> dict[str, Any]:
    """The confusion matrix, or where classes are many the most frequent confusions; and every class."""
    matrix, n = test.confusion, len(names)
    rows = [
        {"name": name, **asdict(row), **_numbers(row, "precision", "recall", "f1", "auroc")}
        for name, row in zip(names, test.per_class, strict=True)
    ]
    wrong = [(i, j) for i in range(n) for j in range(n) if i != j and matrix[i][j]]
    wrong.sort(key=lambda pair: -matrix[pair[0]][pair[1]])
    mistakes = [{"truth": names[i], "decided": names[j], "rows": matrix[i][j]} for i, j in wrong[:20]]
    return {"names": names, "matrix": matrix if n <= MOST_IN_MATRIX else None, "mistakes": mistakes, "rows": rows}


def certificate_section(certificate: StoredCertificate | None) -> dict[str, Any] | None:
    """The certificate of the metric's floor as the template wants it; None where the metric states no floor."""
    if certificate is None:
        return None
    rows = [{**asdict(row), **_numbers(row, "value", "slack", "low", "high")} for row in certificate.findings]
    return {**asdict(certificate), "objective_value": number(certificate.objective_value), "rows": rows}


def _numbers(row: Any, *names: str) -> dict[str, str]:
    return {name: number(getattr(row, name)) for name in names}
