"""The last phase: what validation rows have chosen is trained on for a while, on validation rows too.

The chosen weights go on by their own stage's loss, at a third of its rate, and the mean of the weights along the way is
kept. That is done twice. The *trial* sees training rows alone, so validation rows can still judge it: they stop the
phase where it is plainly worse, and give it its threshold and calibration. The same steps on training and validation
rows together then make the model that is saved. Nothing can be measured on validation rows after that.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..metrics.at_rate import AtRate
from ..metrics.confusion import CountMetric
from .averaging import mean_of_weights
from .config import Recipe
from .fit import Fit, Interrupted
from .losses import StageLoss
from .models import scores_of
from .objective import Objective
from .statistics import share_won
from .steps import Task, epoch_batches, make_optimizer, take_step

#: Of the stage's own learning rate.
RATE = 1 / 3
#: Of the stage's own epochs. A tenth to all of them made no clear difference on six tables (docs/program.md).
LENGTH = 0.25
#: The phase is left out when its trial wins in fewer draws of the validation rows than this: the chosen weights are the
#: best of many looks at these rows, which flatters them, so a tie is no reason to stop.
PLAINLY_WORSE = 0.1
TAKEN = (
    "In the end the saved model was trained on with validation rows among the training rows: what is said about "
    "validation rows is of the model before that, threshold and probabilities are of the same steps without these "
    "rows, and test rows were never trained on."
)
HEAD = (
    "The last phase on all data was left out, because a refitted last layer was chosen: a trial of it without "
    "validation rows would be that layer itself, so these rows could not judge it."
)
LEFT_OUT = (
    "The last phase on all data was left out, because a trial of it without validation rows was plainly worse on them: "
    "the saved model is the one that was chosen, as it is."
)


@dataclass(frozen=True)
class Ending:
    """What a run saves.

    Attributes:
        model: The network.
        threshold: Found on validation rows that the judged network was not trained on.
        scores: Of these validation rows, by that network: what calibration is fitted on.
        phase: Facts about the last phase; None when there was none to run.
    """

    model: nn.Module
    threshold: float
    scores: Tensor
    phase: dict[str, Any] | None = None


def why_not_all_data(objective: Objective) -> str | None:
    """A sentence when validation rows are needed to the end, else None."""
    if isinstance(objective.metric, CountMetric):
        return "its decisions need a threshold from rows that were not trained on"
    if isinstance(objective.metric, AtRate):
        return "its floor is kept by a threshold from rows that were not trained on"
    return None


def check(recipe: Recipe, objective: Objective) -> None:
    """Raises `InputError` when the recipe asks for the phase and the metric cannot have it."""
    reason = why_not_all_data(objective) if recipe.all_data else None
    if reason is not None:
        raise InputError(
            "--all-data",
            f"it for {objective.name}",
            "a metric without a threshold or floor, such as auroc or ap",
            f"Leave it out: {reason}.",
        )


def end(fit: Fit, stop: Callable[[], bool] = lambda: False) -> Ending:
    """The chosen weights as they are or, where the recipe asks for it, after the last phase. ``fit`` has been run.

    It depends on the fit alone, so an interrupted phase is simply done again.

    Raises:
        Interrupted: ``stop()`` became true.
    """
    task = fit.task
    scores = scores_of(fit.model, task.x_validation, task.outputs)
    as_it_is = Ending(fit.model, fit.state.best["threshold"], scores)
    if not fit.recipe.all_data:
        return as_it_is
    if fit.state.best["loss"] == "head":
        return replace(as_it_is, phase={"taken": False, "share_won": None, "trial": None, "text": HEAD})
    threads, began = torch.get_num_threads(), time.monotonic()
    torch.set_num_threads(fit.settings.threads)
    try:
        return _last_phase(fit, as_it_is, stop)
    finally:
        torch.set_num_threads(threads)
        fit.state.seconds += time.monotonic() - began


def _last_phase(fit: Fit, as_it_is: Ending, stop: Callable[[], bool]) -> Ending:
    task = fit.task
    trial = _trained_on(fit, task, stop)
    scores = scores_of(trial, task.x_validation, task.outputs)
    share = share_won(task.validation_value, scores, as_it_is.scores, task.y_validation)
    threshold, value = task.objective.tuned(scores, task.y_validation, task.weights_validation)
    taken = share >= PLAINLY_WORSE
    phase = {"taken": taken, "share_won": share, "trial": value, "text": TAKEN if taken else LEFT_OUT}
    if not taken:
        return replace(as_it_is, phase=phase)
    return Ending(_trained_on(fit, all_labelled(task), stop), threshold, scores, phase)


def all_labelled(task: Task) -> Task:
    """The task with validation rows among the training rows."""
    weights = task.weights
    if weights is not None:
        judged = task.weights_validation
        weights = torch.cat([weights, weights.new_ones(len(task.y_validation)) if judged is None else judged])
    return replace(
        task, x=torch.cat([task.x, task.x_validation]), y=torch.cat([task.y, task.y_validation]), weights=weights
    )


def _trained_on(fit: Fit, task: Task, stop: Callable[[], bool]) -> nn.Module:
    """The chosen weights after the phase on the training rows of this task."""
    model = copy.deepcopy(fit.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fit.settings.seed * 1009 + len(fit.recipe.stages))
        return mean_of_weights(model, _steps(fit, task, model, stop)).eval()


def _steps(fit: Fit, task: Task, model: nn.Module, stop: Callable[[], bool]) -> Iterator[None]:
    """Trains the model for as many steps as training rows alone would give; yields after each."""
    stage, number = fit.recipe.stages[fit.state.best["stage"]], len(fit.recipe.stages)
    optimizer = make_optimizer(model, fit.settings, RATE * fit.settings.learning_rate * stage.rate)
    loss = StageLoss(stage.loss, task.objective, task.y, task.outputs, task.weights)
    left = max(1, round(LENGTH * fit.epochs(stage))) * len(epoch_batches(fit.task, fit.settings, stage, number, 0))
    model.train()
    for epoch in itertools.count():
        for rows in epoch_batches(task, fit.settings, stage, number, epoch)[:left]:
            if stop():
                raise Interrupted("stopped; the phase will be done again")
            take_step(model, optimizer, loss, task, fit.settings, rows)
            left -= 1
            yield
        if not left:
            return
        loss.end_epoch()
