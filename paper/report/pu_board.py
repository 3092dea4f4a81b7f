"""Positive and unlabelled tables: every loss against the others, and the prior."""

from __future__ import annotations

import statistics
from typing import Any

from .pages import report_of
from .scoreboard import markdown
from .statistics import paired

TITLE = "Positive and unlabelled tables: PULoss against its rivals"
SETTING = """Half of the positive training rows are known, all others unlabelled. A perceptron of 64 units, 400 steps;
judged on test rows with their labels. *naive* takes unlabelled rows as negatives, *weighted* gives both kinds the same
mass, *uPU* is `PULoss(prior, "unbiased")`, *nnPU* is `PULoss(prior)`; the estimated prior is `estimate_prior` of the
naive network on a fifth of the training rows. Differences are from *naive*, in accuracy, paired over tables (means over
seeds); *labels of all rows* is what nobody has here."""


def lines(entries: list[dict[str, Any]]) -> list[str]:
    tables = list(dict.fromkeys(entry["cell"]["table"] for entry in entries))
    methods = [name for name in entries[0]["result"] if name not in ("prior", "auroc")]

    def mean(table: str, *path: str) -> float:
        values = []
        for entry in entries:
            if entry["cell"]["table"] == table:
                value: Any = entry["result"]
                for key in path:
                    value = value[key]
                values.append(float(value))
        return statistics.fmean(values)

    rows = []
    for name in methods:
        each = [mean(table, name, "accuracy") for table in tables]
        gap = paired(each, [mean(table, "naive", "accuracy") for table in tables])
        area = statistics.fmean(mean(table, name, "auroc") for table in tables)
        accuracies = (f"{value:.3f}" for value in each)
        rows.append((name, *accuracies, f"{area:.3f}", "" if name == "naive" else str(gap)))
    head = ("accuracy at 0", *tables, "mean AUROC", "− naive")
    priors = [
        (
            table,
            f"{mean(table, 'prior', 'known'):.3f}",
            f"{mean(table, 'prior', 'estimated'):.3f}",
            *(f"{mean(table, 'auroc', key):.3f}" for key in ("unlabelled", "corrected", "true")),
        )
        for table in tables
    ]
    seeds = len(entries) // len(tables)
    second = ("table", "prior", "estimated", "AUROC, positive against unlabelled", "corrected by the prior", "true")
    return [SETTING, "", f"{seeds} seeds.", "", markdown(head, rows), "", markdown(second, priors), ""]


report = report_of(TITLE, lines)
