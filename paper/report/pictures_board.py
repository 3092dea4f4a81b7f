"""What pretrained features and decided masks bring: tables for EVIDENCE.md from cached cells."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from aimfor.runs.compare.verdicts import Difference, paired_difference

from .scoreboard import markdown
from .statistics import interval, paired

Entries = Sequence[dict[str, Any]]
FEATURES = """### Pictures by pretrained features (`voc_features`)

VOC actions, 951 people to train on and 400 to test on (crops of 64 pixels, scaled to 160), frozen features of
EfficientNet-Lite0. The committee that `aimfor train --model efficientnet-lite0` makes for each action is compared with
linear layers on the same features. The rivals' loss and penalty are chosen by five folds of the training people, and
the rival is then refitted on all of them. The seed draws the folds; the test people stay the same. Song's network was
also pretrained on ImageNet, but it was larger, fine-tuned, and shown larger crops of more people: 66.7 with direct
average precision, 64.8 with cross-entropy.
"""


def voc_lines(results: Entries) -> list[str]:
    """The committee, its members and each rival: mean over seeds; differences from the committee are paired."""
    runs = [entry["result"] for entry in results]
    if not runs:
        return ["Not measured yet: `python -m paper voc_features`."]
    ours = [run["committee"]["test"] for run in runs]
    rows = [("**committee**", _mean([run["committee"]["promised"] for run in runs]), f"**{_mean(ours)}**", "")]
    rows.append(_row("best rival, chosen by folds", [run["rival"] for run in runs], ours))
    rows += [_row(f"rival: {name}", [run["rivals"][name] for run in runs], ours) for name in runs[0]["rivals"]]
    for name in runs[0]["members"]:
        values = [run["members"][name] for run in runs]
        rows.append((f"member: {name.replace('_', ' ')}", "", _mean(values), _difference(ours, values)))
    head = ("mean AP", "by folds", "test", "committee above it [95 %]")
    actions = ", ".join(
        f"{name} {statistics.mean(run['actions'][name] for run in runs):.3f}" for name in runs[0]["actions"]
    )
    tail = f"{len(runs)} seeds. By action: {actions}."
    return [markdown(head, rows), "", tail]


SMOOTH = """### Several labels: smooth average precision against other losses (`voc_smooth`)

The same features, folds and linear layers as above, one loss each, its penalty chosen by the folds. Half of *smooth
AP* is an anchor, a pairwise logistic loss; *alone* is without it. Seeds draw the folds only, and all layers are fitted
on the same people: the intervals are about the choice of the penalty, not about other people. Smooth AP is level with
logistic regression and the asymmetric loss, and above the rest.
"""


def smooth_voc_lines(results: Entries) -> list[str]:
    """Each loss: mean AP by folds and on the test people; differences from smooth AP are paired over seeds."""
    if not results:
        return ["Not measured yet: `python -m paper voc_smooth`."]
    runs = [entry["result"]["losses"] for entry in results]
    ours = [run["smooth AP"]["test"] for run in runs]
    rows = [_row(name, [run[name] for run in runs], ours) for name in runs[0]]
    rows = [(*row[:3], "") if row[0] == "smooth AP" else row for row in rows]
    return [markdown(("loss", "by folds", "test", "smooth AP above it [95 %]"), rows), "", f"{len(runs)} seeds."]


def _row(name: str, runs: list[dict[str, Any]], ours: list[float]) -> tuple[str, str, str, str]:
    tested = [run["test"] for run in runs]
    return name, _mean([run["validation"] for run in runs]), _mean(tested), _difference(ours, tested)


def _mean(values: list[float]) -> str:
    return f"{statistics.mean(values):.4f}"


def _difference(ours: list[float], theirs: list[float]) -> str:
    if len(ours) < 2:
        return f"{ours[0] - theirs[0]:+.4f}"
    return str(paired(ours, theirs))


MASKS = """### Masks: the decision, out of fold (`mask_offsets`)

Mean IoU over the whole test set, pictures of 96 × 128. A decoder on frozen feature maps of EfficientNet-Lite0 is
trained three times, each time without one fold (CamVid: without one of its three training drives), and the scores of
the three are averaged; every decision rule gets the same scores. *out of fold*: one offset per class, chosen by
`fit_offsets` on what each network predicts for pictures it has not seen. *one part*: the same, chosen on one validation
part. Differences are from argmax, with 95 % bootstrap intervals over test images, averaged over seeds. *rare*: mean
over the classes with less than 2 % of the test pixels.
*RankSEG* (package `rankseg` 0.0.8) decides picture by picture from the same probabilities, without tuning. *with
hindsight*: offsets chosen on the test pictures themselves, which nobody can do; no choice of offsets adds more.

