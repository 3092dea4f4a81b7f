"""One self-contained HTML page about a decision: threshold, certificate, curve, guaranteed region, price of a floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..report.figures import decision_curves
from ..report.page import number, safe_svg


def page(document: dict[str, Any]) -> str:
    """The page for what ``decision.json`` holds; user text is escaped by the template."""
    from jinja2 import Environment, StrictUndefined

    decision, certificate = document["decision"], document["certificate"]
    promise = decision["guarantee"]
    curve = document["curve"]
    others = {name: values for name, values in curve.items() if name != "threshold"}
    start = promise["start"][0] if len(promise["start"]) == 1 else None
    marked = decision["threshold"] if decision["attribute"] is None else None
    figure, legend = decision_curves(
        curve["threshold"], others, promise["region"], marked if marked is not None else start
    )
    findings = [
        {**finding, **{key: number(finding[key]) for key in ("value", "low", "high")}}
        for finding in certificate["findings"]
    ]
    prices = [
        {
            **line,
            "objective": "no threshold" if line["objective"] is None else number(line["objective"]),
            "threshold": "–" if line["threshold"] is None else f"{line['threshold']:.6g}",
        }
        for line in document["prices"]
    ]
    text = Path(__file__).with_name("template.html").read_text(encoding="utf8")
    made = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    return made.render(
        document=document,
        thresholds=thresholds(document),
        sentence=promise["sentence"],
        promise=promise,
        objective_value=number(certificate["objective_value"]),
        findings=findings,
        prices=prices,
        figure=safe_svg(figure),
        legend=legend,
    )


def thresholds(document: dict[str, Any]) -> list[tuple[str, str]]:
    """(who, threshold) with the words of the file for groups; empty where none can be guaranteed."""
    decision = document["decision"]
    if decision["threshold"] is None:
        return []
    if decision["attribute"] is None:
        return [("everyone", f"{decision['threshold']:.10g}")]
    words = document["groups"][decision["attribute"]]
    return [
        (f"{decision['attribute']} = {words[int(float(label))]}", f"{cut:.10g}")
        for label, cut in decision["thresholds"].items()
    ]
