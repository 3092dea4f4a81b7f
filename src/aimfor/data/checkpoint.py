"""State on disk: safetensors with a JSON head, written whole or not at all, never pickled.

A file is written beside its place and moved there when complete, so that a full disk or a killed process leaves
the previous one untouched. A digest of all tensors stands in the head: damage is named, not loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import check_plain as check_plain
from ..files import damaged as damaged
from ..files import finite as finite
from ..files import read_json as read_json
from ..files import reading as reading
from ..files import write_bytes as write_bytes
from ..files import write_json as write_json
from ..files import write_text as write_text

Tensors = dict[str, Tensor]
_FORMAT = "aimfor-1"


def _digest(tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return total.hexdigest()


def save(path: Path, tensors: Mapping[str, Tensor], state: Any) -> None:
    """Tensors and JSON-able state in one safetensors file."""
    from safetensors.torch import save as to_bytes

    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    head = {"format": _FORMAT, "digest": _digest(plain), "state": json.dumps(state)}
    write_bytes(path, _in_order(to_bytes(plain, metadata=head)))


def _in_order(content: bytes) -> bytes:
    """The same file with the names in its head in order, which safetensors shuffles: equal tensors give equal bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    head = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + content[end:]


def load(path: Path) -> tuple[Tensors, Any]:
    """What `save` wrote. Raises `InputError` naming the file when it is missing, cut off or altered."""
    from safetensors import SafetensorError, safe_open

    check_plain(path)
    if not path.exists():
        raise InputError("checkpoint", f"no file {path}", "a checkpoint written by aimfor train")
    try:
        with safe_open(str(path), framework="pt") as file:
            head = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if head.get("format") != _FORMAT or head.get("digest") != _digest(tensors):
            raise ValueError("its digest does not match its content")
        return tensors, json.loads(head["state"])
    except (SafetensorError, ValueError, KeyError, OSError, RuntimeError) as error:
        raise InputError(
            "checkpoint",
            f"{path}, which is damaged ({error})",
            "the file as aimfor wrote it",
            "Start again without --resume, or put back a copy of the file.",
        ) from None


def take(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors under ``prefix.``, without it."""
    return {name.removeprefix(prefix + "."): v for name, v in tensors.items() if name.startswith(prefix + ".")}
