"""EVIDENCE.md: every claim of the four papers with our numbers and a verdict, all computed from cached results."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import NAMES
from .claims.catalogue import CLAIMS
from .claims.judging import Entries
from .experiments.meng import heads
from .experiments.ours import (
    autogluon,
    expected,
    many_levels,
    mq2008_committee,
    retrieval,
    retrieval_features,
    strong_rivals,
)
from .experiments.ravi import rate_duals, second_label, weak_boxes
from .experiments.song import epsilon
from .map import curves
from .map.page import draw, map_lines, write_caption, write_choices
from .report import action_board, committee_board, detection_board, pu_board, scratch_board
from .report.batch_size_board import BATCHES, batch_size_lines
from .report.constraints_board import constraints_board
from .report.guarantee_board import guarantee_board
from .report.meng_board import MENG, meng_lines
from .report.pages import folded
from .report.pictures_board import FEATURES, MASKS, SMOOTH, mask_lines, smooth_voc_lines, voc_lines
from .report.scoreboard import Score, lines, markdown, score_table, scores
from .run import gathered_cells, load

INTRO = """# Evidence

Where a loss for the metric pays, what became of the four papers' claims, and how the program does. Every number is
computed from the cells in `paper/results/` by `python -m paper --evidence`; `python -m paper NAME` measures those of
a section again. Intervals are 95 %, paired by seed (Student's t). Data sets and networks are small; `--full` runs the
larger ones.
"""
VERDICTS = """Three verdicts. Margins and distances were set when earlier numbers were known. *Confirmed*: the
interval of the claimed difference lies above zero; for "as good as", the whole interval lies within a margin of half a
point of accuracy, one point of mean IoU or 1 % of an optimum. *Not confirmed at the paper's setting*: it does not, and
the setting is near enough to the paper's for that to speak of the claim. *Not testable here*: it does not, but network,
data or machine are too far from the paper's for a failure to mean anything. A claim that holds in part is not
confirmed, and says which part.
"""
OURS = """## Does aimfor's default help?
"""
COMMITTEE = """### The committee, the default of `aimfor train` on tables (`committee`)

A linear model, two kinds of boosted trees and a network predict out of fold, and the metric sets their weights. In the
cells below the same network trained further on the metric sat with them; what it added is why it left. The rivals
are LightGBM, histogram gradient boosting, logistic regression and one network, each refitted on all training rows with
a tuned threshold; the best of them is chosen on held-out training rows. `aimfor train`, `aimfor compare` and
`MetricClassifier` all call the same function, `fit_ensemble`.
"""
EARLIER = """### The earlier default: one network with a final phase

**The results below belong to an earlier default.** `aimfor train` no longer uses it on tables, and never used it in
this form on pictures, masks or ranked lists. They are kept because they show what metric losses add to one network.

The rival is the checkpoint that is best on validation data, among all checkpoints of cross-entropy, weighted
cross-entropy, cross-entropy on balanced batches and focal loss (on tables also LibAUC's two losses, on images its AUCM;
on ranked lists pointwise, pairwise and listwise losses). The best of these also continues with its own loss, for as
many steps as the default gets: at a tenth of its learning rate, and at its full rate with averaged weights.

The default continues from the rivals' best checkpoint at the same learning rate, with averaged weights. It uses the
rival's own loss; it switches to the metric's loss, or to a refitted last layer (`HeadFitter`), only if that is better
in 95 % of the bootstrap draws of the validation data; and it does not continue at all if continuing is worse in every
draw. It then repeats the chosen training on **all** labelled data, validation data included, and keeps the threshold
found before. This final phase needs no metric loss, so the last column gives it to the rival as well: what remains
there is what the metric losses add. Test data is read once. docs/reproduce.md tells how the default was found, and what
else was tried. On ranked lists the final phase lost (the last column shows by how much), so the default there is the
rival unchanged.

On masks the rivals are cross-entropy, weighted cross-entropy, Dice and Lovász losses. The default there is whatever is
best on validation data: one of their checkpoints, the best one continued with its own loss, or the best one fine-tuned
on IoU, without a final phase on all data. On VOC actions the default averages the weights of three networks, one
trained with weighted cross-entropy and two with AP losses; the last column averages the weights of the rivals.
"""


def gathered(folder: Path) -> dict[str, Entries]:
    """Cached results by experiment, and the rows of benchmarks beside them as ``bench:<name>``."""
    results = {}
    for path in sorted((folder.parent / "benchmarks" / "results").glob("*.json")):
        results[f"bench:{path.stem}"] = json.loads(path.read_text(encoding="utf8"))["rows"]
    for name in NAMES:
        cells = gathered_cells(folder / name)
        if cells:
            # Cells of a network chosen by --model are for their own report; the page is about one network.
            results[name] = [entry for entry in cells if entry.get("model") is None]
    return results


def render(results: dict[str, Entries]) -> str:
    """The whole page as Markdown."""
    judged = [(claim, claim.judged(results)) for claim in CLAIMS]
    rows = [(c.paper, c.where, c.claim, c.setting, c.distance, j.numbers or "–", f"**{j.verdict}**") for c, j in judged]
    counts = Counter(judgement.verdict.split(":")[0] for _, judgement in judged)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    head = ("paper", "where", "claim", "our setting", "how far from the paper's", "our numbers", "verdict")
    claims = [f"## The papers' claims: {summary}", "", VERDICTS, *folded("Every claim", [markdown(head, rows)])]
    near = _papers_tables(results)
    boards = [*_scoreboards(results), *guarantee_board(results)]
    rest = [*near, OURS, *_our_tables(results), EARLIER, *boards]
    return "\n".join([INTRO, *map_lines(results), *claims, *_sections_folded("\n".join(rest))])


def _sections_folded(text: str) -> list[str]:
    """Headings, and the first paragraph of a chapter; all else behind folds."""
    page: list[str] = []
    for section in re.split(r"^(?=###? )", text, flags=re.MULTILINE):
        heading, _, body = section.strip().partition("\n")
        opening, _, rest = ("", "", body) if heading.startswith("### ") else body.strip().partition("\n\n")
        page += [text for paragraph in (heading, opening) if paragraph for text in (paragraph, "")]
        page += folded("Setting and tables", [rest.strip()]) if rest.strip() else []
    return page


def _papers_tables(results: dict[str, Entries]) -> list[str]:
    """The papers' own tables at the nearest setting that fits a small machine, with their numbers beside ours."""
    boards: dict[str, Any] = {
        "meng_heads": heads,
        "song_action": action_board,
        "song_detection": detection_board,
        "song_epsilon": epsilon,
        "positive_unlabelled": pu_board,
        "weak_boxes": weak_boxes,
        "second_label": second_label,
        "rate_duals": rate_duals,
    }
    text: list[str] = []
    for name, board in boards.items():
        if results.get(name):
            text += [f"### {board.TITLE} (`{name}`)", "", *board.lines(results[name])]
    return text


def _titled(module: Any, name: str) -> str:
    return f"### {module.TITLE} (`{name}`)\n\n{module.SETTING}\n"


def _our_tables(results: dict[str, Entries]) -> list[str]:
    """Sections of what the program and the library do, as far as they were measured."""

    def subsections(module: Any) -> Callable[[Any], Sequence[str]]:
        return functools.partial(module.summary_lines, level="####")

    sections: dict[str, tuple[str, Callable[[Any], Sequence[str]]]] = {
        "from_scratch": (_titled(scratch_board, "from_scratch"), scratch_board.summary_lines),
        "committee": (COMMITTEE, subsections(committee_board)),
        "strong_rivals": (_titled(strong_rivals, "strong_rivals"), subsections(strong_rivals)),
        "many_levels": (_titled(many_levels, "many_levels"), many_levels.summary_lines),
        "expected": (_titled(expected, "expected"), expected.summary_lines),
        "autogluon": (_titled(autogluon, "autogluon"), subsections(autogluon)),
        "mq2008_committee": (_titled(mq2008_committee, "mq2008_committee"), subsections(mq2008_committee)),
        "retrieval": (_titled(retrieval, "retrieval"), subsections(retrieval)),
        "voc_features": (FEATURES, voc_lines),
        "voc_smooth": (SMOOTH, smooth_voc_lines),
        "meng_features": (MENG, meng_lines),
        "retrieval_features": (retrieval_features.TEXT, retrieval_features.retrieval_lines),
        "mask_offsets": (MASKS, mask_lines),
        "batch_size": (BATCHES, batch_size_lines),
    }
    text: list[str] = []
    for name, (heading, lines_of) in sections.items():
        if results.get(name):
            text += [heading, *lines_of(results[name]), ""]
    return text


def _scoreboards(results: dict[str, Entries]) -> list[str]:
    text: list[str] = []
    for name, entries in results.items():
        first = entries[0].get("result", {"": None})
        if not all(isinstance(values, dict) and {"default", "rival"} <= set(values) for values in first.values()):
            continue
        table = lines(entries, lambda cell: " ".join(str(v) for k, v in cell.items() if k != "seed"))
        text += [f"### {load(name).title} (`{name}`)", "", score_table(table), "", _chosen(entries), ""]
        text += [f"{sentence}\n" for sentence in _shortcomings(scores(table))]
    if results.get("adult_constraints"):
        text.append(constraints_board(results["adult_constraints"]))
    return text or ["No results yet."]


def _shortcomings(all_scores: list[Score]) -> list[str]:
    """Where the default is not above the rival in the median, seldom significantly so, or below it in a cell."""
    named = {
        "Not above the best rival in the median cell": [s.metric for s in all_scores if s.median[0] <= 0],
        "Significantly better in fewer than a third of the cells": [
            f"{s.metric} ({s.better} of {s.cells})" for s in all_scores if 3 * s.better < s.cells
        ],
        "Significantly worse in a cell": [
            f"{s.metric} ({s.worse} of {s.cells}, after Holm's correction {s.surely[1]})" for s in all_scores if s.worse
        ],
    }
    return [f"{words}: {', '.join(metrics)}." for words, metrics in named.items() if metrics]


KINDS = (
    ("head", "a refitted head"),
    ("fine-tuned, averaged", "an average of networks fine-tuned on the metric and on weighted cross-entropy"),
    ("fine", "fine-tuning on the metric"),
)


def _chosen(entries: Entries) -> str:
    """How often each kind of candidate was the default."""
    names = [str(metric["default"]["name"]) for entry in entries for metric in entry["result"].values()]
    counts = Counter(_kind(name) for name in names)
    shares = ", ".join(f"{kind} in {count / len(names):.0%}" for kind, count in counts.most_common())
    return f"The default was {shares} of {len(names)} runs."


def _kind(candidate: str) -> str:
    named = next((words for start, words in KINDS if candidate.startswith(start)), None)
    return named or ("the rival's own loss, on all data" if candidate.endswith("all data") else "the rival as it is")


def write(results: Path, page: Path) -> None:
    stored = gathered(results)
    page.write_text(render(stored) + "\n", encoding="utf8")
    draw(stored, page.parent / "docs" / "map.svg")
    curves.draw(stored.get("map_curves", []), page.parent / "docs" / "map_curves.svg")
    write_caption(stored, page.parent / "README.md")
    write_choices(stored, page.parent / "docs" / "choosing.md")
