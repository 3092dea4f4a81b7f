"""A decision as JSON and as one self-contained HTML page.

The page has the verdict, then numbers, choices by two sliders, and the curve.
"""

from __future__ import annotations

import json
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from ... import __version__
from ...files import write_text
from .figure import Scale, bands, decision_curves, moving_parts, number, sliders
from .result import Answer, Result, in_words


def as_json(result: Result) -> str:
    return json.dumps(result.to_dict(), indent=1, allow_nan=False)


def write(result: Result, folder: Path, made_by: str) -> Path:
    """``decision.json`` and ``decision.html``, which names the command and whose path is returned, in the folder."""
    text = page(result, made_by)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "decision.json", as_json(result) + "\n")
    write_text(folder / "decision.html", text)
    return folder / "decision.html"


def page(result: Result, made_by: str) -> str:
    """The page, and the command that made it; every text of the user's is escaped."""
    sections = [_Section(answer, result, position) for position, answer in enumerate(result.answers, 1)]
    constraints = ", ".join(dict.fromkeys(repr(own) for answer in result.answers for own in answer.promises))
    heading, single = _heading(result), not result.summary
    verdict = sections[0].verdict("h1") if single else f"<h1>{_text(result, result.summary)}</h1>"
    html = [
        _head(_text(result, f"{result.data}: thresholds for {constraints}")),
        f'{verdict}<p class="about">{_text(result, heading)}</p>',
    ]
    if not single:
        html.append(_overview(result, sections))
    if result.kind == "abstention":
        html.append(
            "<p>The class with the largest score is decided where it is clearly ahead; the other rows go to a person. "
            "Coverage is the share of rows decided, error the share of those decisions that are wrong.</p>"
        )
    html += [_notes(result), *(section.html() for section in sections)]
    html.append(
        "<p>The guarantee is for independent rows drawn as these were; it says nothing about a population that has "
        "changed. <code>aimfor check</code> watches it on new labelled rows. "
        f"aimfor {escape(__version__)}, {date.today()}: <code>{escape(made_by)}</code></p>"
        f"\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
    return "\n".join(html)


def _text(result: Result, text: str) -> str:
    """Groups by the file's own words, and nothing that is HTML."""
    return escape(in_words(text, result.groups))


def _head(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>"
    )


def _heading(result: Result) -> str:
    if result.kind == "decision":
        return f"{result.data}: scores in “{result.facts['score']}”, positive means “{result.facts['positive']}”"
    if result.kind == "decisions":
        return f"{result.data}: thresholds for {', '.join(answer.name for answer in result.answers)}"
    return f"{result.data}: decide, or hand to a person"


def _overview(result: Result, sections: list[_Section]) -> str:
    rows = []
    for section in sections:
        thresholds, name = section.answer.thresholds, escape(section.answer.name)
        value = section.objective_value if thresholds else "–"
        rows.append(
            [f'<a href="#part{section.position}">{name}</a>', thresholds[0][1] if thresholds else "none", value]
        )
    return _table([escape(result.facts["attribute"]), "threshold", sections[0].objective], rows)


class _Section:
    """One question and its answer."""

    def __init__(self, answer: Answer, result: Result, position: int) -> None:
        self.answer, self.result, self.position = answer, result, position
        self.marked = answer.decision.threshold if answer.decision.attribute is None else None
        self.objective = self.text(repr(answer.problem.objective))
        certificate = answer.decision.certificate
        self.findings = () if certificate is None else certificate.findings
        self.objective_value = number(None if certificate is None else certificate.objective_value)
        curve = answer.beside.curve
        self.lines = {in_words(line, result.groups): values for line, values in curve.items() if line != "threshold"}
        self.scale = Scale.of(curve["threshold"], self.lines)

    def text(self, text: str) -> str:
        return _text(self.result, text)

    def html(self) -> str:
        html = [self._answer(), self._on_rows(), self._curve(), self._prices()]
        if self.answer.name:
            name = escape(self.answer.name)
            html = [f'<h2 class="part" id="part{self.position}">{name}</h2>', self.verdict("p"), *html]
        return "\n".join(html)

    def verdict(self, tag: str) -> str:
        kind = "answer" if self.answer.thresholds else "answer none"
        return f'<{tag} class="{kind}">{self.text(self.answer.verdict(self.result.groups))}</{tag}>'

    def _answer(self) -> str:
        head = "threshold" if self.answer.thresholds else "best effort, nothing is promised"
        rows = [[self.text(where), text] for where, text in self.answer.thresholds or self.answer.best_effort]
        sentence, problem = self.text(self.answer.guarantee.sentence), self.text(repr(self.answer.problem))
        return (_table(["for", head], rows) if rows else "") + f"<p>{sentence}</p><pre>{problem}</pre>"

    def _on_rows(self) -> str:
        promise, given = self.answer.guarantee, bool(self.answer.thresholds)
        value = f"{self.objective} is {self.objective_value}. " if given else ""
        text = (
            f"<h2>On the {promise.rows} calibration rows</h2>\n<p>{value}The order of the tests was learned "
            f"from {promise.learned_on} other rows.</p>"
        )
        rows = [
            [self.text(finding.constraint), number(finding.value), f"{number(finding.low)} to {number(finding.high)}"]
            for finding in self.findings
        ]
        return text + (_table(["constraint", "value", "confidence bounds"], rows) if given else "")

    def _curve(self) -> str:
        beside, choices = self.answer.beside, _worded(self.answer.beside.choices, self.result)
        figure, legend = decision_curves(
            self.scale, beside.curve["threshold"], self.lines, self.answer.guarantee.region, self.marked,
            {} if choices is None else bands(choices, self.scale),
        )  # fmt: skip
        shaded = (
            " The green part holds the thresholds that were tested and accepted: the constraints hold at all of them "
            "together with the stated confidence. The dashed line is the threshold chosen."
        )
        band = (
            " The grey band holds at every threshold at once; the dotted lines are what the sliders ask for."
            if choices
            else ""
        )
        names = " &ensp;".join(f'<span style="color: {shade}">■</span> {escape(name)}' for shade, name in legend)
        drawn = (
            "<h2>Every threshold</h2>\n<p>Rates by threshold, on the calibration rows."
            f"{shaded if self.answer.thresholds else ''}{band}</p>\n<p>{names}</p>\n{figure}"
        )
        if choices is None:
            return drawn
        moving = moving_parts(choices, self.scale, beside.prices, self.marked, self.objective_value)
        return f'<section class="choose">{sliders(choices, self.objective, self.position, moving)}{drawn}</section>'

    def _prices(self) -> str:
        if not self.answer.beside.prices:
            return ""
        rows = [
            [
                self.text(line["constraint"]),
                "no threshold" if line["objective"] is None else number(line["objective"]),
                "–" if line["threshold"] is None else f"{line['threshold']:.6g}",
            ]
            for line in self.answer.beside.prices
        ]
        return (
            f"<h2>What another bound would cost</h2>\n<p>The best {self.objective} that could be guaranteed with one "
            "bound changed. Each line answers its own question; choosing a line after looking at all of them is not "
            "covered by the guarantee.</p>" + _table(["with", self.objective, "threshold"], rows)
        )


def _worded(value: Any, result: Result) -> Any:
    """The same with groups by the file's own words in every text."""
    if isinstance(value, dict):
        return {name: _worded(entry, result) for name, entry in value.items()}
    if isinstance(value, list):
        return [_worded(entry, result) for entry in value]
    return in_words(value, result.groups) if isinstance(value, str) else value


def _notes(result: Result) -> str:
    lines = [
        f"{name}: " + ", ".join(f"{code} is “{label}”" for code, label in enumerate(labels))
        for name, labels in result.groups.items()
    ]
    items = "".join(f"<li>{_text(result, line)}</li>\n" for line in [*lines, *result.all_notes])
    return f"<ul>\n{items}</ul>" if items else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Cells are HTML."""
    lines = ["".join(f'<th scope="col">{cell}</th>' for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return '\n<div class="wide"><table>\n' + "".join(f"<tr>{line}</tr>\n" for line in lines) + "</table></div>"


#: How the page looks, and what moves on it: no file beside it, no network.
STYLE = """
:root { color-scheme: light dark; --ink: #1d1f21; --soft: #5b6167; --paper: #fff; --line: #d5d8dc; --panel: #f4f5f6;
  --good: #2f7d3b; --none: #b8500f; --accent: #0067b8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7e9; --soft: #a5abb2; --paper: #17191c; --line: #3b4046;
  --panel: #212429; --good: #6cc07a; --none: #f0955a; --accent: #6cb6f5; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper); overflow-wrap: break-word; }
h1 { font-size: 1.35rem; line-height: 1.4; font-weight: 600; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.about, caption, .hint { color: var(--soft); }
.answer { border-left: 5px solid var(--good); padding-left: .9rem; } .answer.none { border-color: var(--none); }
.part { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; } caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
pre, .panel { background: var(--panel); padding: .7rem 1rem; border-radius: .4rem; } pre { white-space: pre-wrap; }
.panel label { display: block; margin-top: .6rem; }
.panel input, .panel select { width: 100%; accent-color: var(--accent); }
.panel output { font-weight: 600; } .panel [aria-live] { min-height: 4.5em; margin: .8rem 0; }
input:focus-visible, select:focus-visible, a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
a { color: var(--accent); } svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
svg .axis { stroke: var(--line); } svg .mark { stroke: var(--ink); } svg .off { display: none; }
@media (max-width: 600px) { svg text { font-size: 21px; } th, td { padding-right: .6rem; } }
[hidden] { display: none !important; }
"""

#: Everything that is said stands in the page already; this picks from it.
SCRIPT = """
for (const part of document.querySelectorAll('.choose')) {
  const all = JSON.parse(part.querySelector('script').textContent), at = name => part.querySelector('.' + name);
  const which = at('which'), bound = at('bound'), sure = at('sure');
  const many = labels => labels.toLocaleString('en');
  const upper = text => text[0].toUpperCase() + text.slice(1);
  function show() {
    const one = all.constraints[+which.value], words = one.words[+bound.value];
    const confidence = `${+(100 * all.confidences[+sure.value]).toPrecision(6)} %`;
    const [place, labels] = one.cells[+sure.value][+bound.value], without = one.without[+bound.value];
    const before = +sure.value === all.confidence ? one.before[+bound.value] : null;
    at('bound-now').textContent = words;
    at('sure-now').textContent = confidence;
    bound.setAttribute('aria-valuetext', words);
    sure.setAttribute('aria-valuetext', confidence);
    let text = `No threshold keeps this with ${confidence} confidence: ${words}.`;
    if (place !== null) {
      text = `Use ${all.thresholds[place]}. ${upper(words)}, with ${confidence} confidence. `
        + upper(all.kept.replace('{}', all.objective[place]))
        + (without === null ? '.' : `; ${all.would.replace('{}', without)}.`);
    }
    const use = place === null ? 'do' : 'halve the difference';
    if (labels) text += ` About ${many(labels)} more labelled cases would ${use}.`;
    at('said').textContent = text;
    at('n-threshold').textContent = place === null ? 'none' : all.thresholds[place];
    at('n-kept').textContent = place === null ? '–' : all.objective[place];
    at('n-without').textContent = without === null ? '–' : without;
    at('n-labels').textContent = labels === null ? '–' : many(labels);
    at('n-before').textContent = before ? `${before[0]} (${before[1]})` : '–';
    for (const line of part.querySelectorAll('.band'))
      line.classList.toggle('off', line.dataset.at !== `${which.value} ${sure.value}`);
    const late = at('late'), floor = at('floor');
    late.classList.toggle('off', place === null);
    if (place !== null) late.setAttribute('transform', `translate(${all.x[place]} 0)`);
    floor.classList.toggle('off', one.y[+bound.value] === null);
    if (one.y[+bound.value] !== null) floor.setAttribute('transform', `translate(0 ${one.y[+bound.value]})`);
  }
  function other() {
    const one = all.constraints[+which.value];
    bound.max = one.bounds.length - 1;
    bound.value = one.asked;
    show();
  }
  which.addEventListener('change', other);
  for (const slider of [bound, sure]) slider.addEventListener('input', show);
  part.querySelector('.panel').hidden = false;
  sure.max = all.confidences.length - 1;
  sure.value = all.confidence;
  other();
}
"""
