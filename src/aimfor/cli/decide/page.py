"""A decision as lines, as JSON, and as one self-contained HTML page.

The page has the verdict, then numbers, choices by two sliders, and the curve.
"""

from __future__ import annotations

import json
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from ...files import write_text
from .figure import Scale, bands, decision_curves, number, places, sliders
from .looks import SCRIPT, STYLE
from .parts import Answered, questions
from .rows import in_words


def given(document: dict[str, Any]) -> bool:
    """Whether there is any threshold with a promise."""
    return any(one.decision["threshold"] is not None for one in questions(document))


def as_text(document: dict[str, Any]) -> list[str]:
    """What the terminal shows: the verdict, thresholds or the best effort, called that; notes, certificates."""
    single = document["kind"] == "decision"

    def line(one: tuple[str, str]) -> str:
        return f"{document['score']} > {one[1]} for {one[0]}." if single else " ".join(one)

    found = questions(document)
    cuts = [one for part in found for one in part.cuts]
    lines = [document["verdict"]]
    if single and len(cuts) == 1:
        lines = [lines[0].replace("Use ", f"Use {document['score']} > ", 1)]
    else:
        lines += [f"{'Use ' if single else ''}{line(one)}" for one in cuts]
    lines += [*document["notes"], *document["sentences"]]
    lines += [f"Best effort, nothing is promised: {line(one)}" for part in found for one in part.best]
    return [in_words(text, document.get("groups", {})) for text in lines]


def as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False)


def write(document: dict[str, Any], folder: Path, made_by: str) -> Path:
    """``decision.json`` and ``decision.html``, which names the command and whose path is returned, in the folder."""
    text = page(document, made_by)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "decision.json", as_json(document) + "\n")
    write_text(folder / "decision.html", text)
    return folder / "decision.html"


