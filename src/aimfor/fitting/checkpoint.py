"""State on disk: safetensors with a JSON head, written whole or not at all, never pickled.

A file is written beside its place and moved there when complete, so that a full disk or a killed process leaves
the previous one untouched. A digest of all tensors stands in the head: damage is named, not loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..failpoints import fail_point

Tensors = dict[str, Tensor]
_FORMAT = "aimfor-1"
_MOST_JSON = 256 << 20


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces the file by the content, or leaves it as it was and raises `InputError`."""
    temporary, name = path.with_name(f".{path.name}.{os.getpid()}.part"), f"{path.parent.name}/{path.name}"
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fail_point(f"write {name}")
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):  # Ctrl-C while writing
            raise
        raise InputError(
            "out",
            f"{path}, which could not be written ({error.strerror or error})",
            "a folder with free space that may be written",
            "What was there before is untouched; free some space, or choose another folder with --out.",
        ) from None
    fail_point(f"wrote {name}")


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Numbers that are not finite become null: JSON has no others, and what is read back refuses them."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file that aimfor wrote.

    Raises:
        InputError: The file is missing, a link, too large, no JSON object, or holds a number that is not finite.
    """
    check_plain(path)
    try:
        found = json.loads(path.read_text(encoding="utf8"), parse_constant=_refuse, parse_float=_finite_float)
        if not isinstance(found, dict):
            raise ValueError(f"it holds {type(found).__name__}, not an object")
        return found
    except FileNotFoundError:
        raise InputError("run", f"{path.parent} without {path.name}", "the folder of an aimfor run") from None
    except (ValueError, OSError, RecursionError) as error:
        raise damaged(path, error) from None


def check_plain(path: Path) -> None:
    """Raises `InputError` for what a run folder never holds: links, which may lead anywhere, and enormous files."""
    if path.is_symlink():
        raise InputError("run", f"{path}, which is a link", "a folder whose files are its own", "Copy the file there.")
    if path.suffix == ".json" and path.exists() and path.stat().st_size > _MOST_JSON:
        raise damaged(path, ValueError(f"{path.stat().st_size >> 20} MB of JSON"))


def damaged(path: Path, error: Exception) -> InputError:
    """The one sentence for a file that is not as aimfor wrote it."""
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return InputError("run", f"{path}, which is damaged ({text})", "the file as aimfor wrote it")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what a file's strange content makes Python raise into the one sentence about that file."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
        raise damaged(path, error) from None


def _refuse(word: str) -> Any:
    raise ValueError(f"the number {word}")


def _finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


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
    write_bytes(path, to_bytes(plain, metadata=head))


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


def flatten_optimizer(state: Mapping[str, Any]) -> tuple[Tensors, Any]:
    """An optimizer's state_dict as named tensors and a JSON-able rest."""
    tensors: Tensors = {}
    plain: dict[str, dict[str, Any]] = {}
    for number, entry in state["state"].items():
        for key, value in entry.items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{key}"] = value
            else:
                plain.setdefault(str(number), {})[key] = value
    return tensors, {"groups": state["param_groups"], "plain": plain}


def restore_optimizer(tensors: Mapping[str, Tensor], rest: Any) -> dict[str, Any]:
    """The inverse of `flatten_optimizer`."""
    state: dict[int, dict[str, Any]] = {int(number): dict(entry) for number, entry in rest["plain"].items()}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    return {"state": state, "param_groups": rest["groups"]}


def take(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors under ``prefix.``, without it."""
    return {name.removeprefix(prefix + "."): v for name, v in tensors.items() if name.startswith(prefix + ".")}


def together(**parts: Mapping[str, Tensor]) -> Tensors:
    """The tensors of several parts, each under its part's name: the inverse of `take`."""
    return {f"{part}.{name}": value for part, tensors in parts.items() for name, value in tensors.items()}
