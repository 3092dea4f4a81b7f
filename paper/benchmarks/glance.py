"""The first table of docs/benchmarks.md: each peer at its own job, one line, read from the tables below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Rows = list[dict[str, Any]]
#: Loss of a peer in the curves → ours at the same job.
LOSSES = {
    "AUROC: LibAUC AUCM": "AUROC, sorted",
    "AUROC: LibAUC pairwise": "AUROC, sorted",
    "AP: LibAUC": "AP, smooth",
    "F1: AP-Perf": "F1, smooth",
}
#: A gradient that is off by more than this is another answer, and its time says nothing.
RIGHT = 1e-2
HEAD = ("peer", "job", "aimfor", "peer's", "times faster")


def glance(tables: Mapping[str, Rows]) -> Rows:
    """A row for every peer that a table has, whether it is faster or slower than we are.

    Args:
        tables: Rows of the recorded tables by name; those that are not there are left out.
    """
    found = [*_losses(tables.get("curves", [])), *_programs(tables.get("lp_peers", []))]
    for row in tables.get("smooth_ap_peers", [])[-1:]:
        job = f"smooth AP of {row['n (embeddings)']} embeddings"
        found.append(("pytorch-metric-learning", job, float(row["ours, ms"]), float(row["package, ms"]), "ms"))
    for row in [row for row in tables.get("exact", []) if row["metric"] in ("auroc", "ndcg")][-2:]:
        job, ours = f"exact {row['metric'].upper()} of {row['n']} scores", float(row["ours, ms"])
        found.extend((peer, job, ours, float(row[f"{peer}, ms"]), "ms") for peer in ("torchmetrics", "scikit-learn"))
    for row in tables.get("retrieval_faiss", [])[-1:]:
        job = f"neighbours of {row['n × n × 128']} rows; ours also finds four metrics of them"
        theirs = float(row["faiss-cpu IndexFlatIP, search alone"])
        found.append(("faiss", job, float(row["evaluate, CPU seconds"]), theirs, "s"))
    rows = [
        (peer, job, f"{_short(ours)} {unit}", f"{_short(theirs)} {unit}", _short(float(f"{theirs / ours:.2g}")))
        for peer, job, ours, theirs, unit in found
    ]
    return [dict(zip(HEAD, row, strict=True)) for row in rows]


def _short(number: float) -> str:
    """Three digits, and none after the point of a hundred or more."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def kept(guarantee: Rows) -> str:
    """How often a guaranteed threshold keeps surely more of the oracle's recall than MAPIE's best method, and less."""
    lead = [tuple(map(float, row["aimfor ahead by"].split("±"))) for row in guarantee if row.get("aimfor ahead by")]
    if not lead:
        return ""
    ahead, behind = (sum(sign * by > margin for by, margin in lead) for sign in (1, -1))
    return (
        f"MAPIE's job is a threshold with a guarantee: in {len(lead)} settings ours keeps surely more recall than the\n"
        f"best of its methods in {ahead}, surely less in {behind}, and neither in {len(lead) - ahead - behind}.\n"
    )


def _losses(curves: Rows) -> Iterator[tuple[str, str, float, float, str]]:
    """Where both were measured, at the largest number of scores."""
    times = {(row["loss"], int(row["n"])): float(row["ms"]) for row in curves}
    for theirs, ours in LOSSES.items():
        most = max((n for loss, n in times if loss == theirs and (ours, n) in times), default=None)
        if most is not None:
            metric, peer = theirs.split(": ")
            yield peer, f"{metric} loss of {most:,} scores, both passes", times[ours, most], times[theirs, most], "ms"


def _programs(peers: Rows) -> Iterator[tuple[str, str, float, float, str]]:
    """Largest programs; of a peer with several solvers the quickest whose worst gradient is right."""
    size = peers[-1]["(m, v), batch"] if peers else ""
    best: dict[str, float] = {}
    for row in peers:
        who = str(row["method"]).split(",")[0]
        if row["(m, v), batch"] == size and float(row["worst"]) <= RIGHT:
            best[who] = min(best.get(who, float("inf")), float(row["forward + backward, ms"]))
    for who in dict.fromkeys(str(row["method"]).split(",")[0] for row in peers):
        if who in best and who != "aimfor" and "aimfor" in best:
            rows, variables, batch = re.findall(r"\d+", size)
            job = f"{batch} linear programs of {rows} rows and {variables} variables, both passes"
            yield who, job, best["aimfor"], best[who], "ms"
