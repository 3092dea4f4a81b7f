"""Turns paper/benchmarks/results/*.json into docs/benchmarks.md, and the curves among them into pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import glance
import quoted
from quoted import table

ROOT = Path(__file__).parent.parent.parent
RESULTS = Path(__file__).parent / "results"
#: Of run.py: the peers of its last run, and when each command was started, how long it took, whether it ended well.
LOG = RESULTS / "run" / "log.json"
INTRO = """# Benchmarks

`make bench` measures every table again, beside every peer that is installed, and each regenerates alone with the
command above it. Times are medians of CPU time on one thread, or by the clock where processes work together; compare
ratios, which were measured in the same run, rather than milliseconds, which depend on the machine.
"""
#: Chapter of the page → its tables, in their order. A table that stands nowhere comes last.
CHAPTERS = {
    "Losses": """
        small masks curves sorted auc_mu smooth_f1 smooth_ap smooth_ap_peers cliffs cliffs_sweep direct_ap
        direct_ap_negative direct_f1 direct_iou iteration head in_parts_exact in_parts_cost in_parts_memory""",
    "Linear programs": """
        lp_plane lp_auto lp_regret lp_peers lp_backward lp_accuracy lp_gram lp_memory lp_properties lp_reduction
        lp_sdr lp_steps lp_steps_curves lp_unique lp_blackbox""",
    "One dual per example": """
        lagrangian_cost lagrangian_batches lagrangian_epoch lagrangian_convergence lagrangian_projections
        lagrangian_schedules lagrangian_plain lagrangian_rate mask_sizes""",
    "Constraints and guarantees": "guarantee cold drawn decide gap fair rates_cost rates_decide rates_calibration",
    "Exact metrics": "exact boxes retrieval retrieval_faiss",
    "The program": "committee_cost pictures_cost strangers",
    "Large data and several processes": """
        stream_fast stream_members stream_levels stream_loader stream_trees ranks bytes executors""",
}
LAST = "More"
#: Column of the curves → (file, label of the axis).
PICTURES = {
    "ms": ("benchmarks_time.svg", "CPU ms, forward and backward"),
    "extra MB": ("benchmarks_memory.svg", "extra MB at the peak"),
}


def read_log() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(LOG.read_text(encoding="utf8")) if LOG.exists() else {}
    return {"date": "", "peers": {}, "commands": {}} | stored


def write_log(log: dict[str, Any]) -> None:
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


def peers_line(log: dict[str, Any]) -> str:
    """The packages that the last run had beside it, and those it had not; empty without a run."""
    if not log["peers"]:
        return ""
    there = ", ".join(f"{name} {version}" for name, version in log["peers"].items() if version is not None)
    absent = ", ".join(name for name, version in log["peers"].items() if version is None)
    return f"Peers in the last run ({log['date']}): {there or 'none'}. Not installed: {absent or 'none'}.\n"


def curves(rows: list[dict[str, Any]], column: str) -> dict[str, list[tuple[float, float]]]:
    """Points (n, value) of each loss, without those that were not measured or are too small to see."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row[column] != "" and float(row[column]) > 0:
            found.setdefault(str(row["loss"]), []).append((float(row["n"]), float(row[column])))
    return found


def line_looks(names: list[str]) -> dict[str, dict[str, Any]]:
    """A look of its own for every loss, the same in all pictures: no two lines of a kind share a colour."""
    from matplotlib import colormaps

    peers = [name for name in names if ":" in name]
    ours = [name for name in names if name not in peers and "torch" not in name]
    looks = {name: {"color": "black", "linestyle": ":", "marker": "x"} for name in names}
    for kind, map_name, style, marker in ((ours, "tab10", "-", "o"), (peers, "Dark2", "--", "s")):
        palette = colormaps[map_name].colors
        if len(kind) > len(palette):
            raise ValueError(f"{len(kind)} lines for the {len(palette)} colours of {map_name}")
        looks |= {
            name: {"color": colour, "linestyle": style, "marker": marker}
            for name, colour in zip(kind, palette, strict=False)
        }
    return looks


