"""torch.compile: a stateless metric loss is one opaque operator, so a full graph never breaks at it.

The engines branch on the data (how many positives, which active set), which a tracer cannot follow and need not:
the operator runs the eager code, and hands the compiler the loss together with its gradient, found on the way.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # imports the compiler on first use only, unlike torch.compiler.disable

if TYPE_CHECKING:
    from .loss import MetricLoss

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
    handle: int,
) -> tuple[Tensor, Tensor]:
    with _autograd_again(), torch.enable_grad():
        leaf = scores.detach().requires_grad_()
        loss = _modules[handle].detailed(leaf, targets, weights=weights, where=where, index=index).loss
        (gradient,) = torch.autograd.grad(loss, leaf)
    return loss.detach().clone(), gradient


@_loss_and_gradient.register_fake
def _(scores: Tensor, targets: Tensor, weights: Any, where: Any, index: Any, handle: int) -> tuple[Tensor, Tensor]:
    dtype = scores.dtype if scores.dtype == torch.float64 else torch.float32
    return scores.new_empty((), dtype=dtype), torch.empty_like(scores, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_loss: Tensor | None, grad_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    (gradient,) = ctx.saved_tensors
    scaled = None if grad_loss is None else (gradient * grad_loss).to(gradient.dtype)
    return scaled, None, None, None, None, None


_loss_and_gradient.register_autograd(_backward, setup_context=_save)


def metric_loss(
    scores: Tensor, targets: Tensor, weights: Tensor | None, where: Tensor | None, index: Tensor | None, handle: int
) -> Tensor:
    """The loss of the module registered under ``handle``, as one operator."""
    loss, _ = _loss_and_gradient(scores, targets, weights, where, index, handle)
    return loss  # type: ignore[no-any-return]


@_disable_dynamo
def outside_the_graph(module: MetricLoss, scores: Tensor, targets: Tensor, *rest: Any) -> Tensor:
    """A loss with state (duals, a score bank) runs as it is, between two compiled graphs."""
    weights, where, index, groups = rest
    return module.detailed(scores, targets, weights=weights, where=where, index=index, groups=groups).loss
