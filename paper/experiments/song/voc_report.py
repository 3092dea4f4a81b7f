"""The report of `voc_action`: the scoreboard, the paper's Table 1 beside ours, and its claims' judge."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...claims.judging import FEWEST, TOO_FEW, Entries, Judgement
from ...data.voc import ACTIONS
from ...report.figures import COLOURS, drawing, tidy
from ...report.scoreboard import lines, markdown, write_report
from ...report.statistics import paired

#: Table 1 of the paper, in percent, action by action, and the mean as printed.
PAPER: dict[str, tuple[float, ...]] = {
    "cross-entropy": (71.3, 36.2, 75.7, 37.5, 90.5, 89.7, 73.5, 44.8, 63.8, 65.1, 64.8),
    "hinge": (69.8, 36.5, 74.2, 38.8, 90.4, 88.9, 74.2, 41.6, 61.4, 60.6, 63.6),
    "pos-AP": (71.9, 42.0, 76.0, 40.0, 90.0, 90.4, 77.6, 46.5, 66.6, 66.4, 66.7),
}
#: Results that stand in the table under another name as well.
TWICE = ("fine-tuned on AP", "averaged")
TITLE = "Actions in VOC 2012: mean average precision"
TITLES = {
    "action": "Actions (Table 1)",
    "proposals": "Among badly placed windows (the ranking half of Table 2)",
}
SETTING = """Mean over ten actions of average precision on test data: 400 persons of the official *val* list.
951 persons of the official *train* list, a quarter of the images for validation, no image in two parts. Crops of
32 × 32, three strided convolutions (26 thousand weights), one network with ten outputs. No network trained on ImageNet
can be had here: 1,200 steps on CIFAR-10 and STL-10 stand in, one network for all.

*Actions*: 200 AdamW steps of 128 crops (the paper: 300 of all crops), mirrored and shifted, at rate 0.003 (of 0.001 and
0.003 the better one for cross-entropy on splits of the training part), 4 looks at validation data, each offering the
weights and their running average, to every method; 20 further steps of 384 crops at a fifth of the rate for the rival's
own loss and for ours. *Proposals*: four badly placed windows of each crop join as negatives (about 55 for each positive
on test data); 120 steps of 256, 3 looks, 10 further steps of 512.

The default is the mean of the weights of three networks from the same start: weighted cross-entropy, Song's positive
update (ε = 0.1) and both updates together (ε by the spread of the scores), each at its best look. It was fixed on three
splits of the training part before test data was read. *rivals averaged* is the same done with the rivals' losses: what
averaging gives without average precision in it; hinge, which trains badly here, is among them. `--full`: ResNet-20,
3,000 steps of 512, three rates."""


def report(results: list[dict[str, Any]], folder: Path) -> None:
    found = lines(results, lambda cell: str(cell["task"]))
    write_report(folder, TITLE, SETTING, found)
    text = [(folder / "table.md").read_text(encoding="utf8")]
    for task, title in TITLES.items():
        mine = [entry["result"]["ap"] for entry in results if entry["cell"]["task"] == task]
        if mine:
            _figure(mine, folder / f"{task}.svg", title)
            text += [f"## {title}", "", _own_table(mine), "", _by_action(mine, task), ""]
            text += [f"![average precision by action]({task}.svg)", ""]
    (folder / "table.md").write_text("\n".join(text), encoding="utf8")


def _own_table(found: Sequence[dict[str, Any]]) -> str:
    """Each candidate of ours by itself, and the rival and the default, seed by seed."""
    rows = []
    for name in ("rival", "default", *found[0]["ours"]):
        each = [one[name] if name in one else one["ours"][name] for one in found]
        values = [one["test"] for one in each]
        rows.append((name, f"{statistics.fmean(values):.4f}", ", ".join(f"{value:.4f}" for value in values)))
    return markdown(("what", "mean test AP", "by seed"), rows)


def by_action(found: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Average precision of each action, the mean over seeds."""
    return [statistics.fmean(one["classes"][name][action] for one in found) for action in ACTIONS]


def _by_action(found: Sequence[dict[str, Any]], task: str) -> str:
    rows = []
    for name in (name for name in found[0]["classes"] if name not in TWICE):
        values = by_action(found, name)
        rows.append((name, *(f"{100 * value:.1f}" for value in (*values, statistics.fmean(values)))))
    if task == "action":
        rows += [(f"{name}, in the paper", *(f"{value:.1f}" for value in values)) for name, values in PAPER.items()]
    return markdown(("percent", *ACTIONS, "mean"), rows)


def _figure(found: Sequence[dict[str, Any]], path: Path, title: str) -> None:
    shown = {"cross-entropy": "o", "hinge": "s", "pos-AP": "D", "default": "o"}
    with drawing(path, (7.0, 3.6)) as figure:
        axes = figure.subplots()
        for number, (name, marker) in enumerate(shown.items()):
            places = [place + 0.16 * (number - 1.5) for place in range(len(ACTIONS))]
            filled = COLOURS[number] if name == "default" else "white"
            values = by_action(found, name)
            axes.plot(places, values, marker, color=COLOURS[number], markerfacecolor=filled, markersize=5, label=name)
        axes.set_xticks(range(len(ACTIONS)), ACTIONS, rotation=35, ha="right")
        axes.set_ylim(bottom=0.0)
        tidy(axes, "", "average precision, mean over seeds", title)
        axes.legend(frameon=False, fontsize=8, ncols=4)


def against(task: str, method: str, others: Sequence[str], only: str = "") -> Callable[[Entries], Judgement]:
    """Judges a method's mean average precision against each of the others, over paired seeds.

    Args:
        task: Which cells count.
        method: Key of the results by action.
        others: As above.
        only: What to add to the verdict when the task is not the whole of what the claim is about.
    """

    def judge(entries: Entries) -> Judgement:
        found = [entry["result"]["ap"]["classes"] for entry in entries if entry["cell"]["task"] == task]
        means = {name: [statistics.fmean(one[name].values()) for one in found] for name in (method, *others)}
        gaps = {other: paired(means[method], means[other]) for other in others}
        text = f"{method} {statistics.fmean(means[method]):.3f}: " + "; ".join(f"− {o} {g}" for o, g in gaps.items())
        text += f" ({len(found)} seeds)"
        if len(found) < FEWEST:
            return Judgement(text, TOO_FEW)
        better = [gap.verdict == "better" for gap in gaps.values()]
        verdict = "confirmed" if all(better) else "partly confirmed" if any(better) else "not confirmed"
        if only and verdict == "confirmed":
            verdict = "partly confirmed"
        return Judgement(text, f"{verdict}: {only}" if only else verdict)

    return judge
