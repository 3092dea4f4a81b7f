"""Meng's cells on pretrained features: tables for EVIDENCE.md from cached cells."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ..experiments.meng import table1, table2
from .scoreboard import markdown

Entries = Sequence[dict[str, Any]]
MENG = """### Meng's cells on pretrained features (`meng_features`)

The 16 binary cells of Table 1 and the 8 three-class cells of Table 2, with their imbalances, on frozen features of
EfficientNet-Lite0 (at most 2,500 training and 1,500 test images of a set, at most 1,000 of a class, scaled to 96
pixels). The committee against linear layers on the same features; loss (plain, weighted, focal) and penalty of the
rival are chosen by five folds. Test values in percent; *CE* and *Meng*: the paper's own, from networks without
pretraining.
"""


def meng_lines(results: Entries) -> list[str]:
    """One row a cell and metric, means over seeds, then what holds over all of them."""
    if not results:
        return ["Not measured yet: `python -m paper meng_features`."]
    rows, gaps = [], []
    for name, metric, of_cell in grouped(results):
        ours, rival, plain = (
            100 * statistics.mean(values)
            for values in (
                [result["committee"]["test"] for result in of_cell],
                [result["rival"]["test"] for result in of_cell],
                [result["rivals"]["logistic regression"]["test"] for result in of_cell],
            )
        )
        gaps.append((metric, ours - rival, ours - plain))
        paper = in_the_paper(name, metric)
        rows.append((name, metric, *paper, f"{plain:.2f}", f"{rival:.2f}", f"{ours:.2f}", f"{ours - rival:+.2f}"))
    head = ("cell", "metric", "CE", "Meng", "logistic regression", "rival chosen by folds", "committee", "difference")
    return [markdown(head, rows), "", _summary(gaps, results)]


def grouped(results: Entries) -> list[tuple[str, str, list[dict[str, Any]]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in results:
        cell = entry["cell"]
        name = (
            f"{cell['set']} {cell['positives']}%" if "positives" in cell else f"{cell['set']}, {cell['drop']}% dropped"
        )
        for metric, methods in entry["result"].items():
            groups.setdefault((name, metric), []).append(methods)
    return [(name, metric, methods) for (name, metric), methods in groups.items()]


def in_the_paper(name: str, metric: str) -> tuple[str, str]:
    if metric == "auroc":
        data_set, share = name.split(" ")
        values, column = table1.PAPER[data_set], table1.SHARES.index(int(share.rstrip("%")))
    else:
        data_set, drop = name.removesuffix("% dropped").split(", ")
        values, column = table2.PAPER[data_set, metric], table2.DROPS.index(int(drop))
    return f"{values['CE'][column]:.1f}", f"{values['Meng'][column]:.1f}"


def _summary(gaps: list[tuple[str, float, float]], results: Entries) -> str:
    seeds = len({entry["cell"]["seed"] for entry in results})
    parts = []
    for metric in dict.fromkeys(name for name, _, _ in gaps):
        mine = [gap for name, gap, _ in gaps if name == metric]
        plain = [gap for name, _, gap in gaps if name == metric]
        parts.append(
            f"{metric}: median {statistics.median(mine):+.2f} points against the chosen rival (above it in "
            f"{sum(gap > 0 for gap in mine)} of {len(mine)} cells), "
            f"{statistics.median(plain):+.2f} against logistic regression"
        )
    return f"{seeds} seed{'s' if seeds > 1 else ''}. " + "; ".join(parts) + "."