@contextmanager
def picture(file: str, size: tuple[float, float], **settings: str) -> Iterator[tuple[Any, Any]]:
    """A figure of the page and its axes, saved when the block ends: the same rows make the same file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    yield figure, figure.subplots()
    with rc_context({"svg.hashsalt": "aimfor", **settings}):
        figure.savefig(ROOT / "docs" / file, metadata={"Date": None})


def draw(rows: list[dict[str, Any]]) -> str:
    """Both axes logarithmic; ours as lines with dots, peers dashed with squares. Returns the pictures as Markdown."""
    looks = line_looks(list(dict.fromkeys(str(row["loss"]) for row in rows)))
    for column, (file, label) in PICTURES.items():
        with picture(file, (7.0, 4.2)) as (_, axes):
            for name, points in curves(rows, column).items():
                axes.plot(*zip(*points, strict=True), markersize=4, label=name, **looks[name])
            axes.set(xscale="log", yscale="log", xlabel="number of scores", ylabel=label)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    time, memory = (file for file, _ in PICTURES.values())
    shown = (f"![Time against the number of scores]({time})", f"![Memory against the number of scores]({memory})")
    return "\n\n".join(shown) + "\n"


def heat(rows: list[dict[str, Any]]) -> str:
    """The plane of linear programs: each method's time over the quickest's, and the error of its x in the cell."""
    from matplotlib.colors import LogNorm

    cell, *columns = [name for name in rows[0] if " / " not in name and not name.startswith("backward")]
    words = [[str(row.get(name, "")).replace("(", "").rstrip(")").split() for name in columns] for row in rows]
    times = [[float(two[0]) if len(two) == 2 else float("nan") for two in line] for line in words]
    share = [[time / min(v for v in line if v == v) for time in line] for line in times]
    with picture("benchmarks_programs.svg", (8.0, 5.4)) as (figure, axes):
        image = axes.imshow(share, norm=LogNorm(1, 100), cmap="YlOrRd", aspect="auto")
        axes.set_xticks(range(len(columns)), columns, fontsize=8)
        axes.set_yticks(range(len(rows)), [row[cell] for row in rows], fontsize=8)
        for i, line in enumerate(words):
            for j, two in enumerate(line):
                text, colour = f"{share[i][j]:.1f}\n{two[1]}" if len(two) == 2 else "–", share[i][j] > 20
                axes.text(j, i, text, ha="center", va="center", fontsize=6, color="white" if colour else "black")
        figure.colorbar(image, label="forward time over the quickest's; below it, the error of x")
    return "![Time and accuracy over the plane of linear programs](benchmarks_programs.svg)\n"


def falling(rows: list[dict[str, Any]]) -> str:
    """How the gradient of Meng's penalty falls with the steps, by λ, and by gradient descent; docs/lp.md has it too."""
    with picture("lp_steps.svg", (7.0, 3.6), **{"svg.fonttype": "none"}) as (_, axes):
        for name in [name for name in rows[0] if name != "steps"]:
            style = "-" if name.startswith("λ") else "--"
            axes.plot([row["steps"] for row in rows], [float(row[name]) for row in rows], style, marker=".", label=name)
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="‖∇g‖ / ε, median")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return "![The gradient by the number of steps: full steps cycle, short ones converge](lp_steps.svg)\n"


#: Table → what draws it.
DRAWN = {"curves": draw, "lp_plane": heat, "lp_steps_curves": falling}


def chapters() -> dict[str, dict[str, dict[str, Any]]]:
    """The page: chapter → name of a table → what was recorded."""
    stored = {path.stem: json.loads(path.read_text(encoding="utf8")) for path in sorted(RESULTS.glob("*.json"))}
    order = {title: names.split() for title, names in CHAPTERS.items()}
    order[LAST] = [name for name in stored if not any(name in names for names in order.values())]
    page = {title: {name: stored[name] for name in names if name in stored} for title, names in order.items()}
    return {title: tables for title, tables in page.items() if tables}


def opening(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the page says before its tables: how it came to be, and every peer in a line."""
    beside = glance.glance(rows)
    parts = [INTRO, peers_line(read_log())]
    if beside:
        parts += ["## Beside every peer, at its own job\n", "Read from the tables below.\n", table(beside) + "\n"]
    return [part for part in (*parts, glance.kept(rows.get("guarantee", []))) if part]


def main() -> None:
    page = chapters()
    rows = {name: document["rows"] for tables in page.values() for name, document in tables.items()}
    parts = opening(rows)
    for title, tables in page.items():
        parts.append(f"## {title}\n")
        for name, document in tables.items():
            source = f"`{document['command']}`: {document['date']}, {document['setting']}"
            parts.append(f"### {document['title']}\n\n{source}\n")
            if name in DRAWN:
                parts.append(DRAWN[name](document["rows"]))
            parts.append(table(document["rows"]) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(parts))
    quoted.write(ROOT / "docs", rows)


if __name__ == "__main__":
    main()
