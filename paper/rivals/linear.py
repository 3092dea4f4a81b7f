"""A linear layer on fixed features, by any loss: what the committee on features is compared with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def linear_layer(
    x: Tensor, loss: Callable[[Tensor], Tensor], outputs: tuple[int, ...], ridge: float
) -> Callable[[Tensor], Tensor]:
    """By full-batch L-BFGS in float64 with ``ridge / 2`` times the squared weights; the bias is free.

    Args:
        x: Rows ``(n, d)``.
        loss: Of all their scores ``(n, *outputs)``, a scalar.
        outputs: ``(c,)``, or ``()`` for one score a row.
        ridge: The penalty.
    """
    x = x.double()
    weight = torch.zeros(x.shape[1], *outputs, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(outputs, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=40, line_search_fn="strong_wolfe", tolerance_grad=1e-5)

    def closure() -> Tensor:
        solver.zero_grad()
        value = loss(x @ weight + bias) + 0.5 * ridge * weight.square().sum()
        value.backward()
        return value

    solver.step(closure)
    found = weight.detach(), bias.detach()
    return lambda rows: rows.double() @ found[0] + found[1]
