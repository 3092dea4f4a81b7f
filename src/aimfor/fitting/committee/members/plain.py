"""A built-in network that learned elsewhere, batch by batch from a stream, as a member that only speaks."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from ....errors import InputError
from ...models import BUILT_IN, build, scores_of
from .base import Fitted, Job, Member


class FittedPlain(Fitted):
    """A network of `models.BUILT_IN` with the facts it is built again from."""

    looks = 1

    def __init__(self, model: nn.Module, facts: dict[str, Any]) -> None:
        self.model, self.facts = model.eval(), facts

    def scores(self, x: Tensor, look: int = -1) -> Tensor:
        return scores_of(self.model, x, int(self.facts["outputs"])).double()

    def cut(self, look: int) -> Self:
        return self

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return dict(self.model.state_dict()), self.facts

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        if facts["model"] not in BUILT_IN:  # a file must not name code to be run
            raise InputError("run", f"the network {facts['model']!r}", f"one of {', '.join(BUILT_IN)}")
        with torch.random.fork_rng(devices=[]):
            model = build(facts["model"], tuple(facts["shape"]), facts["outputs"], facts["hidden"], facts["dropout"])
        model.load_state_dict(tensors)
        return cls(model, facts)


class PlainNetwork(Member):
    """Learns from a stream (`app.stream`), not from rows in memory."""

    name = "stream_network"
    title = "network"

    def fit(self, job: Job) -> FittedPlain:
        raise InputError("members", self.name, "a member that learns from rows in memory")

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> FittedPlain:
        return FittedPlain.restore(tensors, facts)
