"""Files of text and JSON, written whole or not at all, read as data.

A file is written beside its place and moved there when complete, so that a full disk or a killed process leaves
the previous one untouched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from .errors import InputError
from .failpoints import fail_point

_MOST_JSON = 256 << 20
T = TypeVar("T")


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
        content = json.loads(path.read_text(encoding="utf8"), parse_constant=_refuse, parse_float=_finite_float)
        if not isinstance(content, dict):
            raise ValueError(f"it holds {type(content).__name__}, not an object")
        return content
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


def shaped(kind: type[T], value: Any) -> T:
    """JSON as this dataclass: every field there, of its own type and no other, numbers finite; others are left out.

    Raises:
        ValueError: What does not fit.
    """
    return typing.cast(T, _read(kind, value, kind.__name__))


def _read(kind: Any, value: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _fields(kind, value, name)
    if origin is types.UnionType:
        return None if value is None else _read(arguments[0], value, name)
    if origin is typing.Literal and value in arguments:
        return value
    if origin is list and isinstance(value, list):
        return [_read(arguments[0], entry, name) for entry in value]
    if origin is dict and isinstance(value, dict):
        return {key: _read(arguments[1], entry, name) for key, entry in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if kind in (str, int) and type(value) is kind:
        return value
    raise ValueError(f"{name} is {str(value)[:40]!r}")


def _fields(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {str(value)[:40]!r}")
    hints, given = typing.get_type_hints(kind), {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            given[field.name] = _read(hints[field.name], value[field.name], field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"it has no {field.name}")
    return kind(**given)
