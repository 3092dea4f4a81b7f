"""What other experiments say of a metric's loss, for docs/choosing.md: one line each, computed from their cells."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from aimfor.runs.compare.verdicts import paired_difference

from ..experiments.ours.retrieval import OURS, complete
from ..experiments.ours.retrieval_losses import METHODS
from ..report.scoreboard import Score, lines, markdown, scores

Entries = Sequence[dict[str, Any]]
#: Experiment → where it was; the rival there had the same last phase.
ALIKE = {
    "tables": "tables of rare positives",
    "meng_table1": "two classes of pictures",
    "voc_action": "VOC actions, networks that are fine-tuned",
    "mq2008": "documents ranked for queries",
}


def elsewhere_lines(results: Mapping[str, Entries]) -> str:
    rows = [
        (f"{where} ({score.cells}), {score.metric}", _points(*score.alike), _points(*score.over_plain), f"`{name}`")
        for name, where in ALIKE.items()
        for score in _scores(results.get(name, []))
    ]
    for name in ("omniglot", "cifar100"):
        found = complete(list(results.get("retrieval", [])), name)
        if found:
            best = max((one for one in METHODS if "softmax" in one), key=lambda one: _mean(found, one))
            rows.append((f"neighbours of unseen classes, {name}, `{OURS}`", _gap(found, best), _gap(found, "softmax"),
                         "`retrieval`"))  # fmt: skip
    head = ("where", "above the rival with the same last phase, or the better softmax", "above plain cross-entropy", "")
    return markdown(head, rows) + "\n"


def _scores(entries: Entries) -> list[Score]:
    return scores(lines(list(entries), lambda cell: " ".join(str(v) for k, v in cell.items() if k != "seed")))


def _points(middle: float, low: float, high: float) -> str:
    return f"{100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _mean(found: Entries, name: str) -> float:
    return statistics.mean(float(one[name]["map@r"]) for one in found)


def _gap(found: Entries, name: str) -> str:
    sides = ([one[who]["map@r"] for one in found] for who in (OURS, name))
    gap = paired_difference(*sides, test_share=1 / 3)
    return _points(gap.mean, gap.low, gap.high)
