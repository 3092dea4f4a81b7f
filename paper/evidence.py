"""EVIDENCE.md: every claim of the four papers with our numbers and a verdict, all computed from cached results."""

from __future__ import annotations

import json
from pathlib import Path

from . import NAMES
from .claims import CLAIMS
from .claims.judging import Entries
from .experiments.ours import autogluon, mq2008_committee, retrieval, retrieval_features
from .report.committee_board import summary_lines
from .report.constraints_board import constraints_board
from .report.guarantee_board import guarantee_board
from .report.meng_board import MENG, meng_lines
from .report.pictures_board import FEATURES, MASKS, mask_lines, voc_lines
from .report.scoreboard import Score, lines, markdown, score_table, scores
from .run import GATHERED, load

INTRO = """# Evidence

What the four papers claim, what we measured, and what follows. Every number on this page is computed from the cached
cells in `paper/results/` by `python -m paper --evidence`; `python -m paper NAME` measures them again.
Intervals are 95 %, paired by seed (Student's t). Sizes are cut to a small machine and stand in each table; `--full`
runs the larger ones.
"""
AFTER_CLAIMS = """A difference whose interval holds zero counts as "does not hold": the claim is of a gain, and none
was seen. At these sizes that does not rule out a gain at the papers' own.

## Does aimfor's default help?
"""
COMMITTEE = """### The committee, the default of `aimfor train` on tables (`committee`)

Five members (linear, two boosted trees, a network by cross-entropy and the same network trained further for the
metric) predict out of fold and are weighed by the metric. The rivals are LightGBM, histogram gradient boosting,
logistic regression and one network, each refitted on all training rows with a tuned threshold; the best of them is
chosen on held-out training rows. `fit_committee` is the function that `aimfor train`, `aimfor compare` and
`MetricClassifier` call.
"""
EARLIER = """### The earlier default: one network, trained on in a last phase

**What follows was measured with a default that `aimfor train` no longer runs on tables**, and never ran in this form on
pictures, masks and ranked lists. Its cells are kept because they say what metric losses add to a network.

The rival is the best, on validation data, of all checkpoints of cross-entropy, weighted cross-entropy, cross-entropy
on balanced batches and focal loss (and LibAUC's two on tables, LibAUC's AUCM on images; pointwise, pairwise and
listwise losses on ranked lists), the best of them also trained on with its own loss, for as many steps as the default:
at a tenth of its rate, and at its rate with averaged weights.

The default goes on from the rivals' best checkpoint at its rate, weights averaged: by the rival's own loss, or by the
metric's, or with the last layer refitted (`HeadFitter`), where they beat the former in 95 % of the bootstrap draws
of validation data; not at all where it loses in every draw. Then it repeats what was chosen on **all**
labelled data, validation data included, at the threshold found before. That last phase needs no metric loss: the last
column gives it to the rival as well, and what is left there is what the metric's own candidates add. Test data is read
once. How the default was found, and what else was tried, stands in docs/reproduce.md. On ranked lists the last phase
lost (the last column has its price), so there the default is the rival as it is.

On masks the rivals are cross-entropy, weighted cross-entropy, Dice and Lovász losses, and the default is the best on
validation data of their checkpoints, of the best one trained on with its own loss, and of the same one fine-tuned on
IoU. There is no last phase on all data there. On VOC actions the default is one network with the mean of the weights
of three: by weighted cross-entropy and by two AP losses; the last column is the mean of the rivals' weights.
"""


def gathered(folder: Path) -> dict[str, Entries]:
    """Cached results by experiment, and the rows of benchmarks beside them as ``bench:<name>``."""
    found = {}
    for path in sorted((folder.parent / "benchmarks" / "results").glob("*.json")):
        found[f"bench:{path.stem}"] = json.loads(path.read_text())["rows"]
    for name in NAMES:
        path = folder / name / GATHERED
        if path.exists():
            # Cells of a network chosen by --model are for their own report; the page is about one network.
            found[name] = [entry for entry in json.loads(path.read_text()) if entry.get("model") is None]
    return found


