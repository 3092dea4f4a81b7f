"""What pages say of the map: the chapter of EVIDENCE.md, its figure, and the tables of docs/choosing.md."""

from __future__ import annotations

import collections
import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from aimfor.runs.compare.verdicts import paired_difference

from ..experiments.ours.retrieval import OURS, complete
from ..experiments.ours.retrieval_losses import METHODS
from ..report.figures import COLOURS, drawing, tidy
from ..report.pages import folded
from ..report.pictures_board import default_gap
from ..report.scoreboard import Score, lines, markdown, scores
from ..report.statistics import interval
from . import curves
from .board import Contrast, Entries, board_of, contrast_lines, contrasts, points, rank_line

REGIMES = {
    "map_regret": "predict, then optimise",
    "map_masks": "masks with rare classes",
    "map_rare": "rare positives",
    "map_untuned": "no threshold can be tuned",
    "map_tuned": "a threshold is tuned",
    "map_lists": "documents ranked for queries",
    "map_unseen": "neighbours of unseen classes",
    "map_labels": "several labels",
    "map_detection": "objects in pictures",
}
#: What to do about it, of each regime.
ADVICE = {
    "map_regret": """Where predicted costs go into a program and the model is too simple for them, train on the
        decisions (`aimfor.lp.SPOPlus`): less regret than squared and absolute error, at twice the steps as
        well. On shortest paths the trials preferred squared error although absolute error ended better: nearly
        half of that lead is over the weaker rival. The costs are synthetic; on real electricity prices a first
        trial saw no gain.""",
    "map_masks": """Never plain cross-entropy where a class is rare: on CamVid `MetricLoss(IoU(classes="mean"))` is
        ahead of it by points, also where offsets are tuned for both; on Stanford Background, whose classes are less
        rare, by one to four, not surely. Weights by class win that back: against them none of eight contrasts is
        decided, nor at twice the steps. On Stanford Background four of the losses were run.""",
    "map_rare": """Keep cross-entropy for average precision: over sixteen small tables the metric's loss is level with
        it, at twice the steps as well. The nine contrasts of single data sets decide nothing: a fifth of 10,000 rows
        at 1 % has some twenty positives, and intervals reach ± 30 points. The losses of recall and of true-positive
        rate at a floor have changed since those were run. The best of LibAUC's losses
        is 1.7 points behind it over the tables, 1.1 at twice the steps, at the edge of certainty; it is as far behind
        tuned cross-entropy. In 39 of 48 choices LibAUC got the highest learning rate that was tried, so higher ones
        may close that.""",
    "map_untuned": """Over small tables ahead of plain cross-entropy; ahead of tuned cross-entropy by two points at
        the budget, mostly by one table that it had not learned yet, and by nothing at twice the steps: speed, if
        anything. No contrast is decided within a point. Weigh cross-entropy and train longer, or take the metric's
        loss and have nothing to weigh.""",
    "map_tuned": """Where a threshold may be tuned, tune it first: over the same tables the metric's loss is then
        ahead of tuned cross-entropy by a fifth of a point and of plain cross-entropy by half a point, neither surely.
        What plain cross-entropy lacks at 0, a tuned threshold gives it.""",
    "map_lists": """Nothing is decided by 564 queries: behind RankNet by NDCG@10, ahead of it by MRR, neither surely.
        RankNet and ListNet are as good a start.""",
    "map_unseen": """Omniglot on frozen features, and a linear map: level with softmax by MAP@R, behind it by recall@1
        before Holm. A small network that learns its own features gains there (`retrieval`).""",
    "map_labels": """Keep cross-entropy: the metric's loss is behind it by average precision and level by F1 at tuned
        thresholds, on the judging persons and on the val file, without certainty. Cross-entropy, then the metric's
        loss has the best rank; that pair was not the contrast.""",
}
MAP = """## The map: where a loss for the metric pays

The same networks, steps, batches and choices for every loss, nine trials each on a seed that judges nothing; the
protocol (`paper/map/PROTOCOL.md`) was written before the first run. The contrast is `MetricLoss(name)` as it comes
against *tuned cross-entropy*: whichever of plain, 1/frequency, 1/√frequency and balanced batches did best in the
trials (for costs: squared or absolute error). "helps" and "hurts" are significant after Holm over the contrasts of a
regime; "level" means that the 95 % interval lies within ± 1 point. *Plain* is what is trained on where nobody thinks
about it; no verdict rests on it.

![Points gained or lost against tuned cross-entropy](docs/map.svg)
"""
SCENE = """The rarest classes in one test picture, the one that has most of them (`python -m paper.map.scene`):

![Truth, the metric's loss, cross-entropy and 1/√frequency: cross-entropy hardly finds a cyclist](docs/map_masks.png)"""
CURVES = """A clear gain of the map, and its largest loss, which no test decides (five splits with about twenty
positives to judge by). On shortest paths the lead is there at the first checkpoint and stays. On `us_crime` the loss is
ahead at first and then overfits: its best checkpoint is an early one, and twenty positives cannot point to it.

![Values by steps, the metric's loss and its rival](docs/map_curves.svg)
"""


