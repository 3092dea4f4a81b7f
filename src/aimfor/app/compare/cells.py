"""One cell of a comparison: one recipe, one seed, one metric; a pure function of its description."""

from __future__ import annotations

import hashlib
import json
import resource
import time
from functools import lru_cache
from typing import Any

import torch

from ... import __version__
from ...fitting.all_data import end, why_not_all_data
from ...fitting.config import Recipe, Settings, Stage
from ...fitting.fit import Fit, why_no_head
from ...fitting.losses import why_untrainable
from ...fitting.models import scores_of
from ..run.evaluate import evaluate
from ..run.folder import Prepared, prepare, read_source

#: The reference line on tables; not a network, so not a recipe.
TREE = Recipe(
    name="gradient_boosting",
    title="boosted trees (reference)",
    stages=(Stage(loss="ce"),),
    rival=True,
)

Cell = dict[str, Any]


def key_of(cell: Cell, fingerprint: str) -> str:
    """A name that changes whenever the result could."""
    text = json.dumps([cell, fingerprint, __version__, torch.__version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@lru_cache(maxsize=2)
def _source(frozen: str) -> Any:
    return read_source(Settings(**json.loads(frozen)))


def _ready(settings: Settings) -> Prepared:
    shared = settings.model_copy(update={"seed": 0, "metric": "auroc"})
    return prepare(settings, _source(shared.model_dump_json()))


def run_cell(cell: Cell) -> dict[str, Any]:
    """Trains and evaluates. The threshold comes from validation rows; the test rows are looked at once."""
    torch.set_num_threads(1)
    settings, recipe = Settings(**cell["settings"]), Recipe(**cell["recipe"])
    ready = _ready(settings)
    x, y = ready.test
    before = _reset_peak()
    began = time.monotonic()
    if recipe.name == TREE.name:
        scores, validation, threshold = _tree(ready)
        note = ""
    else:
        fit = Fit(ready.task, ready.settings, recipe).run()
        best, ending = fit.state.best, end(fit)
        validation, threshold, note = best["value"], ending.threshold, best["loss"]
        scores = scores_of(ending.model, x, ready.labels.outputs)
    seconds, extra = time.monotonic() - began, max(0.0, _peak() - before)
    test = evaluate(ready.objective, scores, y, threshold)
    return {
        "recipe": recipe.name,
        "seed": settings.seed,
        "test": test,
        "validation": validation,
        "threshold": threshold,
        "from": note,
        "seconds": seconds,
        "megabytes": extra,
        "rows": [len(ready.parts.train), len(ready.parts.validation), len(ready.parts.test)],
        "classes": ready.labels.classes,
        "notes": ready.notes,
    }


def _tree(ready: Prepared) -> tuple[torch.Tensor, float, float]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    task, (x, _) = ready.task, ready.test
    model = HistGradientBoostingClassifier(random_state=ready.settings.seed)
    model.fit(task.x.numpy(), task.y.numpy())
    validation = torch.from_numpy(model.decision_function(task.x_validation.numpy()))
    threshold, value = ready.objective.tuned(validation, task.y_validation)
    return torch.from_numpy(model.decision_function(x.numpy())), value, threshold


def why_not(recipe: Recipe, ready: Prepared) -> str | None:
    """A sentence when this recipe cannot be run for this metric and data, else None."""
    needed = {stage.loss for stage in recipe.stages if not stage.optional}
    reason = None
    if recipe.name == TREE.name and ready.source.images is not None:
        reason = "gradient-boosted trees are for tables"
    if "metric" in needed:
        reason = why_untrainable(ready.objective)
    if reason is None and "head" in needed:
        reason = why_no_head(ready.objective)
    if reason is None and recipe.all_data:
        reason = why_not_all_data(ready.objective)
    return reason


def _reset_peak() -> float:
    """Starts the peak anew where Linux allows it; returns the memory in use, in MB."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return _status("VmRSS")
    except OSError:
        return _peak()


def _peak() -> float:
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status(name: str) -> float:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise OSError(name)
