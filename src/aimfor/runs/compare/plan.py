"""`aimfor compare`: honest rivals against what `train` makes, over paired seeds and splits, with a verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...data.backbones import is_backbone
from ...data.chunks import is_stream
from ...data.executors import run_cells
from ...data.features import Work
from ...data.settings import Settings
from ...errors import InputError
from ..prepared import prepare
from .cells import Cell, key_of, run_cell, why_not
from .entrants import ENSEMBLE, FOR_LISTS, FOR_TABLES, NETWORKS, Entrant
from .verdicts import cheapest_first, floor_sentences, holm, paired_difference, recommended

#: Of the rows, for the test of everybody alike.
HOLDOUT = 0.2
Results = dict[str, dict[int, dict[str, Any]]]
BEST_RIVAL, BEST_OF_ALL = "best_rival", "best_of_all"
TITLES = {
    BEST_RIVAL: "best rival, by validation",
    BEST_OF_ALL: "best of all, by validation",
}


@dataclass(frozen=True)
class Plan:
    """What will be run for one metric."""

    settings: Settings
    entrants: tuple[Entrant, ...]
    seeds: int
    fingerprint: str
    skipped: tuple[str, ...]
    #: Where features of a pretrained network are kept; empty for data without.
    features: str = ""

    def cells(self) -> Iterator[tuple[str, Cell]]:
        for seed in range(self.seeds):
            for entrant in self.entrants:
                settings = self.settings.model_copy(update={"seed": self.settings.seed + seed})
                cell = {"settings": settings.model_dump(), "entrant": entrant.name}
                yield key_of(cell, self.fingerprint), {**cell, **({"features": self.features} if self.features else {})}


def make_plan(settings: Settings, seeds: int, work: Work | None = None) -> Plan:
    """Checks the input and drops who cannot be run here, with a sentence each.

    The ensemble against trees, logistic regression and two networks, on a table and on features of a pretrained
    network alike; on pixels, against two networks; on ranked lists, against three rankers.
    """
    if seeds < 2:
        raise InputError("--seeds", repr(seeds), "at least 2", "Five or more give intervals worth reading.")
    if is_stream(settings.data):
        remedy = "Join its files, or compare on a part of them."
        raise InputError("data", f"{settings.data}, a folder of tables", "one table, which is read into memory", remedy)
    work = work or Work()
    settings = settings if settings.holdout else settings.model_copy(update={"holdout": HOLDOUT})
    prepared = prepare(settings, work=work)
    chosen = FOR_LISTS if prepared.lists is not None else (*FOR_TABLES, *NETWORKS)
    chosen = (ENSEMBLE, *NETWORKS) if prepared.source.images is not None else chosen
    reasons = {entrant.name: why_not(entrant) for entrant in chosen}
    skipped = tuple(f"{entrant.title}: {reasons[entrant.name]}" for entrant in chosen if reasons[entrant.name])
    usable = tuple(entrant for entrant in chosen if not reasons[entrant.name])
    features = str(work.runs or "") if is_backbone(settings.model) else ""
    return Plan(settings, usable, seeds, prepared.fingerprint, skipped, features)


def run_plans(
    plans: Sequence[Plan], folder: Path, executor: str, report: Callable[[int, int], None] | None = None
) -> list[Results]:
    """Runs the cells that are not stored yet on the executor (see `run_cells`) and stores each when done."""
    keys = [dict(plan.cells()) for plan in plans]
    cells = {key: cell for of_plan in keys for key, cell in of_plan.items()}
    done = run_cells(cells, run_cell, executor, folder / "cells", report)
    everything: list[Results] = []
    for plan, of_plan in zip(plans, keys, strict=True):
        grouped: Results = {entrant.name: {} for entrant in plan.entrants}
        for key in of_plan:
            grouped[done[key]["entrant"]][done[key]["seed"]] = done[key]
        everything.append(grouped)
    return everything


def add_choices(results: Results, plan: Plan) -> Results:
    """Two more rows that cost nothing: per seed, who is best on validation, of the rivals and of all."""
    rivals = [entrant.name for entrant in plan.entrants if entrant.rival]
    seeds = sorted(next(iter(results.values())))
    chosen: Results = {}
    for title, names in ((BEST_RIVAL, rivals), (BEST_OF_ALL, [entrant.name for entrant in plan.entrants])):
        chosen[title] = {
            seed: max((results[n][seed] for n in names), key=lambda entrant: number_of(entrant["validation"], -np.inf))
            for seed in seeds
        }
    return {**results, **chosen}


def number_of(value: float | None, otherwise: float = np.nan) -> float:
    """A cell's number; a metric that is undefined there is stored as None."""
    return otherwise if value is None else value


