"""State that is no tensor as one tensor: all that safetensors and torch.distributed.checkpoint can write."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError

#: Bytes come in whole blocks, so that a new problem's state has the shape of a trained one's, which is loaded into it.
BLOCK = 1 << 14


def as_tensor(state: dict[str, Any]) -> Tensor:
    """JSON as bytes, filled up with blanks."""
    text = json.dumps(state).encode()
    return torch.frombuffer(bytearray(text.ljust(-(-len(text) // BLOCK) * BLOCK)), dtype=torch.uint8)


def from_tensor(tensor: Tensor | dict[str, Any]) -> dict[str, Any]:
    """What `as_tensor` was given; a state of 0.1, which was a dict, as it is. Raises `InputError` for anything else."""
    if isinstance(tensor, dict) and "problem" in tensor:
        return tensor
    try:
        state: dict[str, Any] = json.loads(bytes(tensor.tolist()))  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            "state_dict", f"{type(tensor).__name__} as the state of a problem", "the bytes of its state_dict()"
        ) from None
    return state
