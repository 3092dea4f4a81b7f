"""Report and claims of the mask experiments: the table, curves with bands, what is known of the size, pictures."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from ...claims.judging import Entries, Judge, Judgement, verdict_of
from ...experiment import Cell
from ...report.figures import bands
from ...report.scoreboard import lines, markdown, write_report
from ...report.statistics import mean_and_gap, paired
from .mask_judges import SKY_JUDGES
from .mask_pictures import draw
from .mask_recipe import MAIN, PAPER


def label(cell: Cell) -> str:
    return str(cell["set"])


def report_masks(results: Entries, folder: Path, title: str, setting: str) -> None:
    """``table.md``, a figure of differences per metric, and for each set its curves (SVG) and masks (PNG)."""
    write_report(folder, title, setting, lines(results, label))
    shown = []
    for name, found in _by_set(results).items():
        details = [one["details"] for one in found]
        curves = {method: [one["curves"][method] for one in details] for method in details[0]["curves"]}
        epochs = range(1, len(next(iter(curves.values()))[0]) + 1)
        heading = f"{name}: validation data (bands: all seeds)"
        bands(epochs, curves, folder / f"curves_{name}.svg", heading, "epoch", "mean IoU")
        shown.append(f"![{name}: mean IoU by epoch](curves_{name}.svg)")
        stored = next((one["pictures"] for one in details if one["pictures"]), None)
        if stored:
            draw(stored, folder / f"masks_{name}.png", f"{name}: test images, evenly spread")
            shown.append(f"![{name}: images and masks](masks_{name}.png)")
    with (folder / "table.md").open("a", encoding="utf8") as page:
        page.write("\n".join(["", _sizes(results), "", *shown, ""]))


def _by_set(results: Entries) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in results:
        groups.setdefault(label(entry["cell"]), []).append(entry["result"][MAIN])
    return groups


def _sizes(results: Entries) -> str:
    """How well the size is known, which is what the papers' regularizer asks for."""
    head = (
        "set",
        "α chosen, by seed",
        "F1 of the size node, training (certified)",
        "test",
        "F1 of the size of test masks: cross-entropy",
        "regularized",
        "default",
    )
    rows = []
    for name, found in _by_set(results).items():
        details = [one["details"] for one in found]
        train = [statistics.mean(one["node_train"][key] for one in details) for key in ("f_beta", "bound")]
        size = {key: statistics.mean(one["size_f1"][key] for one in details) for key in details[0]["size_f1"]}
        chosen = ", ".join(f"{one['alpha']:g}" for one in details)
        columns = [f"{size[key]:.3f}" for key in ("node", "cross-entropy", PAPER, "default")]
        rows.append((name, chosen, f"{train[0]:.3f} ({train[1]:.3f})", *columns))
    return markdown(head, rows)


def sky_row(name: str, found: list[dict[str, Any]], base: str) -> tuple[str, ...]:
    """Of one way to train: its mean on test data by every metric, and the difference from another."""
    columns = [[[one[way][metric] for one in found] for way in (name, base)] for metric in SKY_JUDGES]
    return name, *(mean_and_gap(mine, None if name == base else theirs) for mine, theirs in columns)


# ---------------------------------------------------------------- claims


def regularizer_gap(method: str = PAPER, other: str | None = None) -> Judge:
    """Mean IoU of the papers' method less cross-entropy's (or less another of theirs), paired by set and seed."""

    def judge(entries: Entries) -> Judgement:
        found = [entry["result"][MAIN] for entry in entries]
        ours = [one["papers"][method] for one in found]
        theirs = [one["papers"][other] if other else one["rivals"]["cross-entropy"] for one in found]
        gap = paired(ours, theirs)
        levels = f"{statistics.mean(ours):.3f} against {statistics.mean(theirs):.3f}"
        return Judgement(f"{levels}; difference in mean IoU {gap} ({gap.pairs} runs)", verdict_of(gap))

    return judge
