"""One self-contained HTML page about a decision: threshold, certificate, curve, guaranteed region, price of a floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..report.figures import decision_curves
from ..report.page import number, safe_svg
from .rows import in_words


def page(document: dict[str, Any]) -> str:
    """The page for what ``decision.json`` holds; user text is escaped by the template."""
    from jinja2 import Environment, StrictUndefined

    text = Path(__file__).with_name("template.html").read_text(encoding="utf8")
    made = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    document = _worded(document, document.get("groups", {}))
    parts = [_part(*one) for one in questions(document)]
    return made.render(document=document, heading=_heading(document), parts=parts, groups=document.get("groups", {}))


def _worded(part: Any, groups: dict[str, list[str]]) -> Any:
    """The document with groups by the file's own words in every text."""
    if isinstance(part, dict):
        return {in_words(key, groups): _worded(value, groups) for key, value in part.items()}
    if isinstance(part, list):
        return [_worded(one, groups) for one in part]
    return in_words(part, groups) if isinstance(part, str) else part


def _heading(document: dict[str, Any]) -> str:
    if document["kind"] == "decision":
        return f"{document['data']}: scores in “{document['score']}”, positive means “{document['positive']}”"
    if document["kind"] == "decisions":
        return f"{document['data']}: floors for {', '.join(document['classes'])}"
    return f"{document['data']}: decide, or hand to a person"


def questions(
    document: dict[str, Any],
) -> list[tuple[str, list[tuple[str, str]], dict[str, Any], dict[str, Any]]]:
    """(name, rows of the table of thresholds, the decision, what is described) for each question answered."""
    if document["kind"] == "decision":
        return [("", thresholds(document), document["decision"], document)]
    if document["kind"] == "abstention":
        cut = document["decision"]["threshold"]
        who = "every row whose largest score is ahead of the next by more than"
        return [("", [] if cut is None else [(who, f"{cut:.10g}")], document["decision"], document)]
    found = []
    for name, described in document["classes"].items():
        decision = document["decisions"][name]
        cut = decision["threshold"]
        rows = [] if cut is None else [(f"{name}, where {document['scores'][name]} is above", f"{cut:.10g}")]
        found.append((name, rows, decision, described))
    return found


def _part(
    name: str, cuts: list[tuple[str, str]], decision: dict[str, Any], described: dict[str, Any]
) -> dict[str, Any]:
    promise, certificate, curve = decision["guarantee"], described["certificate"], described["curve"]
    others = {line: values for line, values in curve.items() if line != "threshold"}
    marked = decision["threshold"] if decision["attribute"] is None else None
    figure, legend = decision_curves(curve["threshold"], others, promise["region"], marked)
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
        for line in described["prices"]
    ]
    return {
        "name": name, "thresholds": cuts, "promise": promise, "problem": described["problem"],
        "objective": described["objective"], "objective_value": number(certificate["objective_value"]),
        "findings": findings, "prices": prices, "figure": safe_svg(figure), "legend": legend,
    }  # fmt: skip


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
