"""Second derivatives of losses whose first ones were found in closed form: right, or refused by a sentence.

A gradient that was found with its loss is a constant to autograd, which would take its derivative for 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from .errors import SolverError


class Refused(torch.autograd.Function):
    """Its first argument; whoever differentiates it with respect to one of the others is told that it cannot be done.

    So that a gradient that was recorded (``create_graph=True``) may be read, and is never taken for a constant.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, reason: str, *inputs: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.reason = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        if any(ctx.needs_input_grad[2:]):
            raise SolverError(f"no second derivative: {ctx.reason}")
        return (grads[0], *[None] * (len(ctx.needs_input_grad) - 1))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise SolverError(f"no second derivative: {ctx.reason}")


def once(output: Tensor, reason: str, *inputs: Tensor | None) -> Tensor:
    """The same tensor, whose gradient with respect to the inputs cannot be differentiated again."""
    if output.requires_grad:
        attached = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]

        def guard(gradient: Tensor) -> Tensor | None:
            return Refused.apply(gradient, reason, *attached) if torch.is_grad_enabled() else None

        output.register_hook(guard)
    return output


def unrecorded(reason: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A backward pass in operations that autograd need not see, for a tensor that `once` guards."""

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def run(ctx: Any, *grads: Tensor) -> Any:
            with torch.no_grad():
                gradients = backward(ctx, *grads)
            if not torch.is_grad_enabled():
                return gradients
            attached = [grad for grad in grads if grad.requires_grad]
            return tuple(
                None if gradient is None else Refused.apply(gradient, reason, *attached) for gradient in gradients
            )

        return run

    return decorate


def again(gradient: Tensor, scores: Tensor, loss: Callable[[Tensor], Tensor] | str) -> Tensor:
    """A gradient that was found with its loss, attached to the scores so that it can be differentiated again.

    For a backward pass that is itself recorded (``create_graph=True``).

    Args:
        gradient: Of the loss with respect to the scores.
        scores: Attached to the graph.
        loss: The same loss in operations that autograd knows; or why there is none, for whoever differentiates.
    """
    if isinstance(loss, str):
        return Refused.apply(gradient, loss, scores)  # type: ignore[no-any-return]
    (slope,) = torch.autograd.grad(loss(scores), scores, create_graph=True)
    if not slope.requires_grad:  # piecewise linear: a second derivative of 0, which is not the same as none
        slope = slope + 0.0 * scores
    return gradient + (slope - slope.detach())
