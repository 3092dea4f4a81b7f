"""JSON read as a dataclass: every field there, of its own type and no other, numbers finite."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def shaped(kind: type[T], value: Any) -> T:
    """The value as this dataclass. Raises `ValueError` for what does not fit; further fields are left out."""
    found: T = _read(kind, value, kind.__name__)
    return found


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
        return [_read(arguments[0], one, name) for one in value]
    if origin is dict and isinstance(value, dict):
        return {key: _read(arguments[1], one, name) for key, one in value.items()}
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
