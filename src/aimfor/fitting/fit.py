"""Training by stages, with the best weights by the target metric on validation data, and exact resume."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AimforError, InputError
from . import checkpoint
from .config import Recipe, Settings, Stage
from .last_layer import refit_last_layer, why_no_head
from .losses import StageLoss, why_untrainable
from .models import build, scores_of
from .statistics import share_won
from .steps import Task, batch_size, epoch_batches, make_optimizer, set_rate, take_step

Event = dict[str, Any]
#: A stage on all rows at once takes at least this many steps.
_WHOLE_STEPS = 60
#: In what share of the draws of validation rows a stage must be better to be clearly better.
CONVINCING = 0.95


class Interrupted(AimforError):
    """The user stopped the run; its state is saved."""


def end_if(stopping: bool) -> None:
    """Raises `Interrupted` when it is time; what is worth keeping has been saved by then."""
    if stopping:
        raise Interrupted("stopped; the state is saved")


@dataclass
class State:
    """Where a run stands, all of it JSON. Tensors are kept beside it."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    since_best: int = 0
    seconds: float = 0.0
    best: dict[str, Any] = field(default_factory=dict)
    #: What was best before a stage that has to be clearly better.
    incumbent: dict[str, Any] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Fit:
    """One run of one recipe on one task.

    Args:
        task: The encoded data.
        settings: Rates, sizes and the seed; epochs and batch size already chosen (`Settings.budget`).
        recipe: The stages.
        report: Called with a dict after every epoch.

    Example:
        >>> from aimfor.fitting.config import find_recipe, settings
        >>> from aimfor.fitting.objective import Objective
        >>> x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> task = Task(x[:60], y[:60], x[60:], y[60:], Objective.of("auroc"), outputs=1)
        >>> given = settings(data="", metric="auroc", model="linear", epochs=2, batch_size=20)
        >>> fitted = Fit(task, given, find_recipe("cross_entropy")).run()
        >>> len(fitted.state.history), fitted.state.best["value"] > 0.5
        (2, True)
    """

    def __init__(
        self, task: Task, settings: Settings, recipe: Recipe, report: Callable[[Event], None] | None = None
    ) -> None:
        self.task, self.settings, self.recipe, self.report = task, settings, recipe, report
        self.state = State()
        self.best: dict[str, Tensor] = {}
        self.incumbent: dict[str, Tensor] = {}
        self.model: nn.Module
        self.optimizer: torch.optim.Optimizer
        self.loss: StageLoss
        self._saved_at = self._began = time.monotonic()
        self._restored: dict[str, Tensor] = {}
        self._optimizer_rest: Any = None

    def run(self, path: Path | None = None, stop: Callable[[], bool] | None = None) -> Fit:
        """Trains to the end and leaves ``model`` with the best weights. ``path`` is where the state is saved.

        Raises:
            Interrupted: ``stop()`` became true; the state was saved first.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        self._began = time.monotonic() - self.state.seconds
        try:
            with torch.random.fork_rng(devices=[]):
                while self.state.stage < len(self.recipe.stages):
                    self._run_stage(path, stop or (lambda: False))
            self.state.seconds = time.monotonic() - self._began
        finally:
            torch.set_num_threads(threads)
        self.model.load_state_dict(self.best)
        self.model.eval()
        return self

    # ------------------------------------------------------------ stages

    def _run_stage(self, path: Path | None, stop: Callable[[], bool]) -> None:
        stage, reason = self.recipe.stages[self.state.stage], None
        if stage.loss in ("metric", "head"):
            reason = (
                why_untrainable(self.task.objective) if stage.loss == "metric" else why_no_head(self.task.objective)
            )
        if reason is not None:
            if not stage.optional:
                raise InputError(
                    "recipe",
                    f"{self.recipe.name} for {self.task.objective.name}",
                    "a recipe that can train for this metric",
                    reason,
                )
            self.state.notes.append(f"stage {stage.loss!r} skipped: {reason}")
        else:
            if stage.convincing and self.state.epoch == self.state.step == 0:
                self.incumbent, self.state.incumbent = self.best, self.state.best
            self._enter(stage)
            epochs = self.epochs(stage)
            while self.state.epoch < epochs and self.state.since_best < self._patience(stage):
                self._epoch(stage, epochs, path, stop)
            self._keep_if_clear()
        self.state.stage += 1
        self.state.epoch = self.state.step = self.state.since_best = 0
        self.state.loss_sum = 0.0

    def _patience(self, stage: Stage) -> int:
        return max(self.settings.patience, self.epochs(stage) // 4)

    def epochs(self, stage: Stage) -> int:
        """How many a stage may take."""
        if stage.loss == "head":
            return 1
        wanted = max(1, round(stage.epochs * self.settings.epochs))
        whole = stage.batch == -1 and batch_size(self.task, self.settings, stage) >= len(self.task.y)
        return max(wanted, _WHOLE_STEPS) if whole else wanted

    def _enter(self, stage: Stage) -> None:
        """Model, optimizer and loss of a stage; a restored run then loads its saved state over them."""
        settings, task = self.settings, self.task
        torch.manual_seed(settings.seed * 1009 + self.state.stage)
        if stage.start == "scratch" or not hasattr(self, "model"):
            shape = tuple(task.x.shape[1:])
            model = build(settings.model, shape, task.outputs, settings.hidden, settings.dropout)
            self.model = model.to(task.x.dtype)
        if stage.start == "best" and self.best:
            self.model.load_state_dict(self.best)
        if stage.loss == "head":
            self._restored = {}
            return
        self.optimizer = make_optimizer(self.model, settings, settings.learning_rate * stage.rate)
        threshold = self.state.best.get("threshold", 0.0) if stage.start == "best" else 0.0
        self.loss = StageLoss(stage.loss, task.objective, task.y, task.outputs, task.weights, threshold)
        if self._restored:
            self._take_restored()

    def _epoch(self, stage: Stage, epochs: int, path: Path | None, stop: Callable[[], bool]) -> None:
        if stage.loss == "head":
            refit_last_layer(self.task, self.model)
            self._validate(stage, epochs, math.nan)
        else:
            self._validate(stage, epochs, self._steps(stage, epochs, path, stop))
        self.state.epoch, self.state.step, self.state.loss_sum = self.state.epoch + 1, 0, 0.0
        if stage.loss != "head":  # a refit is short, and what came before it is saved already
            self._save_when_due(path, stop)

    def _steps(self, stage: Stage, epochs: int, path: Path | None, stop: Callable[[], bool]) -> float:
        state = self.state
        batches = epoch_batches(self.task, self.settings, stage, state.stage, state.epoch)
        self.model.train()
        for number in range(state.step, len(batches)):
            progress = (state.epoch + number / len(batches)) / epochs
            set_rate(self.optimizer, self.settings.learning_rate * stage.rate, progress)
            loss = take_step(self.model, self.optimizer, self.loss, self.task, self.settings, batches[number])
            state.step, state.loss_sum = number + 1, state.loss_sum + loss
            self._save_when_due(path, stop)
        self.loss.end_epoch()
        return state.loss_sum / len(batches)

    def _validate(self, stage: Stage, epochs: int, loss: float) -> None:
        task, state = self.task, self.state
        scores = scores_of(self.model, task.x_validation, task.outputs)
        threshold, value = task.objective.tuned(scores, task.y_validation, task.weights_validation)
        value = value if math.isfinite(value) else -math.inf
        cross_entropy = StageLoss("ce", task.objective, task.y_validation, task.outputs)
        fit = float(cross_entropy(scores, task.y_validation, task.weights_validation, task.y_validation))
        tie = value == state.best.get("value") and state.stage == state.best.get("stage") and fit < state.best["fit"]
        if not state.best or value > state.best["value"] + 1e-12 or tie:
            state.best = {
                "value": value,
                "threshold": threshold,
                "stage": state.stage,
                "loss": stage.loss,
                "balanced": stage.balanced,
                "epoch": state.epoch,
                "fit": fit,
            }
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
            state.since_best = 0
        else:
            state.since_best += 1
        event = {
            "stage": state.stage,
            "title": stage_title(stage),
            "epoch": state.epoch + 1,
            "epochs": epochs,
            "loss": loss if math.isfinite(loss) else None,
            "validation": value if math.isfinite(value) else None,
            "best": state.best["value"] if math.isfinite(state.best["value"]) else None,
        }
        state.history.append(event)
        if self.report is not None:
            self.report(event)

    def _keep_if_clear(self) -> None:
        """Gives the best weights back to the stage that had them, unless this stage's are clearly better on validation
        rows: on few rows, the best of many looks is easily a matter of luck."""
        task, before = self.task, self.state.incumbent
        if before and self.state.best != before:
            ours, theirs = (
                self._scores_with(weights).double() - best["threshold"]
                for weights, best in ((self.best, self.state.best), (self.incumbent, before))
            )
            if share_won(task.validation_value, ours, theirs, task.y_validation) < CONVINCING:
                self.best, self.state.best = self.incumbent, before
                title = stage_title(self.recipe.stages[self.state.stage])
                self.state.notes.append(f"stage {title!r} was better on validation rows, but not clearly")
        self.incumbent, self.state.incumbent = {}, {}

    def _scores_with(self, weights: dict[str, Tensor]) -> Tensor:
        model = copy.deepcopy(self.model)
        model.load_state_dict(weights)
        return scores_of(model, self.task.x_validation, self.task.outputs)

    # ------------------------------------------------------------ saving and resuming

    def _save_when_due(self, path: Path | None, stop: Callable[[], bool]) -> None:
        stopping = stop()
        if path is not None and (stopping or time.monotonic() - self._saved_at >= self.settings.checkpoint_seconds):
            self.state.seconds = time.monotonic() - self._began
            self.save(path)
        end_if(stopping)

    def save(self, path: Path) -> None:
        """Everything the rest of the run depends on: model, best, optimizer, duals and banks, generator, position."""
        moments, rest = checkpoint.flatten_optimizer(self.optimizer.state_dict())
        kept = {"best": self.best, "incumbent": self.incumbent, "optimizer": moments, "loss": self.loss.state_dict()}
        tensors = checkpoint.together(model=self.model.state_dict(), **kept) | {"rng": torch.get_rng_state()}
        state = {"run": asdict(self.state), "optimizer": rest, "recipe": self.recipe.model_dump()}
        checkpoint.save(path, tensors, state)
        self._saved_at = time.monotonic()

    def restore(self, path: Path) -> Fit:
        """Continues from a saved state. Raises `InputError` when it is damaged or of another recipe."""
        tensors, state = checkpoint.load(path)
        if Recipe(**state["recipe"]) != self.recipe:
            raise InputError("recipe", self.recipe.name, "the recipe the saved run was started with")
        self.state = State(**state["run"])
        self.best, self.incumbent = (checkpoint.take(tensors, name) for name in ("best", "incumbent"))
        self._restored, self._optimizer_rest = tensors, state["optimizer"]
        return self

    def _take_restored(self) -> None:
        tensors, self._restored = self._restored, {}
        self.model.load_state_dict(checkpoint.take(tensors, "model"))
        moments = checkpoint.take(tensors, "optimizer")
        if moments or self._optimizer_rest["plain"]:
            self.optimizer.load_state_dict(checkpoint.restore_optimizer(moments, self._optimizer_rest))
        self.loss.load_state_dict(checkpoint.take(tensors, "loss"))
        torch.set_rng_state(tensors["rng"])


def stage_title(stage: Stage) -> str:
    words = {"ce": "cross-entropy", "weighted_ce": "weighted cross-entropy"}
    return words.get(stage.loss, stage.loss) + (" (balanced)" if stage.balanced else "")