Offsets help after cross-entropy and do nothing after a loss of overlap, whose argmax is already at the level that
offsets reach. Two points above argmax on both sets are out of reach for any offsets: on Stanford Background hindsight
itself adds 1.1 points after cross-entropy and 0.3 after Dice or Lovász. On CamVid there is more to gain (2 to 8 points
with hindsight), but what is best for two drives is not for the third, and the guard takes little of it. The program
trains by Lovász: out of fold, on the training pictures alone, its mean over the two sets was the highest of the four
losses that were tried first; and its argmax is above cross-entropy with any offsets that one could have chosen, on both
sets. *metric*, `MetricLoss(IoU(classes="mean"))` as it comes, was run later; by the rule of the
map's protocol, fixed before, it does not take its place (below the tables).
"""
RARE = 0.02


def default_gap(results: Entries) -> tuple[Difference, dict[str, float]] | None:
    """What decides the default of ``train --masks``: `MetricLoss` of the mean IoU minus Lovász, decided out of fold.

    Returns:
        Points, paired by set and seed, and each set's mean; None before there are two pairs.
    """
    values = {
        (entry["cell"]["loss"], entry["cell"]["set"], entry["cell"]["seed"]): entry["result"]["ways"]["out of fold"][
            "iou"
        ]
        for entry in results
    }
    pairs = [key[1:] for key in values if key[0] == "metric" and ("Lovász", *key[1:]) in values]
    if len(pairs) < 2:
        return None
    ours, theirs = ([100 * values[(loss, *pair)] for pair in pairs] for loss in ("metric", "Lovász"))
    by_set: dict[str, list[float]] = {}
    for (name, _), a, b in zip(pairs, ours, theirs, strict=True):
        by_set.setdefault(name, []).append(a - b)
    return paired_difference(ours, theirs, test_share=0.0), {
        name: statistics.mean(gaps) for name, gaps in by_set.items()
    }


def mask_lines(results: Entries) -> list[str]:
    """One table a data set: losses by ways of deciding."""
    if not results:
        return ["Not measured yet: `python -m paper mask_offsets`."]
    text: list[str] = []
    for name in dict.fromkeys(entry["cell"]["set"] for entry in results):
        mine = [entry for entry in results if entry["cell"]["set"] == name]
        rows = []
        for loss in dict.fromkeys(entry["cell"]["loss"] for entry in mine):
            runs = [entry["result"] for entry in mine if entry["cell"]["loss"] == loss]
            rows += [_way(loss, way, runs) for way in runs[0]["ways"]]
        head = ("loss", "decision", "mean IoU", "above argmax [95 %]", "by image", "rare", "seeds")
        text += [f"**{name}**", "", markdown(head, rows), ""]
    if gap := default_gap(results):
        each = ", ".join(f"{name} {mean:+.1f}" for name, mean in gap[1].items())
        points = interval(gap[0].mean, gap[0].low, gap[0].high, 1)
        text += [
            f"`metric` minus Lovász, decided out of fold, in points over pairs of set and seed: {points} ({each}).",
            "",
        ]
    return text


def _way(loss: str, way: str, runs: list[dict[str, Any]]) -> tuple[str, ...]:
    ways, plain = [run["ways"][way] for run in runs], [run["ways"]["argmax"] for run in runs]
    gain = statistics.mean(a["iou"] - b["iou"] for a, b in zip(ways, plain, strict=True))
    low, high = (statistics.mean(run["above_argmax"][side] for run in ways) for side in (0, 1))
    difference = "" if way == "argmax" else interval(gain, low, high)
    rare = [
        value
        for run, full in zip(ways, runs, strict=True)
        for value, share in zip(run["classes"], full["shares"], strict=True)
        if 0 < share < RARE and value is not None
    ]
    by_image, seeds = _mean([run["image_iou"] for run in ways]), str(len(runs))
    return loss, way, _mean([run["iou"] for run in ways]), difference, by_image, _mean(rare) if rare else "–", seeds
