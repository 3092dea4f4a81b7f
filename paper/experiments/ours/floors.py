"""Does `aimfor train` keep the floor it was asked for? Twenty splits, six floors, judged on rows held out.

Four tables, five splits each: some thousand labelled rows, of which the program keeps a fifth aside to test thresholds
on, and all other rows held out. The members are those of ``--fast`` (boosted trees on one split): how good the scores
are does not matter to the promise. One committee a split decides for every floor, by the functions that the program
calls. A threshold is given or not; where it is, the floor holds on the held-out rows or it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from aimfor.data.columns.cells import from_array
from aimfor.data.settings import Settings
from aimfor.data.source import Source
from aimfor.metrics.at_rate import AtRate
from aimfor.rates import Decision
from aimfor.runs.ensemble import fit_prepared, with_floor
from aimfor.runs.prepared import prepare
from aimfor.targets.objective import Objective

from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table

#: Table and how many labelled rows.
TABLES = {"adult": 5000, "bank_marketing": 5000, "mammography": 5000, "creditcard_fraud": 3500}
FLOORS = (
    "recall@precision=0.5", "recall@precision=0.7", "recall@precision=0.9",
    "precision@recall=0.7", "tpr@fpr=0.05", "tpr@fpr=0.1",
)  # fmt: skip


def cells(options: Options) -> list[Cell]:
    return [{"table": name, "seed": seed} for seed in range(options.seeds) for name in TABLES]


def run(cell: Cell, options: Options) -> Result:
    source = _source(data_folder(options, cell["table"]), cell["table"], cell["seed"])
    settings = Settings(data=cell["table"], metric=FLOORS[0], target="y", fast=True, seed=cell["seed"], jobs=1)
    ready = prepare(settings, source, ensemble=True)
    committee = fit_prepared(settings, ready)
    held = torch.from_numpy(ready.parts.test)
    scores, y = committee.scores(ready.x[held]), ready.ids[held]
    found = {}
    for name in FLOORS:
        objective = Objective.of(name)
        assert isinstance(objective.metric, AtRate)
        decided = with_floor(replace(committee, objective=objective, notes=[]), replace(ready, objective=objective))
        problem = objective.metric.problem()
        counts = problem.count(scores, y, decision=Decision(decided.threshold.value))
        (constraint,) = problem.constraints
        rate = constraint.left.terms[0][1]  # type: ignore[attr-defined]
        found[name] = {
            "given": not decided.notes,
            "value": float(constraint.left.value(counts)),  # type: ignore[attr-defined]
            "bound": constraint.bound,
            "sense": constraint.sense,
            "trials": float(rate.trials(counts)),
            "goal": float(problem.objective.value(counts)),  # type: ignore[attr-defined]
        }
    return {"floors": found, "aside": len(ready.parts.validation), "held_out": len(y)}


def _source(folder: Path, name: str, seed: int) -> Source:
    parts = [arrays(folder / name / f"{part}.npz") for part in ("train", "test")]
    x = np.concatenate([part["X"] for part in parts]).astype(np.float64)
    y = np.concatenate([part["y"] for part in parts])
    order = np.random.default_rng(seed).permutation(len(y))
    test = np.zeros(len(y), dtype=bool)
    test[order[TABLES[name] :]] = True
    columns = {f"x{place}": from_array(f"x{place}", x[:, place]) for place in range(x.shape[1])}
    return Source(name, columns, labels=y.astype(str).astype(object), test=test)


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    lines = [
        "# Floors in `aimfor train`: are they kept on held-out rows?",
        "",
        f'{len(rows)} splits of {len(TABLES)} tables. "Kept" counts thresholds at which the floor holds on the rows',
        'held out, as measured there; "clearly broken" those where it fails by more than their sampling error explains',
        "(exact one-sided test at 5 %).",
        "",
        *board(rows),
    ]
    write_table(folder, lines)


def board(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the table."""
    lines = ["| floor | thresholds given | kept | clearly broken | objective, mean |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {_summary([row['result']['floors'][name] for row in rows])} |" for name in FLOORS]
    lines.append(f"| all | {_summary([row['result']['floors'][name] for row in rows for name in FLOORS])} |")
    return lines


def _summary(outcomes: Sequence[dict[str, Any]]) -> str:
    given = [one for one in outcomes if one["given"]]
    kept = sum(holds(one) for one in given)
    broken = sum(clearly_broken(one) for one in given)
    goal = np.mean([one["goal"] for one in given]) if given else float("nan")
    share = f" ({kept / len(given):.1%})" if given else ""
    return f"{len(given)} of {len(outcomes)} | {kept}{share} | {broken} | {goal:.3f}"


def holds(one: dict[str, Any]) -> bool:
    value, bound = one["value"], one["bound"]
    return value is not None and (value >= bound if one["sense"] == ">=" else value <= bound)


def clearly_broken(one: dict[str, Any]) -> bool:
    if one["value"] is None:
        return False
    n, k = round(one["trials"]), round(one["value"] * one["trials"])
    tail = stats.binom.cdf(k, n, one["bound"]) if one["sense"] == ">=" else stats.binom.sf(k - 1, n, one["bound"])
    return bool(tail < 0.05)


EXPERIMENT = Experiment(
    "floors",
    "does aimfor train keep its floors on held-out rows?",
    "aimfor",
    cells,
    run,
    report,
    seeds=5,
)
