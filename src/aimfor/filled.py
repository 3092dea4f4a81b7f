"""State whose shape is known after the first batch, saved in a shape that is known before it.

`torch.distributed.checkpoint` loads into tensors of the shape that was saved, and a new loss has not met its classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Numbers in a saved state, or a multiple where there are more.
SIZE = 1024


def filled(tensor: Tensor) -> Tensor:
    """How many dimensions, the shape and the numbers in one row of float64, filled up with zeros.

    Example:
        >>> filled(torch.tensor([[0.5, 0.25]]))[:6].tolist()
        [2.0, 1.0, 2.0, 0.5, 0.25, 0.0]
    """
    row = [tensor.new_tensor([tensor.ndim, *tensor.shape]), tensor.detach().reshape(-1)]
    numbers = torch.cat(row).double()
    whole = numbers.new_zeros(-(-len(numbers) // SIZE) * SIZE)
    whole[: len(numbers)] = numbers
    return whole


def unfilled(row: Tensor) -> Tensor:
    """What `filled` was given; a state of 0.1, which was not filled, as it is.

    Example:
        >>> unfilled(filled(torch.tensor([[0.5, 0.25]])))
        tensor([[0.5000, 0.2500]], dtype=torch.float64)
    """
    if row.ndim != 1 or len(row) % SIZE:
        return row.clone()
    ndim = int(row[0])
    shape = [int(size) for size in row[1 : 1 + ndim]]
    return row[1 + ndim : 1 + ndim + torch.Size(shape).numel()].reshape(shape).clone()