def map_lines(results: Mapping[str, Entries]) -> list[str]:
    """The chapter of the evidence page: what to do on one screen, then each regime's tables behind a fold."""
    measured = {name: results[name] for name in REGIMES if results.get(name)}
    if not measured:
        return []
    text = [MAP, choice_lines(results)]
    for name, entries in measured.items():
        advice = [*textwrap.wrap(" ".join(ADVICE[name].split()), 120), ""] if name in ADVICE else []
        scene = ["", SCENE] if name == "map_masks" else []
        values = f"{rank_line(entries)} All values: `paper/results/{name}/table.md`."
        tables = [*contrast_lines(entries), "", values, *scene]
        text += [f"### {REGIMES[name].capitalize()} (`{name}`)", "", *advice, *folded("Contrasts and ranks", tables)]
    if missing := [f"`{name}`" for name in REGIMES if name not in measured]:
        text += [f"In the protocol and not run yet: {', '.join(missing)} (`python -m paper NAME`).", ""]
    if results.get("map_curves"):
        drawn = [CURVES, *curves.lines(results["map_curves"])]
        text += ["### How it is learned (`map_curves`)", "", *folded("Two curves", drawn)]
    return text


def _contrasts(results: Mapping[str, Entries], name: str) -> list[Contrast]:
    return contrasts(board_of(results.get(name, [])))


#: Of each regime: the task and the loss.
CHOICES = {
    "map_regret": ("costs that a program decides by", "`aimfor.lp.SPOPlus(program)`"),
    "map_masks": ("masks with rare classes", '`MetricLoss(IoU(classes="mean"))`'),
    "map_lists": ("documents ranked for queries", '`MetricLoss("ndcg@10")`'),
    "map_untuned": ("yes or no at a threshold that nobody tunes", '`MetricLoss("f1")`'),
    "map_tuned": ("yes or no at a tuned threshold", '`MetricLoss("f1")`'),
    "map_rare": ("few positives, judged by a curve", '`MetricLoss("ap")`'),
    "map_unseen": ("neighbours of unseen classes", '`RetrievalLoss("map@r")`'),
    "map_labels": ("several labels", '`MetricLoss("multilabel_ap")`'),
    "map_detection": ("objects in pictures, by windows", '`MetricLoss("ap")`, a class a row'),
}
#: Points that the default of masks may lose on one set.
LOSES = -0.5
#: What a reader does about a verdict at twice the steps.
WORDS_OF_VERDICTS = {
    "helps": "**Helps** at twice the steps, so it is not speed",
    "level": "**Level** within a point at twice the steps",
    "hurts": "**Hurts** at twice the steps",
    "undecided": "**Undecided**, so do not count on a gain",
}


def choice_lines(results: Mapping[str, Entries]) -> str:
    """What was decided; then your task, the loss and what to expect of it, a row for each regime."""
    rows = []
    by_verdict: dict[str, list[str]] = {verdict: [] for verdict in WORDS_OF_VERDICTS}
    for name, (task, loss) in CHOICES.items():
        made = _contrasts(results, name)
        if made:
            plain, once, twice = (
                _range([getattr(contrast, when).mean for contrast in made]) for when in ("plain", "once", "twice")
            )
            early, late = (_counted([getattr(contrast, which) for contrast in made]) for which in ("verdict", "ending"))
            rows.append((task, loss, plain, f"{once}: {early}", f"{twice}: {late}"))
        for contrast in made:
            decided = f"{contrast.data} by {contrast.metric} ({points(contrast.twice)})"
            by_verdict[contrast.ending].append(task if contrast.ending == "undecided" else decided)
    verdicts = [f"- {WORDS_OF_VERDICTS[verdict]}: {_joined(each)}." for verdict, each in by_verdict.items() if each]
    head = ("your task", "loss", "above plain", "above tuned", "above tuned, at twice the steps")
    return "\n".join([*verdicts, "", markdown(head, rows), "", masks_line(results)])


def masks_line(results: Mapping[str, Entries]) -> str:
    """What `aimfor train --masks` learns by, and the numbers that decided it."""
    gap = default_gap(results.get("mask_offsets", []))
    if gap is None:
        return ""
    each = ", ".join(f"{name} {mean:+.1f}" for name, mean in gap[1].items())
    if mask_default(results) == "iou":
        words = "`--loss iou`, which is surely ahead of Lovász"
    else:
        words = "`--loss lovasz`, which `iou` is not surely ahead of"
    gain = interval(gap[0].mean, gap[0].low, gap[0].high, 2)
    return (
        f"`aimfor train --masks` learns by {words}: {gain} points of mean IoU ({each}; the program's own networks, "
        "decided out of fold, test pictures, three seeds).\n"
    )


def mask_default(results: Mapping[str, Entries]) -> str:
    """By the rule of the protocol: surely above 0 over all pairs, and no set loses half a point."""
    gap = default_gap(results.get("mask_offsets", []))
    return "iou" if gap is not None and gap[0].low > 0 and min(gap[1].values()) >= LOSES else "lovasz"


