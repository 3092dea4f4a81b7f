"""Eight times the rows, the same memory: bytes of all live tensors at the peak, operation by operation."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import aimfor


class LiveBytes(TorchDispatchMode):
    """The largest number of bytes that storages made inside the block held at any one time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage())
        return found

    def _note(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self.known:
            return
        self.known.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, place, size)

    def _gone(self, place: int, size: int) -> None:
        self.known.discard(place)
        self.now -= size


def peak(score: Callable[[nn.Module, Tensor, Tensor], Tensor], n: int) -> int:
    """Of one step; rows are made from their index inside the model, as a loader would read them."""
    torch.manual_seed(0)
    base = torch.randn(64, 32)
    model = nn.Sequential(nn.Linear(32, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1))
    index = torch.arange(n)
    y = (index % 3 == 0).long()
    with LiveBytes() as live:
        aimfor.MetricLoss("auroc")(score(model, base, index).squeeze(1), y).backward()
    return live.peak


def at_once(model: nn.Module, base: Tensor, index: Tensor) -> Tensor:
    return model(base[index % 64] + index[:, None] / 1000)  # type: ignore[no-any-return]


def in_parts(model: nn.Module, base: Tensor, index: Tensor) -> Tensor:
    return aimfor.in_parts(lambda part: at_once(model, base, part), index, rows=128)


def test_eight_times_the_rows_need_no_more_memory() -> None:
    few, many = peak(in_parts, 1024), peak(in_parts, 8192)
    assert many <= 1.2 * few, (few, many)
    assert peak(at_once, 8192) > 5 * peak(at_once, 1024)  # what is counted does grow with the batch
    assert many < 0.15 * peak(at_once, 8192)
