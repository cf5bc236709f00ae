"""Values of a study file as fields of a Spec: is each of the kind that its field takes?"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rollshape.training.spec import Spec


@cache
def kinds() -> dict[str, tuple[Any, ...]]:
    """Field → the types that it takes: `int | None` is (int, NoneType)."""
    hints = get_type_hints(Spec)
    return {
        name: get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for name, hint in hints.items()
    }


def fitted(name: str, value: Any) -> Any:
    """The value as its field holds it (a list as a tuple, 1e6 as an int); ValueError says what it should be."""
    for kind in kinds()[name]:
        found = _as(kind, value)
        if found is not _NO:
            return found
    raise ValueError(" or ".join(_told(kind) for kind in kinds()[name] if kind is not type(None)))


_NO = object()


def _as(kind: Any, value: Any) -> Any:
    if kind is type(None):
        return None if value is None else _NO
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) and not isinstance(value, bool) else _NO
    if get_origin(kind) is tuple:
        items = [_as(get_args(kind)[0], item) for item in value] if isinstance(value, (list, tuple)) else [_NO]
        return _NO if _NO in items else tuple(items)
    if get_origin(kind) is dict:
        return dict(value) if isinstance(value, dict) else _NO
    if kind in (bool, str) or isinstance(value, bool):
        return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else _NO
    if not isinstance(value, (int, float)) or value != value:
        return _NO
    if kind is int:
        return int(value) if abs(value) != float("inf") and value == value // 1 else _NO
    return float(value)


def _told(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list of whole numbers"
    if get_origin(kind) is dict:
        return "a mapping of names to values"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