def _counted(verdicts: Sequence[str]) -> str:
    return ", ".join(f"{verdict} in {count}" for verdict, count in collections.Counter(verdicts).most_common())


def _joined(each: Sequence[str]) -> str:
    """What comes several times is printed once, with how often."""
    counts = collections.Counter(each)
    return "; ".join(text if count == 1 else f"{text} ({count})" for text, count in counts.items())


def caption(results: Mapping[str, Entries]) -> str:
    """What the figure shows to those who cannot see it: verdicts at the budget."""
    made = [contrast.verdict for name in REGIMES for contrast in _contrasts(results, name)]
    return f"Points gained or lost by the metric's loss against tuned cross-entropy, with intervals: {_counted(made)}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):+.1f}", f"{max(values):+.1f}"
    return low if low == high else f"{low} to {high}"


#: Other experiments → where they were; the rival there had the same last phase.
ELSEWHERE = {
    "tables": "tables of rare positives",
    "meng_table1": "two classes of pictures",
    "voc_action": "VOC actions, networks that are fine-tuned",
    "mq2008": "documents ranked for queries",
}


def elsewhere_lines(results: Mapping[str, Entries]) -> str:
    """What other experiments say of a metric's loss: one line each, computed from their cells."""
    rows = [
        (
            f"{where} ({score.cells}), {score.metric}",
            _hundredfold(*score.same_phase),
            _hundredfold(*score.over_plain),
            f"`{name}`",
        )
        for name, where in ELSEWHERE.items()
        for score in _scores(results.get(name, []))
    ]
    for name in ("omniglot", "cifar100"):
        runs = complete(list(results.get("retrieval", [])), name)
        if runs:
            best = max((method for method in METHODS if "softmax" in method), key=lambda method: _mean(runs, method))
            rows.append((f"neighbours of unseen classes, {name}, `{OURS}`", _gap(runs, best), _gap(runs, "softmax"),
                         "`retrieval`"))  # fmt: skip
    head = ("where", "above the rival with the same last phase, or the better softmax", "above plain cross-entropy", "")
    return markdown(head, rows) + "\n"


def _scores(entries: Entries) -> list[Score]:
    return scores(lines(list(entries), lambda cell: " ".join(str(v) for k, v in cell.items() if k != "seed")))


def _hundredfold(middle: float, low: float, high: float) -> str:
    return interval(100 * middle, 100 * low, 100 * high, 1)


def _mean(runs: Entries, method: str) -> float:
    return statistics.mean(float(run[method]["map@r"]) for run in runs)


def _gap(runs: Entries, method: str) -> str:
    sides = ([run[name]["map@r"] for run in runs] for name in (OURS, method))
    gap = paired_difference(*sides, test_share=1 / 3)
    return _hundredfold(gap.mean, gap.low, gap.high)


def write_choices(results: Mapping[str, Entries], page: Path) -> None:
    """Puts them between the marks of a page, and what other experiments say."""
    text = page.read_text(encoding="utf8")
    for mark, table in (("map", choice_lines(results)), ("elsewhere", elsewhere_lines(results))):
        start, end = f"<!-- {mark} -->\n", f"<!-- {mark} end -->"
        text = text.partition(start)[0] + start + table + end + text.partition(end)[2]
    page.write_text(text, encoding="utf8")


def write_caption(results: Mapping[str, Entries], page: Path) -> None:
    """Counts of verdicts, under the figure on a page."""
    text = page.read_text(encoding="utf8")
    figure = f"![{caption(results)}](docs/map.svg)"
    page.write_text(re.sub(r"!\[[^]]*\]\(docs/map\.svg\)", figure, text), encoding="utf8")


def draw(results: Mapping[str, Entries], path: Path) -> None:
    """One row for each contrast: the difference with its interval, and the one at twice the steps as a ring."""
    rows = [(f"{words}: {contrast.data}, {contrast.metric}", contrast)
            for name, words in REGIMES.items() for contrast in _contrasts(results, name)]  # fmt: skip
    if not rows:
        return
    colours = {"helps": COLOURS[2], "hurts": COLOURS[5], "level": COLOURS[0], "undecided": "#8a8a8a"}
    with drawing(path, (8.0, 0.9 + 0.24 * len(rows))) as figure:
        axes = figure.subplots()
        for row, (_, contrast) in enumerate(rows):
            once, colour = contrast.once, colours[contrast.verdict]
            axes.plot([once.low, once.high], [row, row], color=colour, linewidth=2)
            axes.plot(once.mean, row, "o", color=colour, markersize=5)
            axes.plot(contrast.twice.mean, row, "o", color=colour, markersize=8, fillstyle="none")
        for verdict, colour in colours.items():
            axes.plot([], [], "o", color=colour, label=verdict)
        axes.plot([], [], "o", color="black", fillstyle="none", markersize=8, label="at twice the steps")
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.invert_yaxis()
        tidy(axes, "points: the metric's loss − tuned cross-entropy")
        figure.legend(loc="outside lower center", ncols=5, frameon=False)