def render(results: dict[str, Entries]) -> str:
    """The whole page as Markdown."""
    judged = [(claim, claim.judged(results)) for claim in CLAIMS]
    rows = [(c.paper, c.where, c.claim, c.setting, j.numbers or "–", f"**{j.verdict}**") for c, j in judged]
    counts: dict[str, int] = {}
    for _, judgement in judged:
        key = judgement.verdict.split(":")[0]
        counts[key] = counts.get(key, 0) + 1
    plural = {"does not hold": "do not hold", "holds": "hold", "holds partly": "hold in part"}
    ordered = sorted(counts.items(), key=lambda kv: -kv[1])
    summary = ", ".join(f"{count} {plural.get(verdict, verdict)}" for verdict, count in ordered)
    head = ("paper", "where", "claim", "our setting", "our numbers", "verdict")
    claims = f"## The papers' claims: {summary}\n\n{markdown(head, rows)}\n"
    ours = [*_committee(results), *_lists(results), *_pictures(results)]
    boards = [*_scoreboards(results), *guarantee_board(results)]
    return "\n".join([INTRO, claims, AFTER_CLAIMS, *ours, EARLIER, *boards])


def _committee(results: dict[str, Entries]) -> list[str]:
    entries = results.get("committee")
    if not entries:
        return [COMMITTEE, "Not measured yet: `python -m paper committee`.\n"]
    return [COMMITTEE, "\n".join(summary_lines(entries, "####")), ""]


def _lists(results: dict[str, Entries]) -> list[str]:
    """AutoGluon's tables, ranked lists and retrieval, as far as they were measured."""
    text: list[str] = []
    for name, module in (("autogluon", autogluon), ("mq2008_committee", mq2008_committee), ("retrieval", retrieval)):
        if results.get(name):
            lines = "\n".join(module.summary_lines(results[name], "####"))
            text += [f"### {module.TITLE} (`{name}`)", "", module.SETTING, "", lines, ""]
    return text


def _pictures(results: dict[str, Entries]) -> list[str]:
    """Pretrained features and masks, where they were measured."""
    text: list[str] = []
    if results.get("voc_features"):
        text += [FEATURES, *voc_lines(results["voc_features"]), ""]
    if results.get("meng_features"):
        text += [MENG, *meng_lines(results["meng_features"]), ""]
    if results.get("retrieval_features"):
        lines_of = retrieval_features.retrieval_lines(list(results["retrieval_features"]))
        text += [retrieval_features.TEXT, *lines_of, ""]
    if results.get("mask_offsets"):
        text += [MASKS, *mask_lines(results["mask_offsets"]), ""]
    return text


def _scoreboards(results: dict[str, Entries]) -> list[str]:
    text: list[str] = []
    for name, entries in results.items():
        first = entries[0].get("result", {"": None})
        if not all(isinstance(found, dict) and "default" in found for found in first.values()):
            continue
        found = lines(entries, lambda cell: " ".join(str(v) for k, v in cell.items() if k != "seed"))
        text += [f"### {load(name).title} (`{name}`)", "", score_table(found), "", _chosen(entries), ""]
        text += [f"{sentence}\n" for sentence in _shortcomings(scores(found))]
    if results.get("adult_constraints"):
        text.append(constraints_board(results["adult_constraints"]))
    return text or ["No results yet."]


def _shortcomings(found: list[Score]) -> list[str]:
    """Where the default is not above the rival in the median, not surely so in a third of the cells, or below it."""
    named = {
        "Not above the best rival in the median cell": [s.metric for s in found if s.median[0] <= 0],
        "Significantly better in fewer than a third of the cells": [
            f"{s.metric} ({s.better} of {s.cells})" for s in found if 3 * s.better < s.cells
        ],
        "Significantly worse in a cell": [
            f"{s.metric} ({s.worse} of {s.cells}, after Holm's correction {s.surely[1]})" for s in found if s.worse
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
    counts: dict[str, int] = {}
    total = 0
    for entry in entries:
        for found in entry["result"].values():
            name = str(found["default"]["name"])
            kind = next((words for start, words in KINDS if name.startswith(start)), None)
            kind = kind or ("the rival's own loss, on all data" if name.endswith("all data") else "the rival as it is")
            counts[kind] = counts.get(kind, 0) + 1
            total += 1
    parts = ", ".join(f"{kind} in {count / total:.0%}" for kind, count in sorted(counts.items(), key=lambda kv: -kv[1]))
    return f"The default was {parts} of {total} runs."


def write(results: Path, page: Path) -> None:
    page.write_text(render(gathered(results)) + "\n")
