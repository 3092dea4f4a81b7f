"""The evidence page on guaranteed thresholds: validity, floors in `aimfor train`, MAPIE, out-of-fold scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..experiments.ours import floors, out_of_fold, promises

INTRO = """## Guaranteed thresholds

`decide(..., guarantee=0.95)` promises that all constraints hold on the population with 95 % confidence, whatever the
distribution. That is a theorem, whichever order of tests the learning rows choose.
"""


def guarantee_board(results: Mapping[str, Sequence[dict[str, Any]]]) -> list[str]:
    """Lines of Markdown from whatever is cached; none without anything."""
    parts = [
        *_validity(results.get("validity", ())),
        *_peeking(results.get("peeking", ())),
        *_floors(results.get("floors", ())),
        *_mapie(results.get("bench:guarantee", ())),
        *_out_of_fold(results.get("out_of_fold", ())),
        *_promises(results.get("promises", ())),
    ]
    return [INTRO, *parts] if parts else []


def _promises(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Both tables, with as many draws as were run."""
    if not rows:
        return []
    head = "### Clusters, planned labels, bands and categories (`promises`)"
    tables = [*promises.validity_lines(rows), "", promises.POWER, "", *promises.power_lines(rows)]
    return [head, "", promises.EXPLAINED, "", *tables, ""]


def _validity(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The order of tests that a cell was measured with stands in it; the first cells have the earlier one."""
    lines = []
    orders = {"the order by rehearsal": "rehearsal", "the earlier order of tests, most power first": None}
    for words, order in orders.items():
        mine = [row for row in rows if row["cell"].get("order") == order]
        if mine:
            shares = {
                name: _broken([row for row in mine if row["cell"]["setting"] == name])
                for name in dict.fromkeys(row["cell"]["setting"] for row in mine)
            }
            worst = max(shares, key=lambda name: shares[name])
            draws = sum(row["result"]["draws"] for row in mine)
            lines.append(
                f"Populations whose true rates are known (`validity`), with {words}: {draws:,} draws in {len(shares)}"
                f" settings. The promise was broken in {min(shares.values()):.2%} to {shares[worst]:.2%} of the draws"
                f" of a setting (most often in: {worst}); 5 % are allowed.\n"
            )
    return lines


def _broken(rows: Sequence[dict[str, Any]]) -> float:
    return float(sum(row["result"]["wrong"] for row in rows) / sum(row["result"]["draws"] for row in rows))


def _peeking(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The most of either error over the settings."""
    if not rows:
        return []
    settings = [row["result"] for row in rows]
    met, missed = (max(setting[verdict] / setting["streams"] for setting in settings) for verdict in ("met", "missed"))
    longest = max(setting["rows"] for setting in settings)
    return [
        f"The anytime check of `aimfor check`, looked at after every row (`peeking`): {settings[0]['streams']:,}"
        f" streams in each of {len(settings)} settings of up to {longest:,} rows. A false constraint was ever called"
        f" met in at most {met:.2%} of a setting's streams, a true one ever called missed in at most {missed:.2%};"
        " 5 % are allowed for each.\n"
    ]


def _floors(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    return [
        f"Floors in `aimfor train` (`floors`), {len(rows)} splits, measured on held-out rows:\n",
        *floors.board(rows),
        "",
    ]


def _mapie(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Cells in which aimfor keeps at least as much as the best method of MAPIE; docs/benchmarks.md has all of them."""
    cells = [row for row in rows if "any procedure" in row]
    if not cells:
        return []
    ahead = [tuple(map(float, row["aimfor ahead by"].split(" ± "))) for row in cells]
    behind = [(row, gain, error) for row, (gain, error) in zip(cells, ahead, strict=True) if gain < 0]
    clear = [cell for cell in behind if cell[1] < -2 * cell[2]]
    large = [row for row in cells if row["rows"] >= 5000]
    oracle = sum(_share(row["aimfor"]) >= 90 for row in large)
    possible = sum(_share(row["any procedure"]) >= 90 for row in large)
    near = sum(_share(row["aimfor"]) >= 0.9 * _share(row["any procedure"]) for row in large)
    named = "; ".join(
        f"{row['scores of']} {row['precision at least']} with {row['rows']} rows, {gain:+.1f} ± {error:.1f} points"
        for row, gain, error in behind
    )
    return [
        f"Recall kept, compared with MAPIE 1.6 (`paper/benchmarks/bench_guarantee.py`), {cells[0]['draws']} draws a"
        f" cell: at least as much as the best of its four methods in {len(cells) - len(behind)} of {len(cells)} cells"
        + (f"; less in {len(behind)}, in {len(clear)} by more than two standard errors ({named})" if behind else "")
        + f". With 5,000 rows, at least 90 % of the oracle's recall is kept in {oracle} of {len(large)} cells. No"
        f" procedure that holds for every distribution could do so in more than {possible}, even if it knew where to"
        f" look (a bound by Neyman and Pearson, `bound_guarantee.py`); at least 90 % of that bound is kept in {near}"
        " cells.\n"
    ]


def _share(text: str) -> float:
    return float(text.rstrip("%"))


def _out_of_fold(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    intro = "May thresholds be tested on out-of-fold scores and used on the average of the fold models (`out_of_fold`)?"
    return [intro + "\n", *out_of_fold.board(rows), ""]
