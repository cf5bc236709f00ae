"""Read JSON strictly and check its values against type annotations: a wrong one is a message and not a traceback."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

MAX_INT = 2**63 - 1
_PLAIN = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text", type(None): "null"}


def parse_json(content: bytes | str) -> Any:
    """Return a JSON document; a ValueError if it is none, has NaN or Infinity in it, or is nested too deeply."""
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def check_types(value: Any, hint: Any, where: str = "") -> None:
    """Raise a ValueError that names the first value inside `value` that is not of its annotated type.

    Dataclasses, NamedTuples and TypedDicts are checked field by field. An integer is a number, too, and so is NaN: it
    stands for null in a document. Infinities and integers of more than 64 bits are refused.
    """
    if hint is Any:
        return
    origin, arguments = _parts(hint)
    if origin in (Union, types.UnionType):
        _check_union(value, arguments, where)
    elif origin is Literal:
        if isinstance(value, (list, dict)) or value not in arguments:
            _fail(value, f"one of {', '.join(map(str, arguments))}", where)
    elif origin in _PLAIN:
        if not _is_plain(value, origin):
            _fail(value, _PLAIN[origin], where)
    elif is_dataclass(origin) or hasattr(origin, "_fields"):
        if not isinstance(value, origin):
            _fail(value, f"of type {origin.__name__}", where)
        for name, kind in _hints(origin).items():
            check_types(getattr(value, name), kind, _join(where, name))
    elif hasattr(origin, "__required_keys__"):
        _check_typed_dict(value, origin, where)
    else:
        _check_container(value, origin, arguments, where)


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint) or hint, get_args(hint)


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    names = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", hints)
    return {name: hints[name] for name in names}


def _check_union(value: Any, hints: Sequence[Any], where: str) -> None:
    problems = []
    for hint in hints:
        try:
            check_types(value, hint, where)
        except ValueError as error:
            problems.append(error)
        else:
            return
    known = [error for hint, error in zip(hints, problems, strict=True) if hint is not type(None)]
    raise known[0] if len(known) == 1 else problems[0]


def _check_typed_dict(value: Any, kind: Any, where: str) -> None:
    if not isinstance(value, dict):
        _fail(value, "a mapping", where)
    for name, hint in _hints(kind).items():
        if name in value:
            check_types(value[name], hint, _join(where, name))
        elif name in kind.__required_keys__:
            raise ValueError(f"{_join(where, name)} is missing")


def _check_container(value: Any, kind: type, arguments: Sequence[Any], where: str) -> None:
    """Check a list, a tuple, a mapping, or anything else that is an instance of its type, such as an array."""
    if not isinstance(value, kind):
        _fail(value, "a mapping" if issubclass(kind, Mapping) else "a list", where)
    if isinstance(value, Mapping) and arguments:
        for key, item in value.items():
            check_types(key, arguments[0], f"a key of {where}")
            check_types(item, arguments[1], _join(where, key))
    elif isinstance(value, tuple) and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            _fail(value, f"a list of {len(arguments)}", where)
        _check_items(value, arguments, where)
    elif isinstance(value, Sequence) and arguments:
        _check_items(value, [arguments[0]] * len(value), where)


def _check_items(values: Iterable[Any], hints: Sequence[Any], where: str) -> None:
    for index, (item, hint) in enumerate(zip(values, hints, strict=True)):
        check_types(item, hint, f"{where}[{index}]")


def _is_plain(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return kind in (int, float) and abs(value) <= MAX_INT
    if kind is float:
        return isinstance(value, float) and not math.isinf(value)
    return isinstance(value, kind)


def _join(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


def _fail(value: Any, expected: str, where: str) -> None:
    text = "null" if value is None else repr(value)
    short = text if len(text) <= 40 else f"{text[:37]}..."
    raise ValueError(f"{where or 'the document'} is {short}, not {expected}")
