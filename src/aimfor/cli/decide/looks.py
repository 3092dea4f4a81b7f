"""How the page about a decision looks, and what moves on it: no file beside it, no network."""

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
