"""Numbers that other pages quote from the tables: written between two comments, never by hand.

A page says `<!-- bench: NAME -->` … `<!-- end -->`, and `make bench` writes what NAME has to say there.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Tables = Mapping[str, list[dict[str, Any]]]
_QUOTE = re.compile(r"^( *)<!-- bench: (\w+) -->\n.*?<!-- end -->", re.DOTALL | re.MULTILINE)
#: How cvxpylayers solves for its gradients.
MODES = ("lsqr", "dense")
#: Losses of the curves as the choosing page calls them.
COSTS = {
    "AUROC, sorted": "AUROC, sorted, default",
    "F1, smooth": "F1, smooth, default",
    "AP, smooth": "AP, smooth, default",
    "NDCG, direct": "NDCG, direct",
    "AP, direct": "AP, direct, sign +1",
    "F1, lp": "F1, lp",
}


def costs(tables: Tables) -> str:
    """What losses cost, of all defaults the dearest, and what is left of that in a training step."""
    at = {(row["loss"], int(row["n"])): row for row in tables["curves"]}
    lines = ["| loss | n = 128 | n = 8,192 | n = 1,000,000 |", "|---|---|---|---|"]
    for loss, title in COSTS.items():
        found = _default(tables, loss.split(",")[0].lower()) if title.endswith("default") else None
        small, large = found or (at[loss, n]["× cross-entropy"] for n in (128, 8_192))
        most = at[loss, 1_000_000]
        whole = f"{float(most['ms']):.0f} ms, {float(most['extra MB']):.0f} MB"
        lines.append(f"| {title} | {small} × cross-entropy | {large} × cross-entropy | {whole} |")
    few, many = (_dearest(tables, n) for n in ("≤ 8", "≤ 15"))
    step = {(row["network"], row["loss"]): row["ratio"] for row in tables["iteration"]}
    return "\n".join(
        [
            *lines,
            "",
            f"Of the defaults of all metrics the dearest is {few} at n = 128, and {many} at n = 8,192 "
            "([table of defaults](benchmarks.md)).",
            "In a training step the network is most of the work: with a small CNN at batch 128, AUROC makes the step "
            f"{step['small CNN', 'AUROC']} times as long",
            f"as cross-entropy does; with ResNet-20 at batch 64, {step['ResNet-20', 'AUROC']} times.",
        ]
    )


def _default(tables: Tables, metric: str) -> tuple[Any, Any]:
    """Of a metric's default loss at n = 128 and 8,192: from the table of defaults, here and wherever it is quoted."""
    row = next(row for row in tables["small"] if row["metric"] == metric)
    return row["× cross-entropy (≤ 8)"], row["× cross-entropy (≤ 15)"]


def _dearest(tables: Tables, limit: str) -> str:
    column = f"× cross-entropy ({limit})"
    most = max(tables["small"], key=lambda row: float(row[column]))
    return f"{most['metric']} with {most[column]} times cross-entropy"


def slow(tables: Tables) -> str:
    at = {int(row["n"]): row for row in tables["curves"] if row["loss"] == "AUROC, sorted"}
    most, (few, many) = at[1_000_000], _default(tables, "auroc")
    return (
        f"**Is it slow?** AUROC costs {few} times cross-entropy at n = 128 and {many} times at n = 8,192;\n"
        f"a million scores take {float(most['ms']):.0f} ms and {float(most['extra MB']):.0f} MB."
    )


def rate_step(tables: Tables) -> str:
    row = next(row for row in tables["rates_cost"] if str(row["loss"]).startswith("maximize recall"))
    step, alone = (float(row[f"{part} / cross-entropy's"]) for part in ("step", "loss alone"))
    return (
        f"A training step costs {step:.1f} times that of cross-entropy at batch 512 (an MLP of 100-64-1;\n"
        f"the loss alone {alone:.1f} times)."
    )


def loader(tables: Tables) -> str:
    (read,), (train,) = tables["stream_loader"], tables["stream_fast"]
    speed = read["million rows per CPU-second"]
    limit, peak, each = (train[key] for key in ("limit", "peak MB of a process", "CPU s per million training rows"))
    return (
        f"With 20 columns of float64 the reader gives {speed} million rows per CPU-second\n"
        f"([benchmarks](benchmarks.md)). {train['rows']} such rows trained by `aimfor train --fast` in a memory\n"
        f"cgroup of {limit}: peak {peak} MB, {each} CPU-seconds per million rows"
    )


