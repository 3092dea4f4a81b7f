"""Training one network on a stream: by the batch, with the best weights by the metric on held-out rows, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.config import Recipe
from ...fitting.fit import Event, end_if
from ...fitting.losses import StageLoss, why_untrainable
from ...fitting.models import build, scores_of, shaped
from ...fitting.steps import go_down, make_optimizer, set_rate
from .batches import Place, StreamBatch
from .prepare import Ready
from .ranks import Ranks

#: Looks at validation rows in one epoch, at most.
LOOKS = 4
_TITLES = {"ce": "cross-entropy", "weighted_ce": "weighted cross-entropy", "metric": "the metric"}


@dataclass
class State:
    """Where a run stands, all of it JSON."""

    place: Place = field(default_factory=Place)
    #: Which loss is in use, and the threshold it was started with.
    phase: int = 0
    threshold: float = 0.0
    seconds: float = 0.0
    best: dict[str, Any] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)


def phases(recipe: Recipe, ready: Ready) -> list[str]:
    """The losses, one after the other. Raises `InputError` for a recipe that needs all rows at hand."""
    losses: list[str] = ["ce"] if recipe.name == "auto" else [stage.loss for stage in recipe.stages]
    if "head" in losses or (recipe.name != "auto" and all(stage.balanced for stage in recipe.stages)):
        usable = "cross_entropy, weighted_cross_entropy, focal or ce_then_metric"
        raise InputError("--recipe", f"{recipe.name}, which needs all rows in memory", f"{usable} for a stream")
    reason = why_untrainable(ready.objective) if "metric" in losses else None
    if reason is not None:
        raise InputError(
            "--recipe", f"{recipe.name} for {ready.objective.name}", "a recipe that can train for this metric", reason
        )
    return losses


class StreamFit:
    """One run. ``model`` holds the best weights in the end."""

    def __init__(self, ready: Ready, recipe: Recipe, ranks: Ranks, report: Callable[[Event], None]) -> None:
        self.ready, self.ranks, self.report, self.losses = ready, ranks, report, phases(recipe, ready)
        settings = ready.settings
        torch.manual_seed(settings.seed)  # the same first weights in every process
        self.model = build(settings.model, ready.encoder.shape, ready.labels.outputs, settings.hidden, settings.dropout)
        self.wrapped = ranks.wrap(self.model, settings.shard)
        self.optimizer = make_optimizer(self.model, settings, settings.learning_rate)
        self.state, self.best = State(), dict[str, Tensor]()
        self.loss: nn.Module = self._make_loss()
        self._saved_at = time.monotonic()

    def _make_loss(self) -> StageLoss:
        ready = self.ready
        kind = self.losses[self.state.phase]
        classes = torch.arange(len(ready.classes))
        threshold = self.state.threshold
        return StageLoss(kind, ready.objective, classes, ready.labels.outputs, ready.classes, threshold)

    def run(self, path: Path | None, stop: Callable[[], bool]) -> StreamFit:
        """Trains to the end. Raises `Interrupted` when ``stop()`` became true in any process; the state is saved."""
        torch.set_num_threads(self.ready.settings.threads)
        began, before = time.monotonic(), self.state.seconds
        while self.state.place.epoch < self.ready.settings.epochs:
            epoch = self.state.place.epoch
            looks = self._looks(len(self.ready.loader.windows(epoch)))
            for batch in self.ready.loader.epoch(self.state.place):
                self._step(batch)
                self.state.place = batch.following
                self.state.seconds = before + time.monotonic() - began
                if batch.following.step == 0 and batch.place.window in looks:
                    self._look(epoch, batch.progress)
                self._save_when_due(path, stop)
        if path is not None:
            self.save(path)  # whatever comes after need not train again
        self.model.load_state_dict(self.best)
        self.model.eval()
        return self

    def weights(self) -> dict[str, Tensor]:
        """The weights of the whole network, for the first process to write. All processes must ask."""
        return self._whole(self.model.state_dict())

    def _whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not self.ready.settings.shard:
            return dict(tensors)
        from .sharding import whole

        return whole(tensors)

    def _looks(self, windows: int) -> set[int]:
        """After which windows of an epoch the validation rows are looked at; always after the last."""
        often = min(LOOKS, windows) if self.ready.settings.epochs < LOOKS else 1
        return {(number + 1) * windows // often - 1 for number in range(often)}

    def _step(self, batch: StreamBatch) -> None:
        settings = self.ready.settings
        progress = (batch.place.epoch + batch.progress) / settings.epochs
        self._enter(min(len(self.losses) - 1, int(progress * len(self.losses))))
        # Dropout by the place in the run and the process: nothing to save, nothing to restore.
        place = batch.place
        torch.manual_seed(hash((settings.seed, place.epoch, place.window, place.step, self.ranks.rank)) % 2**63)
        self.wrapped.train()
        set_rate(self.optimizer, settings.learning_rate, progress)
        self.optimizer.zero_grad(set_to_none=True)
        go_down(self._value(batch), self.optimizer, settings.learning_rate)

    def _enter(self, phase: int) -> None:
        if phase != self.state.phase:
            self.state.phase, self.state.threshold = phase, self.state.best.get("threshold", 0.0)
            self.loss = self._make_loss()

    def _value(self, batch: StreamBatch) -> Tensor:
        scores = shaped(self.wrapped(batch.x), self.ready.labels.outputs)
        if self.losses[self.state.phase] == "metric":
            loss: Tensor = self.loss(scores, batch.y, None, None)  # joins the rows of all processes itself
            return loss
        if not len(batch.y):
            return scores.sum() * 0.0
        # The mean over all processes' rows: their gradients will be averaged, whatever their shares of the batch.
        mean: Tensor = self.loss(scores, batch.y, None, None)
        return mean * (len(batch.y) * self.ranks.world / batch.size)

    def scores(self, part: tuple[Tensor, Tensor]) -> Tensor:
        """Of all held-out rows, each process scoring its share."""
        x, rows = part[0], -(-len(part[1]) // self.ranks.world)
        # As many rows in every process: those of a network that is cut must ask it equally often.
        filled = torch.cat((x, x.new_zeros(rows - len(x), *x.shape[1:])))
        return self.ranks.joined(scores_of(self.model, filled, self.ready.labels.outputs)[: len(x)], len(part[1]))

    def _look(self, epoch: int, progress: float) -> None:
        ready, state = self.ready, self.state
        scores = self.scores(ready.validation)
        threshold, value = ready.objective.tuned(scores, ready.validation[1])
        if not self.best or value > state.best["value"]:
            loss = self.losses[state.phase]
            state.best = {"value": value, "threshold": threshold, "epoch": epoch, "loss": loss, "stage": state.phase}
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        title = _TITLES.get(self.losses[state.phase], self.losses[state.phase])
        done = (epoch + progress) * ready.rows["train"]
        event = {
            "stage": state.phase, "title": title, "epoch": round(epoch + progress, 3), "epochs": ready.settings.epochs,
            "loss": None, "validation": value, "best": state.best["value"], "rows": round(done),
        }  # fmt: skip
        state.history.append(event)
        if self.ranks.first:
            self.report({**event, "seconds": state.seconds})

    # ------------------------------------------------------------ saving and resuming

    def _save_when_due(self, path: Path | None, stop: Callable[[], bool]) -> None:
        if self.ranks.world > 1 and self.state.place.step % 8:
            return  # asking the others takes time
        stopping = self.ranks.any(stop())
        due = time.monotonic() - self._saved_at >= self.ready.settings.checkpoint_seconds
        if path is not None and (stopping or self.ranks.any(due and self.ranks.first)):
            self.save(path)
        end_if(stopping)

    def save(self, path: Path) -> None:
        """By the first process, with the help of the others where the network is cut among them."""
        moments, rest = checkpoint.flatten_optimizer(self.optimizer.state_dict())
        network = {"model": self.model.state_dict(), "best": self.best, "optimizer": moments}
        whole = {part: self._whole(tensors) for part, tensors in network.items()}
        tensors = checkpoint.together(loss=self.loss.state_dict(), **whole)
        if self.ranks.first:
            checkpoint.save(path, tensors, {"run": asdict(self.state), "optimizer": rest})
        self._saved_at = time.monotonic()

    def restore(self, path: Path) -> StreamFit:
        """Goes on from a saved state. Raises `InputError` when it is damaged."""
        tensors, state = checkpoint.load(path)
        with checkpoint.reading(path):
            run = state["run"]
            self.state = State(**{**run, "place": Place(**run["place"])})
            self.loss = self._make_loss()
            model, best = checkpoint.take(tensors, "model"), checkpoint.take(tensors, "best")
            moments = checkpoint.take(tensors, "optimizer")
            if self.ready.settings.shard:
                from .sharding import cut_like, cut_moments

                own = self.model.state_dict()
                model, best = cut_like(model, own), cut_like(best, own)
                moments = cut_moments(moments, list(self.model.parameters()))
            self.model.load_state_dict(model)
            self.best = best
            if moments:
                self.optimizer.load_state_dict(checkpoint.restore_optimizer(moments, state["optimizer"]))
            self.loss.load_state_dict(checkpoint.take(tensors, "loss"))
        return self