def summarize(results: Results, plan: Plan) -> dict[str, Any]:
    """Table rows, paired differences to the best rival, and the verdict. JSON-able.

    The rival is chosen on validation data per seed, as a careful user would, so the bar is not a single fixed rival.
    """
    candidates = [entrant.name for entrant in plan.entrants if not entrant.rival]
    complete = add_choices(results, plan)
    titles = {**{entrant.name: entrant.title for entrant in plan.entrants}, **TITLES}
    seeds = sorted(complete[BEST_RIVAL])
    test = {name: [number_of(complete[name][seed]["test"]["metric"]) for seed in seeds] for name in complete}
    rows = complete[BEST_RIVAL][seeds[0]]["rows"]
    level = 1 - 0.05 / max(1, len(candidates))
    share = rows[2] / rows[0]
    differences = {n: paired_difference(test[n], test[BEST_RIVAL], test_share=share, level=level) for n in candidates}
    adjusted = dict(zip(candidates, holm([differences[name].p for name in candidates]), strict=True))
    table = []
    for name in complete:
        of_seeds = [complete[name][seed] for seed in seeds]
        row = {"name": name, "title": titles[name], **_numbers(of_seeds)}
        if name in differences and np.isfinite(differences[name].mean):
            gain = differences[name]
            row |= {"difference": gain.mean, "low": gain.low, "high": gain.high, "p": adjusted[name]}
        table.append(row)
        if name == ENSEMBLE.name:
            row["weights"] = _mean_weights([cell["ensemble"] for cell in of_seeds])
            table += _member_rows([cell["ensemble"]["members"] for cell in of_seeds])
    summary = {
        "metric": plan.settings.metric,
        "seeds": plan.seeds,
        "rows": rows,
        "table": table,
        "comparisons": len(candidates),
        "level": level,
        "skipped": list(plan.skipped),
    }
    summary["equal"] = cheapest_first(
        {entrant.name: test[entrant.name] for entrant in plan.entrants},
        {row["name"]: (row["title"], row["seconds"]) for row in table},
        share,
    )
    summary["floors"] = floor_sentences(
        {
            titles[name].capitalize(): [complete[name][seed]["test"].get("rates") or {} for seed in seeds]
            for name in (ENSEMBLE.name, BEST_RIVAL)
            if name in complete
        },
        plan.settings.metric,
    )
    summary["verdicts"] = [*verdicts(summary), *summary["floors"]]
    return summary


def _numbers(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """What the cells of one entrant, seed by seed, say on average."""
    test = [number_of(cell["test"]["metric"]) for cell in cells]
    return {
        "test": float(np.mean(test)),
        "deviation": float(np.std(test, ddof=1)),
        "validation": float(np.mean([number_of(cell["validation"]) for cell in cells])),
        "seconds": float(np.mean([cell["seconds"] for cell in cells])),
        "megabytes": max((cell["megabytes"] for cell in cells if cell["megabytes"] is not None), default=None),
    }


def _member_rows(seeds: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each member that learned under every seed: what it reaches alone, and its weight beside the others."""
    rows = []
    for member in seeds[0]:
        same = [fitted for seed in seeds for fitted in seed if fitted["name"] == member["name"]]
        if len(same) < len(seeds):
            continue
        weight = float(np.mean([fitted["weight"] for fitted in same]))
        rows.append(
            {
                "name": f"{ENSEMBLE.name}/{member['name']}",
                "title": f"· {member['title']} alone (weight {weight:.2f})",
                "test": float(np.mean([number_of(fitted["test"]) for fitted in same])),
                "deviation": float(np.std([number_of(fitted["test"]) for fitted in same], ddof=1)),
                "validation": float(np.mean([number_of(fitted["out_of_fold"]) for fitted in same])),
                "seconds": float(np.mean([fitted["seconds"] for fitted in same])),
                "megabytes": None,
            }
        )
    return rows


def _mean_weights(ensembles: list[dict[str, Any]]) -> dict[str, float]:
    """Each member's weight, mean over seeds; a member that was left out has none."""
    total: dict[str, float] = {}
    for ensemble in ensembles:
        for member in ensemble["members"]:
            total[member["title"]] = total.get(member["title"], 0.0) + member["weight"] / len(ensembles)
    return total


def verdicts(summary: dict[str, Any]) -> list[str]:
    """What the numbers say, in words a user can act on. Metrics are in points (hundredths)."""
    metric, table = summary["metric"], {row["name"]: row for row in summary["table"]}
    sentences = [_verdict(row, metric, summary) for row in table.values() if "difference" in row]
    decided = any("difference" in row and row["low"] > 0 for row in table.values())
    equal = summary.get("equal", [])
    if not decided and len(equal) > 1:
        sentences.append(recommended(equal))
    single = [row for row in table.values() if row["name"] not in TITLES]
    best = max(single, key=lambda row: np.nan_to_num(row["test"], nan=-np.inf))
    ensemble = table[ENSEMBLE.name]
    loud = sorted(ensemble["weights"].items(), key=lambda pair: -pair[1])
    sentences.append("Weights in the ensemble: " + ", ".join(f"{name} {weight:.2f}" for name, weight in loud) + ".")
    if best is not ensemble:
        sentences.append(
            f"The highest mean on test rows is that of {best['title'].removeprefix('· ')}, {best['test']:.4f} "
            f"(ensemble {ensemble['test']:.4f}): {_seen(best, summary)}."
        )
    return sentences


def _seen(row: dict[str, Any], summary: dict[str, Any]) -> str:
    """Whether that is more than the luck of looking at several rows."""
    return (
        f"the best of {len(summary['table']) - len(TITLES)} rows in hindsight, which cannot be chosen beforehand"
        if "difference" not in row or row["low"] <= 0
        else "above the best rival by more than chance would explain"
    )


def _verdict(row: dict[str, Any], metric: str, summary: dict[str, Any]) -> str:
    points, low, high = (100 * row[key] for key in ("difference", "low", "high"))
    interval = f"{points:+.2f} points, {low:+.2f} to {high:+.2f}"
    if summary["comparisons"] > 1:
        interval += f" corrected for {summary['comparisons']} comparisons"
    title = row["title"][0].upper() + row["title"][1:]
    if low > 0:
        return f"{title}: better {metric} than the best rival on this data ({interval})."
    if high < 0:
        return f"{title}: worse {metric} than the best rival on this data ({interval})."
    return f"{title}: no difference in {metric} you could rely on ({interval})."
