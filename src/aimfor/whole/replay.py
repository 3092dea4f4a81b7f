"""A forward pass that can be run a second time, and the checks that it was the same one.

`torch.utils.checkpoint` replays torch's default generators and autocast. It does not see randomness of Python or NumPy,
weights that changed in between, or a module that counts its calls: each would be a wrong gradient without a word. So
the scores of the second pass are compared with those of the first, and weights by their version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.checkpoint import CheckpointError

from .. import checks
from ..errors import InputError
from .modules import NORMS, BatchNorm, PartMeans, kept, same_number_of_parts


class Forward:
    """From a part's inputs to its scores, with what a second pass must find as the first one left it.

    Args:
        model: Called with the part's inputs.
        scores: From its output to scores, or None.
        parts: How many parts there are.
    """

    def __init__(self, model: Callable[..., Any], scores: Callable[[Any], Tensor] | None, parts: int) -> None:
        self.model, self.scores, self.parts = model, scores, parts
        self.layout: tuple[torch.Size, torch.dtype] | None = None
        self.modules: list[nn.Module] | None = None
        self.means: PartMeans | None = None
        if isinstance(model, nn.Module):
            self._know(list(model.modules()))

    def __call__(self, length: int, *pieces: Any) -> Tensor:
        """The scores of a part of so many rows."""
        if self.modules is None:
            with _called_modules() as called:
                output = self.model(*pieces)
            self._know(called)
        else:
            output = self.model(*pieces)
        scores = output if self.scores is None else self.scores(output)
        if not isinstance(scores, Tensor):
            raise InputError(
                "scores",
                checks.describe(scores),
                "a tensor, one row of scores per input row",
                "Say where they are in the output: scores=lambda output: output.logits.",
            )
        if scores.ndim == 0 or scores.shape[0] != length:
            raise InputError(
                "model",
                f"scores of shape {tuple(scores.shape)} for a part of {length} rows",
                "one row of scores per input row",
                "squeeze() also removes the rows of a part of one: use squeeze(1), after in_parts.",
            )
        layout = scores.shape[1:], scores.dtype
        if self.layout not in (None, layout):
            raise InputError("model", "scores of another shape or dtype in a later part", "the same in each part")
        self.layout = layout
        return scores

    def _know(self, modules: list[nn.Module]) -> None:
        self.modules = modules
        same_number_of_parts(modules, self.parts)
        self.weights = [(weight, weight._version) for module in modules for weight in module.parameters(recurse=False)]
        norms = [module for module in modules if isinstance(module, NORMS) and module.training]
        self.statistics = [buffer for module in norms for buffer in module.buffers(recurse=False)]
        first = next((module for module in norms if isinstance(module, BatchNorm)), None)
        self.means = None if first is None else PartMeans(first)
        self.buffers = [
            (module, name, buffer, buffer._version)
            for module in modules
            if not isinstance(module, NORMS)
            for name, buffer in module.named_buffers(recurse=False)
        ]

    def devices(self) -> list[Tensor]:
        """An empty tensor on each device of the weights: checkpointing replays the generators of its arguments."""
        devices = {weight.device for weight, _ in self.weights} if self.modules else set()
        return [torch.empty(0, device=device) for device in devices if device.type != "cpu"]

    @contextmanager
    def first_pass(self) -> Iterator[None]:
        """Around the first pass of all parts."""
        try:
            yield
        finally:
            if self.means is not None:
                self.means.stop()
        self._refuse_traces()
        if self.means is not None:
            self.means.warn()

    def _refuse_traces(self) -> None:
        """A forward pass that changes a buffer would change it again the second time."""
        for module, name, before, version in self.buffers:
            buffer = getattr(module, name)
            if before._version != version or not (buffer is before or torch.equal(buffer, before)):
                raise InputError(
                    "model",
                    f"a forward pass that changes the buffer {name!r} of {type(module).__name__}",
                    "one that changes nothing but BatchNorm's statistics, as each part is run twice",
                    "Put that module in eval mode, or score the batch at once: model(inputs).",
                )

    @contextmanager
    def again(self) -> Iterator[None]:
        """The second pass: with the weights of the first, and without a trace in BatchNorm's running statistics."""
        if any(weight._version != version for weight, version in self.weights):
            raise InputError(
                "backward",
                "weights that changed since in_parts",
                "the weights that the scores came from, as each part is run again",
                "Call backward() before optimizer.step(), and in_parts anew for each step.",
            )
        try:
            with kept(self.statistics):
                yield
        except CheckpointError:
            raise _other_scores("other operations") from None


class ReplayedPart:
    """One part for `checkpoint`: called once for its scores, and again for their gradient."""

    def __init__(self, forward: Forward, length: int, inputs: int) -> None:
        self.forward, self.length, self.inputs = forward, length, inputs
        self.first: Tensor | None = None

    def __call__(self, *pieces: Any) -> Tensor:
        pieces = pieces[: self.inputs]
        if self.first is None:
            scores = self.forward(self.length, *pieces)
            self.first = scores.detach()
            return scores
        with self.forward.again():
            scores = self.forward(self.length, *pieces)
            self._compare(scores.detach(), self.first)
        return scores

    @staticmethod
    def _compare(second: Tensor, first: Tensor) -> None:
        """Equal up to the rounding of kernels that add in no fixed order: half the digits."""
        if torch.equal(second, first):
            return
        good = first.isfinite()  # the others are the loss's to refuse, or masked
        scale = float(first[good].abs().max()) if good.any() else 0.0
        if not torch.allclose(
            second, first, rtol=0.0, atol=torch.finfo(first.dtype).eps ** 0.5 * scale, equal_nan=True
        ):
            apart = float((second - first)[good].abs().max()) if good.any() else 0.0
            raise _other_scores(f"scores that differ by {apart:.2g} (the largest is {scale:.2g})")


def _other_scores(came: str) -> InputError:
    return InputError(
        "model",
        f"{came} when a part was run again for its gradient",
        "the same scores twice",
        "Draw random numbers from torch's default generator alone, not from Python, NumPy or a torch.Generator; "
        "leave the inputs as they were; let no hook or module count its calls.",
    )


@contextmanager
def _called_modules() -> Iterator[list[nn.Module]]:
    """The modules that a plain function calls, with all their children."""
    called: dict[int, nn.Module] = {}

    def note(module: nn.Module, inputs: Any) -> None:
        if id(module) not in called:
            called.update((id(child), child) for child in module.modules())

    modules: list[nn.Module] = []
    handle = register_module_forward_pre_hook(note)
    try:
        yield modules
    finally:
        handle.remove()
        modules += called.values()
