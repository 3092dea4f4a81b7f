"""torch.compile and torch.func: a metric loss is one opaque step, handed over with the gradient found on the way.

The engines branch on the data (how many positives, which active set), which a tracer cannot follow and need not. For
torch.compile a loss is an operator that runs the eager code, so a full graph never breaks at it. A loss that remembers
recent batches fills its bank inside the operator; a tick that goes in and comes out as another keeps its calls in
order, each of them once. Only losses with parameters of their own (duals) run between two graphs. For
`torch.func.grad`, `jacrev` and `vmap` it is a function with a rule for each.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # imports the compiler on first use only, unlike torch.compiler.disable

from .twice import Refused

if TYPE_CHECKING:
    from .loss import MetricLoss

NO_SECOND = "inside torch.func a loss is differentiated once. torch.autograd.functional.hessian takes it twice."

_Outputs = tuple[Tensor, Tensor, Tensor]
_modules: weakref.WeakValueDictionary[int, MetricLoss] = weakref.WeakValueDictionary()
_counter = itertools.count()


def register(module: MetricLoss) -> int:
    """A number by which the operator finds its module again (operators take no objects)."""
    handle = next(_counter)
    _modules[handle] = module
    return handle


def _autograd_again() -> Any:
    """An operator runs below autograd; the eager code inside it needs autograd for itself."""
    include = torch._C._dispatch_tls_local_include_set()
    exclude = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ForceDispatchKeyGuard(include, exclude)


@torch.library.custom_op("aimfor::loss_and_gradient", mutates_args=())
def _loss_and_gradient(
    scores: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    where: Tensor | None,
    index: Tensor | None,
    tick: Tensor,
    handle: int,
    learning: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    with _autograd_again(), torch.set_grad_enabled(learning):
        leaf = scores.detach().requires_grad_(learning)
        loss = _modules[handle].forward(leaf, targets, weights=weights, where=where, index=index)
        gradient = torch.autograd.grad(loss, leaf)[0] if learning else torch.zeros_like(leaf)
    return loss.detach().clone(), gradient, tick + 1


@_loss_and_gradient.register_fake
def _(scores: Tensor, targets: Tensor, weights: Any, where: Any, index: Any, tick: Tensor, *rest: Any) -> _Outputs:
    dtype = scores.dtype if scores.dtype == torch.float64 else torch.float32
    gradient = torch.empty_like(scores, memory_format=torch.contiguous_format)
    return scores.new_empty((), dtype=dtype), gradient, torch.empty_like(tick)


def _save(ctx: Any, inputs: tuple[Any, ...], output: _Outputs) -> None:
    ctx.save_for_backward(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_loss: Tensor | None, *rest: Tensor | None) -> tuple[Tensor | None, ...]:
    (gradient,) = ctx.saved_tensors
    scaled = None if grad_loss is None else (gradient * grad_loss).to(gradient.dtype)
    return scaled, None, None, None, None, None, None, None


_loss_and_gradient.register_autograd(_backward, setup_context=_save)


def metric_loss(
    scores: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    where: Tensor | None,
    index: Tensor | None,
    tick: Tensor,
    handle: int,
) -> Tensor:
    """The loss of the module registered under ``handle``, as one operator; ``tick`` counts its calls."""
    learning = torch.is_grad_enabled()
    loss, _, after = _loss_and_gradient(scores, targets, weights, where, index, tick, handle, learning)
    tick.copy_(after)
    return loss  # type: ignore[no-any-return]


@_disable_dynamo
def outside_the_graph(module: MetricLoss, scores: Tensor, targets: Tensor, *rest: Any) -> Tensor:
    """A loss with parameters of its own (duals), or with groups, runs as it is, between two compiled graphs."""
    weights, where, index, groups = rest
    return module.detailed(scores, targets, weights=weights, where=where, index=index, groups=groups).loss


@dataclass(frozen=True)
class _Run:
    """The eager loss. Members of a `vmap` are nobody's past: none is counted among the others' recent scores."""

    module: MetricLoss
    groups: Any
    fills: bool

    def each_alone(self) -> _Run:
        return replace(self, fills=False)

    def __call__(self, scores: Tensor, targets: Tensor, weights: Any, where: Any, index: Any) -> Tensor:
        engine, rest = self.module.engine, {"weights": weights, "where": where, "index": index, "groups": self.groups}
        if self.fills or engine.stateless:
            return self.module.detailed(scores, targets, **rest).loss
        training = engine.training
        try:
            engine.eval()
            return self.module.detailed(scores, targets, **rest).loss
        finally:
            engine.train(training)


class _Transformed(torch.autograd.Function):
    """The eager loss below all transforms of torch.func: forward finds the gradient, backward scales it.

    `vmap` is a loop: each member of the batch has its own counts, ranks and branches.
    """

    @staticmethod
    def forward(scores: Tensor, targets: Tensor, weights: Any, where: Any, index: Any, run: Any) -> Any:
        with torch.enable_grad():
            leaf = scores.detach().requires_grad_()
            loss = run(leaf, targets, weights, where, index)
            (gradient,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        scores, gradient = ctx.saved_tensors
        guarded = Refused.apply(gradient, NO_SECOND, scores)
        return (guarded * grads[0]).to(gradient.dtype), None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *rest: Any) -> Any:
        scores, gradient = ctx.saved_tensors
        guarded = Refused.apply(gradient, NO_SECOND, scores)
        return (guarded * tangent).sum().to(gradient.dtype), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        members = []
        for i in range(info.batch_size):
            own = [tensor if at is None else tensor.select(at, i) for tensor, at in zip(inputs, in_dims, strict=True)]
            members.append(_Transformed.apply(*own[:-1], own[-1].each_alone()))
        losses, gradients = zip(*members, strict=True)
        return (torch.stack(losses), torch.stack(gradients)), (0, 0)


def transformed(
    module: MetricLoss, scores: Tensor, targets: Tensor, weights: Any, where: Any, index: Any, groups: Any
) -> Tensor:
    """The loss inside `torch.func.grad`, `jacrev` or `vmap`."""
    run = _Run(module, groups, True)
    loss, _ = _Transformed.apply(scores, targets, weights, where, index, run)
    return loss  # type: ignore[no-any-return]


def transforms_active() -> bool:
    return torch._C._are_functorch_transforms_active()
