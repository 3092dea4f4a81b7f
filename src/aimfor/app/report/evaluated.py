"""Sections about one evaluated part of the data: numbers, slider, curves, classes, reliability, certificate, groups."""

from __future__ import annotations

from typing import Any

from ..run.evaluate.decisions import rates
from . import figures
from .page import between, number, safe_svg, script_json

#: Classes up to which a confusion matrix is shown whole.
MOST_IN_MATRIX = 20


def test_parts(test: dict[str, Any], threshold: float, classes: list[str], metric: str) -> dict[str, Any]:
    """Everything the page says about the test rows."""
    parts = {**beside_part(test, metric), **reliability_part(test)}
    if "queries" in test:
        parts["queries"] = queries_part(test, metric)
    if "confusion" in test:
        parts["classes"] = classes_part(test, classes)
    if "steps" in test:
        parts |= {**slider_part(test, threshold, classes), **curves_part(test), "certificate": certificate_part(test)}
        names = [f"is {name}" for name in classes]
        svg, legend = figures.score_histogram(test["histogram"], threshold, names)
        parts |= {"histogram": safe_svg(svg), "histogram_legend": legend}
        parts |= {"intervals": intervals_part(test), "groups": groups_part(test)}
    return parts


def beside_part(test: dict[str, Any], metric: str) -> dict[str, Any]:
    """The metric, and beside it the numbers every reader asks for, each with what a constant would reach."""
    head = {"name": metric, "value": test["metric"], "interval": test.get("interval"), "constant": test.get("baseline")}
    rows = [head, *test.get("beside", [])]
    shown = [
        {
            "name": row["name"] + ("" if row.get("higher_is_better", True) else " (lower is better)"),
            "value": number(row["value"]),
            "interval": between(row["interval"]),
            "constant": number(row["constant"]),
        }
        for row in rows
    ]
    text = "Without a model: the best value when every row gets the same score, decision or probability. "
    if any(row["interval"] for row in rows):
        drawn = "queries" if "queries" in test else "rows"
        text += f"Intervals: exact for accuracy, otherwise from bootstrap draws of the test {drawn}."
        if not head["interval"]:
            text += f" {metric} has none: all draws agree, or it is defined in too few of them."
    return {"beside": shown, "beside_text": text.strip()}


def queries_part(test: dict[str, Any], metric: str) -> dict[str, Any]:
    """How the metric is spread over the test queries, and which queries stand at either end."""
    found = test["queries"]
    text = f"{found['counted']} test queries count"
    if found["left_out"]:
        text += f"; {found['left_out']} without a grade above 0 do not"
    if found["quartiles"] is not None:
        low, middle, high = (number(one) for one in found["quartiles"])
        text += f". Half of them lie between {low} and {high}, with {middle} in the middle; "
        text += f"{100 * found['below_chance']:.0f} % are ordered worse than chance would"
    named = [{**one, "value": number(one["value"])} for one in found.get("named", [])]
    return {"text": text + ".", "named": named, "figure": safe_svg(figures.queries(found["histogram"], metric))}


def slider_part(test: dict[str, Any], threshold: float, classes: list[str]) -> dict[str, Any]:
    steps = test["steps"]
    slider = {
        "steps": steps,
        "start": min(range(len(steps)), key=lambda i: abs(steps[i][0] - threshold)),
        "positives": test["positives"],
        "negatives": test["n"] - test["positives"],
    }
    names = {"classes": classes, "rates": list(rates(test["counts"]))}
    return {"slider": {**slider, **names}, "slider_json": script_json(slider)}


def curves_part(test: dict[str, Any]) -> dict[str, Any]:
    """The three curves with the operating point; precision of no decision at all is drawn at 1, as on the curve."""
    counts, n, positives = test["counts"], test["n"], test["positives"]
    decided = counts["tp"] + counts["fp"]
    recall = counts["tp"] / max(positives, 1)
    point = {
        "roc": (counts["fp"] / max(n - positives, 1), recall),
        "pr": (recall, counts["tp"] / decided if decided else 1.0),
        "gain": (decided / n, recall),
    }
    svgs, _ = figures.curve_panels({"test": [test["curves"]]}, point, positives / n)
    return {"curves": [safe_svg(svg) for svg in svgs]}


def reliability_part(test: dict[str, Any]) -> dict[str, Any]:
    bins = test.get("reliability")
    if not bins:
        return {}
    several = "confusion" in test
    text = f"{len(bins)} bins of test rows, {min(one['n'] for one in bins)} rows or more in each; bars are exact 95 % "
    text += "intervals. Where probabilities are right, the bars reach the dashed line. "
    text += (
        "The probabilities were calibrated on other rows."
        if not several
        else ("With several classes: the probability of the decided class against the share of right decisions.")
    )
    return {"reliability": safe_svg(figures.reliability(bins, several)), "reliability_text": text}


def classes_part(test: dict[str, Any], names: list[str]) -> dict[str, Any]:
    matrix = test["confusion"]
    shown = ("precision", "recall", "f1", "auroc")
    rows = [
        {"name": name, **row, **{key: number(row[key]) for key in shown}}
        for name, row in zip(names, test["per_class"], strict=True)
    ]
    mistakes = [
        {"truth": names[i], "decided": names[j], "rows": matrix[i][j]}
        for i in range(len(names))
        for j in range(len(names))
        if i != j and matrix[i][j]
    ]
    mistakes.sort(key=lambda one: -one["rows"])
    small = len(names) <= MOST_IN_MATRIX
    return {"names": names, "matrix": matrix if small else None, "mistakes": mistakes[:20], "rows": rows}


def certificate_part(test: dict[str, Any]) -> dict[str, Any] | None:
    """The certificate of the metric's floor as the template wants it; None where the metric states no floor."""
    found = test.get("certificate")
    if found is None:
        return None
    shown = ("value", "slack", "low", "high")
    rows = [{**finding, **{key: number(finding[key]) for key in shown}} for finding in found["findings"]]
    return {**found, "objective_value": number(found["objective_value"]), "rows": rows}


def intervals_part(test: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"name": name, "seen": number(test["rates"][name]), "low": number(low), "high": number(high)}
        for name, (low, high) in test["intervals"].items()
    ]


def groups_part(test: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {**row, "recall": number(row["recall"]), "fpr": number(row["false positive rate"]),
         "precision": number(row["precision"])}
        for row in test.get("groups", [])
    ]  # fmt: skip
