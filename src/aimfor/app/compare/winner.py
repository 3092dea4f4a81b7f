"""What a comparison leaves behind: the run folder of who won, for `predict`, `report` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...fitting.backbones import is_backbone
from ...fitting.config import Recipe, Settings
from ..cli.bar import console
from ..data.features import Work
from ..run import training
from .entrants import COMMITTEE, HISTGB, LIGHTGBM, LOGISTIC
from .plan import Plan
from .rankers import RANKERS

#: Rivals that are no recipes have a kind of member that stands for them in a folder without pickle.
STAND_INS = {LIGHTGBM.name: "trees", HISTGB.name: "trees", LOGISTIC.name: "linear"}
STAND_INS |= {name: "linear" if "linear" in name else "trees" for name in RANKERS}


def winner_of(plan: Plan, summary: dict[str, Any]) -> Recipe | None:
    """The committee unless it was found worse; then the rival with the best mean on validation rows.

    None where no committee was compared: then the question was about recipes, and `train --recipe` makes the run.
    """
    rows = {row["name"]: row for row in summary["table"]}
    if COMMITTEE.name not in rows:
        return None
    if rows[COMMITTEE.name].get("high", 0.0) >= 0:
        return COMMITTEE
    rivals = [recipe for recipe in plan.recipes if recipe.rival]
    return max(rivals, key=lambda recipe: np.nan_to_num(rows[recipe.name]["validation"], nan=-np.inf))


def leave_winner(folder: Path, plan: Plan, summary: dict[str, Any]) -> None:
    """Trains the winner of the first seed into ``run-METRIC`` (or goes on with it), and says what is there."""
    winner = winner_of(plan, summary)
    if winner is None:
        return
    settings, recipe, what = _run_of(plan.settings, winner)
    out = folder / "".join(c if c.isalnum() or c in "-_.=@" else "_" for c in f"run-{settings.metric}")
    if not (out / "metrics.json").exists():
        console().print(f"Training {what} for {settings.metric} …")
        work = Work(Path(plan.features) if plan.features else None)
        if (out / "config.json").exists():
            ready = training.reopen(out, None, work)[0]
        else:
            ready = training.start(settings, recipe, out, None, work)[1]
        training.finish(out, ready, recipe)
    print(f"Run folder of {what} for {settings.metric}: {out}")


def _run_of(settings: Settings, winner: Recipe) -> tuple[Settings, Recipe | None, str]:
    """Settings and recipe of the run (None: a committee), and what it holds in words."""
    if winner.name == COMMITTEE.name:
        return settings, None, "the committee"
    if winner.name not in STAND_INS:
        return settings, winner, f"the winner, {winner.title},"
    kind = ("features_" if is_backbone(settings.model) else "") + STAND_INS[winner.name]
    what = f"the committee's {kind} alone, in place of the winner {winner.title}, whose model no run folder holds,"
    return settings.model_copy(update={"members": (kind,)}), None, what