def two_processes(tables: Tables) -> str:
    columns = ("network", "batch of all", "loss", "ms a step, one process", "× one process", "joining, share of a step")
    return table(tables["ranks"], dict(zip(columns, columns, strict=True)))


def in_parts(tables: Tables) -> str:
    """How exact, what it costs, what it needs."""
    cost = {row["model"]: row for row in tables["in_parts_cost"]}
    columns = {
        "metric": "metric",
        "in parts, float64": "in parts, float64",
        "in parts, float32": "float32",
        "accumulated": "gradients accumulated over the parts",
        "its cosine": "their cosine",
    }
    times = [f"{row['in parts']} ({name})" for name, row in cost.items()]
    peer = [row["sentence-transformers, cached"] for row in cost.values() if row["sentence-transformers, cached"]]
    beside = f"; the cached loss of sentence-transformers on that last model {peer[0]}" if peer else ""
    return (
        f"{table(tables['in_parts_exact'], columns)}\n\n"
        "CPU time of one pass, where a plain pass with its gradient is 1:\n"
        f"{', '.join(times)}{beside}."
    )


def in_parts_memory(tables: Tables) -> str:
    columns = ("model", "n", "rows of a part", "in parts, MB", "the batch at once, MB")
    return table(tables["in_parts_memory"], dict(zip(columns, columns, strict=True)))


def epochs(tables: Tables) -> str:
    columns = {
        "epoch": "epoch",
        "ratio": "ratio",
        "ratio, extra output in the loss, nothing else": "extra output joined to the loss, nothing else",
        "ratio, empty Function and two index operations": "empty Function, two index operations",
    }
    return table(tables["lagrangian_epoch"], columns)


def layers(tables: Tables) -> str:
    size = tables["lp_peers"][-1]["(m, v), batch"]
    rows = [row for row in tables["lp_peers"] if row["(m, v), batch"] == size]
    theirs = [row for row in rows if row["method"].startswith("cvxpylayers")]
    errors = {mode: [float(row["gradient error, median"]) for row in theirs if mode in row["method"]] for mode in MODES}
    times = [float(row["times ours"]) for row in theirs]
    return (
        f"Of 32 programs with 200 rows and 50 variables, cvxpylayers' default gradient is off by "
        f"{100 * min(errors['lsqr']):.0f} % in the median (`lsqr`), its dense mode\n"
        f"by {min(errors['dense']):.0e} to {max(errors['dense']):.0e}; ours by {rows[0]['gradient error, median']}, "
        f"{min(times):.0f} to {max(times):.0f} times faster ([benchmarks](../benchmarks.md))."
    )


def ap_perf(tables: Tables) -> str:
    at = {(row["loss"], int(row["n"])): row for row in tables["curves"]}
    theirs, ours = at["F1: AP-Perf", 128], at["F1, smooth", 128]
    return (
        f"At n = 128 its F1 takes {float(theirs['ms']):.0f} ms for forward and backward, ours {float(ours['ms']):.2f}, "
        f"{ours['× cross-entropy']} times cross-entropy ([benchmarks](../benchmarks.md))."
    )


def table(rows: list[dict[str, Any]], columns: Mapping[str, str] | None = None) -> str:
    """As Markdown: all columns of the first row, or some under the names that a page has for them."""
    shown = columns or {name: name for name in rows[0]}
    lines = ["| " + " | ".join(shown.values()) + " |", "|" + "---|" * len(shown)]
    return "\n".join([*lines, *("| " + " | ".join(str(row.get(key, "")) for key in shown) + " |" for row in rows)])


QUOTES: dict[str, Callable[[Tables], str]] = {
    "costs": costs,
    "slow": slow,
    "rate_step": rate_step,
    "loader": loader,
    "two_processes": two_processes,
    "in_parts": in_parts,
    "in_parts_memory": in_parts_memory,
    "epochs": epochs,
    "layers": layers,
    "ap_perf": ap_perf,
}


def quote(page: str, tables: Tables) -> str:
    """The page with what the tables say today in every quoted place, indented as the place is."""

    def say(found: re.Match[str]) -> str:
        said = f"<!-- bench: {found[2]} -->\n{QUOTES[found[2]](tables)}\n<!-- end -->"
        return textwrap.indent(said, found[1])

    return _QUOTE.sub(say, page)


def write(docs: Path, tables: Tables) -> None:
    """Writes the pages whose numbers have changed."""
    for path in sorted(docs.rglob("*.md")):
        before = path.read_text(encoding="utf8")
        after = quote(before, tables)
        if after != before:
            path.write_text(after, encoding="utf8")