def page(document: dict[str, Any], made_by: str) -> str:
    """The page for what ``decision.json`` holds and the command that made it; every text of the user's is escaped."""
    document = _worded(document, document.get("groups", {}))
    found = [_Part(one) for one in questions(document)]
    title = f"{document['data']}: thresholds for {', '.join(document.get('constraints', []))}"
    parts = [_head(title)]
    if len(found) == 1:
        parts += [found[0].verdict("h1"), f'<p class="about">{escape(_heading(document))}</p>']
    else:
        head, about = (escape(text) for text in (document["verdict"], _heading(document)))
        parts += [f'<h1>{head}</h1><p class="about">{about}</p>', _overview(document, found)]
    if document["kind"] == "abstention":
        parts.append(
            "<p>The class with the largest score is decided where it is clearly ahead; the other rows go to a person. "
            "Coverage is the share of rows decided, error the share of those decisions that are wrong.</p>"
        )
    parts.append(_notes(document))
    parts += [part.html(number) for number, part in enumerate(found, 1)]
    parts.append(
        "<p>The guarantee is for independent rows drawn as these were; it says nothing about a population that has "
        "changed. <code>aimfor check</code> watches it on new labelled rows. "
        f"aimfor {escape(document['aimfor'])}, {date.today()}: <code>{escape(made_by)}</code></p>"
        f"\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
    return "\n".join(parts)


def _head(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>"
    )


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
        return f"{document['data']}: thresholds for {', '.join(document['decisions'])}"
    return f"{document['data']}: decide, or hand to a person"


def _overview(document: dict[str, Any], parts: list[_Part]) -> str:
    rows = [
        [f'<a href="#part{number}">{escape(part.name)}</a>', escape(part.cuts[0][1] if part.cuts else "none"),
         part.objective_value if part.cuts else "–"]
        for number, part in enumerate(parts, 1)
    ]  # fmt: skip
    head = [escape(document["attribute"]), "threshold", escape(document["objective"])]
    return _table(head, rows)


class _Part:
    """One question and its answer."""

    def __init__(self, one: Answered) -> None:
        self.name, self.cuts, self.promise, self.described = one.name, one.cuts, one.promise, one.described
        self.best, described = one.best, one.described
        self.marked = one.decision["threshold"] if one.decision["attribute"] is None else None
        self.objective = escape(described["objective"])
        self.objective_value = number(described["certificate"]["objective_value"])
        self.choices = described["choices"]
        curve = described["curve"]
        self.lines = {line: values for line, values in curve.items() if line != "threshold"}
        self.scale = Scale.of(curve["threshold"], self.lines)

    def html(self, place: int) -> str:
        parts = []
        if self.name:
            parts = [f'<h2 class="part" id="part{place}">{escape(self.name)}</h2>', self.verdict("p")]
        return "\n".join([*parts, self._answer(), self._on_rows(), self._curve(place), self._prices()])

    def verdict(self, tag: str) -> str:
        kind = "answer" if self.cuts else "answer none"
        return f'<{tag} class="{kind}">{escape(self.described["verdict"])}</{tag}>'

    def _answer(self) -> str:
        rows = [[escape(who), escape(cut)] for who, cut in self.cuts or self.best]
        head = "threshold" if self.cuts else "best effort, nothing is promised"
        return (
            _table(["for", head], rows) if rows else ""
        ) + f"<p>{escape(self.promise['sentence'])}</p><pre>{escape(self.described['problem'])}</pre>"

    def _on_rows(self) -> str:
        value = f"{self.objective} is {self.objective_value}. " if self.cuts else ""
        text = (
            f"<h2>On the {self.promise['rows']} calibration rows</h2>\n<p>{value}The order of the tests was learned "
            f"from {self.promise['learned_on']} other rows.</p>"
        )
        rows = [
            [escape(one["constraint"]), number(one["value"]), f"{number(one['low'])} to {number(one['high'])}"]
            for one in self.described["certificate"]["findings"]
        ]
        return text + (_table(["constraint", "value", "confidence bounds"], rows) if self.cuts else "")

    def _curve(self, place: int) -> str:
        figure, legend = decision_curves(
            self.scale, self.described["curve"]["threshold"], self.lines, self.promise["region"], self.marked,
            {} if self.choices is None else bands(self.choices, self.scale),
        )  # fmt: skip
        shaded = (
            " The green part holds the thresholds that were tested and accepted: the constraints hold at all of them "
            "together with the stated confidence. The dashed line is the threshold chosen."
        )
        band = (
            " The grey band holds at every threshold at once; the dotted lines are what the sliders ask for."
            if self.choices
            else ""
        )
        names = " &ensp;".join(f'<span style="color: {shade}">■</span> {escape(name)}' for shade, name in legend)
        drawn = (
            "<h2>Every threshold</h2>\n<p>Rates by threshold, on the calibration rows."
            f"{shaded if self.cuts else ''}{band}</p>\n<p>{names}</p>\n{figure}"
        )
        if self.choices is None:
            return drawn
        moving = places(self.choices, self.scale, self.described["prices"], self.marked, self.objective_value)
        return f'<section class="choose">{sliders(self.choices, self.objective, place, moving)}{drawn}</section>'

    def _prices(self) -> str:
        if not self.described["prices"]:
            return ""
        rows = [
            [
                escape(line["constraint"]),
                "no threshold" if line["objective"] is None else number(line["objective"]),
                "–" if line["threshold"] is None else f"{line['threshold']:.6g}",
            ]
            for line in self.described["prices"]
        ]
        return (
            f"<h2>What another bound would cost</h2>\n<p>The best {self.objective} that could be guaranteed with one "
            "bound changed. Each line answers its own question; choosing a line after looking at all of them is not "
            "covered by the guarantee.</p>" + _table(["with", self.objective, "threshold"], rows)
        )


def _notes(document: dict[str, Any]) -> str:
    lines = [
        f"{name}: " + ", ".join(f"{place} is “{label}”" for place, label in enumerate(labels))
        for name, labels in document.get("groups", {}).items()
    ]
    lines += document["notes"]
    items = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return f"<ul>\n{items}</ul>" if items else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Cells are HTML."""
    lines = ["".join(f'<th scope="col">{cell}</th>' for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return '\n<div class="wide"><table>\n' + "".join(f"<tr>{line}</tr>\n" for line in lines) + "</table></div>"
