"""A device that is not there: tensors that say they are on one, and do their sums on the CPU.

Values decide as they do on a GPU, so that the eager code of every engine can be followed: what mixes devices raises,
and every time that a GPU's host would have to wait is noted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import aimfor

DEVICE = torch.device("lazy")  # any type that autograd serves from the thread of the CPU
PACKAGE = str(Path(aimfor.__file__).parent)
aten, as_ever = torch.ops.aten, torch.tensor
#: Operations that hand a value, or a size that depends on values, to the host.
WAITS = {
    aten._local_scalar_dense.default: "a number is read",
    aten.equal.default: "a number is read",
    aten.nonzero.default: "a size depends on values",
    aten.masked_select.default: "a size depends on values",
    aten.unique_dim.default: "a size depends on values",
    aten._unique2.default: "a size depends on values",
    aten.unique_consecutive.default: "a size depends on values",
    aten.bincount.default: "a size depends on values",
}
#: May mix devices: that is what they are for.
COPIES = (aten._to_copy.default, aten.copy_.default)


class Far(Tensor):
    """A tensor of that device."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> Far:
        size, strides, offset = near.size(), near.stride(), near.storage_offset()
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls, size, strides=strides, storage_offset=offset, dtype=near.dtype, device=DEVICE
        )

    def __init__(self, near: Tensor) -> None:
        self.near = near

    def tolist(self) -> Any:
        Device.current.note("numbers are read")
        return self.near.tolist()

    def new_tensor(self, data: Any, **options: Any) -> Tensor:
        Device.current.note("numbers are sent")
        return Far(self.near.new_tensor(data, **options))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Device.current.run(func, args, kwargs or {})


def tensor(data: Any, *, device: Any = None, **options: Any) -> Tensor:
    """`torch.tensor`, which does not ask a mode."""
    if device is None or torch.device(device).type != DEVICE.type:
        return as_ever(data, device=device, **options)
    Device.current.note("numbers are sent")
    return Far(as_ever(data, **options))


def _near(leaf: Any) -> Any:
    return leaf.near if isinstance(leaf, Far) else leaf


def _far(leaf: Any) -> Any:
    return Far(leaf) if isinstance(leaf, Tensor) and not isinstance(leaf, Far) else leaf


class Device(TorchDispatchMode):
    """While it is on, tensors may be made there. ``waits`` has what the host waited for, and where in the package."""

    current: Device

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[tuple[str, str]] = []
        Device.current = self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def note(self, what: str) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is not None:
            where = frame.f_code.co_filename.removeprefix(PACKAGE).lstrip("/")
            self.waits.append((what, f"{where}:{frame.f_code.co_name}"))

    def run(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        far = [leaf for leaf in tensors if isinstance(leaf, Far)]
        named = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
        if far and func not in COPIES:
            strangers = [tuple(leaf.shape) for leaf in tensors if not isinstance(leaf, Far) and leaf.ndim]
            assert not strangers, f"{func} mixes devices: {strangers} on the CPU"
        if far and func in WAITS:
            self.note(WAITS[func])
        places = args[1] if far and func in (aten.index.Tensor, aten.index_put_.default) else ()
        if any(at is not None and at.dtype == torch.bool for at in places):
            self.note("a size depends on values")
        leaves, arrives = far and (named == "cpu" or len(far) < len(tensors)), tensors and named == DEVICE.type
        if func in COPIES and (leaves or (arrives and not far)):
            self.note("values go from one device to the other")
        given = {name: value if name != "device" else "cpu" for name, value in kwargs.items()}
        near_args, near_kwargs = tree_map(_near, (args, given))
        found = func(*near_args, **near_kwargs)
        if (far and named != "cpu") or named == DEVICE.type:
            if isinstance(found, Tensor) and far and any(found is leaf.near for leaf in far):
                return next(leaf for leaf in far if found is leaf.near)
            return tree_map(_far, found)
        return found
