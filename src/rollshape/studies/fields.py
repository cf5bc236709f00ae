"""Values of a study file, converted to the types of a Spec's fields."""

from __future__ import annotations

import sys
import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rollshape.training.spec import Spec

_MISMATCH = object()


@cache
def field_types() -> dict[str, tuple[Any, ...]]:
    """Return field → the types that it takes: `int | None` is (int, NoneType)."""
    hints = get_type_hints(Spec)
    return {
        name: get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for name, hint in hints.items()
    }


def convert_field(name: str, value: Any) -> Any:
    """Return the value as its field holds it (a list as a tuple, 1e6 as an int); a ValueError says what it takes."""
    for kind in field_types()[name]:
        converted = _convert(kind, value)
        if converted is not _MISMATCH:
            return converted
    raise ValueError(" or ".join(_describe(kind) for kind in field_types()[name] if kind is not type(None)))


def _convert(kind: Any, value: Any) -> Any:
    if kind is type(None):
        return None if value is None else _MISMATCH
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) and not isinstance(value, bool) else _MISMATCH
    if get_origin(kind) is tuple:
        items = (
            [_convert(get_args(kind)[0], item) for item in value] if isinstance(value, (list, tuple)) else [_MISMATCH]
        )
        return _MISMATCH if _MISMATCH in items else tuple(items)
    if get_origin(kind) is dict:
        return dict(value) if isinstance(value, dict) else _MISMATCH
    if kind in (bool, str) or isinstance(value, bool):
        return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else _MISMATCH
    if not isinstance(value, (int, float)) or value != value:
        return _MISMATCH
    if kind is int:
        return int(value) if abs(value) != float("inf") and value == value // 1 else _MISMATCH
    return float(value) if abs(value) <= sys.float_info.max else _MISMATCH


def _describe(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list of whole numbers"
    if get_origin(kind) is dict:
        return "a mapping of names to values"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
