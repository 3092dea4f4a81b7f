"""Sections about one evaluated part of the data: numbers, slider, curves, classes, reliability, certificate, groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..targets.evaluate.decisions import rates
from ..targets.evaluate.results import AnyPart, Beside, Bin, CertificateFound, RankedLists, SeveralClasses, TwoClasses
from . import figures
from .page import between, number, safe_svg, script_json

#: Classes up to which a confusion matrix is shown whole.
MOST_IN_MATRIX = 20


def part_sections(test: AnyPart, threshold: float, classes: list[str], metric: str) -> dict[str, Any]:
    """Everything the page says about the rows that judge."""
    sections = beside_section(test, metric)
    if isinstance(test, RankedLists):
        return {**sections, "queries": queries_section(test, metric)}
    sections |= reliability_section(test.reliability, isinstance(test, SeveralClasses))
    if isinstance(test, SeveralClasses):
        return {**sections, "classes": classes_section(test, classes)}
    svg, legend = figures.score_histogram(test.histogram, threshold, [f"is {name}" for name in classes])
    return {
        **sections,
        **slider_section(test, threshold, classes),
        **curves_section(test),
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


def beside_section(test: AnyPart, metric: str) -> dict[str, Any]:
    """The metric, and beside it the numbers every reader asks for, each with what a constant would reach."""
    rows = [Beside(metric, test.metric, test.baseline, interval=test.interval), *test.beside]
    shown = [
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
    return {"beside": shown, "beside_text": text.strip()}


def queries_section(test: RankedLists, metric: str) -> dict[str, Any]:
    """How the metric is spread over queries, and which queries stand at either end."""
    found = test.queries
    text = f"{found.counted} queries count"
    if found.left_out:
        text += f"; {found.left_out} without a grade above 0 do not"
    if found.quartiles is not None and found.below_chance is not None:
        low, middle, high = (number(one) for one in found.quartiles)
        text += f". Half of them lie between {low} and {high}, with {middle} in the middle; "
        text += f"{100 * found.below_chance:.0f} % are ordered worse than chance would"
    named = [{**asdict(one), "value": number(one.value)} for one in found.named]
    return {"text": text + ".", "named": named, "figure": safe_svg(figures.queries(found.histogram, metric))}


def slider_section(test: TwoClasses, threshold: float, classes: list[str]) -> dict[str, Any]:
    steps = test.steps
    slider = {
        "steps": steps,
        "start": min(range(len(steps)), key=lambda i: abs(steps[i][0] - threshold)),
        "positives": test.positives,
        "negatives": test.n - test.positives,
    }
    names = {"classes": classes, "rates": list(rates(test.counts))}
    return {"slider": {**slider, **names}, "slider_json": script_json(slider)}


def curves_section(test: TwoClasses) -> dict[str, Any]:
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


def reliability_section(bins: list[Bin] | None, several: bool) -> dict[str, Any]:
    if not bins:
        return {}
    text = f"{len(bins)} bins of rows, {min(one.n for one in bins)} rows or more in each; bars are exact 95 % "
    text += "intervals. Where probabilities are right, the bars reach the dashed line. "
    text += (
        "With several classes: the probability of the decided class against the share of right decisions."
        if several
        else "The probabilities were calibrated on other rows."
    )
    return {"reliability": safe_svg(figures.reliability(bins, several)), "reliability_text": text}


def classes_section(test: SeveralClasses, names: list[str]) -> dict[str, Any]:
    matrix, shown = test.confusion, ("precision", "recall", "f1", "auroc")
    rows = [
        {"name": name, **asdict(row), **{key: number(getattr(row, key)) for key in shown}}
        for name, row in zip(names, test.per_class, strict=True)
    ]
    places = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j and matrix[i][j]]
    places.sort(key=lambda place: -matrix[place[0]][place[1]])
    mistakes = [{"truth": names[i], "decided": names[j], "rows": matrix[i][j]} for i, j in places]
    small = len(names) <= MOST_IN_MATRIX
    return {"names": names, "matrix": matrix if small else None, "mistakes": mistakes[:20], "rows": rows}


def certificate_section(found: CertificateFound | None) -> dict[str, Any] | None:
    """The certificate of the metric's floor as the template wants it; None where the metric states no floor."""
    if found is None:
        return None
    shown = ("value", "slack", "low", "high")
    rows = [{**asdict(one), **{key: number(getattr(one, key)) for key in shown}} for one in found.findings]
    return {**asdict(found), "objective_value": number(found.objective_value), "rows": rows}
