"""Fields of requests: the legal values stand beside each field, and one function checks and converts them.

`num_envs: Annotated[int | None, "number of environments", Range(1, 2**40)] = None` takes None or an integer in
[1, 2⁴⁰], from a command line, a study file and Python alike.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr
from rollshape.geometry.values import FINITE, INTEGER, Range, is_bool_scalar, plain_value, real_number, whole_number

MOST_ITEMS = 64  # of a list, such as the hidden layers
Record = TypeVar("Record")


class Field(NamedTuple):
    """What a field takes: `int | Literal["auto"] | None` is a number, a word or None."""

    default: Any
    kind: Any  # int, float, bool, str, tuple or dict; None for a choice of words only
    item: Any  # kind of the items of a tuple
    words: tuple[str, ...]  # or of the items of a tuple
    optional: bool
    bounds: Range


@cache
def field_table(cls: type) -> dict[str, Field]:
    """Return what every field of a dataclass takes, from its annotations."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: new_field(hints[field.name], field.default) for field in fields(cls)}


def new_field(hint: Any, default: Any) -> Field:
    """Return what a field takes from its annotation."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    words = tuple(word for option in options if get_origin(option) is Literal for word in get_args(option))
    kinds = [option for option in options if option is not type(None) and get_origin(option) is not Literal]
    main = kinds[0] if kinds else None
    item = None
    if get_origin(main) is tuple:
        inner = new_field(get_args(main)[0], None)
        item, words = inner.kind, inner.words
    bounds = next((note for note in notes if isinstance(note, Range)), INTEGER if main is int else FINITE)
    return Field(default, get_origin(main) or main, item, words, type(None) in options, bounds)


def new_record(cls: type[Record], base: Record | None, changes: Mapping[str, Any]) -> Record:
    """Return the record of `base` (default: of the defaults) with the changes, every value checked and converted."""
    table = field_table(cls)  # type: ignore[arg-type]
    if base is not None and not isinstance(base, cls):
        raise RequestError(
            "argument",
            f"A {cls.__name__} is expected, got {short_repr(base)}.",
            f"Give its fields by name: {next(iter(table))}=….",
        )
    for name in changes:
        if name not in table:
            raise RequestError(
                "argument",
                f"There is no field {short_repr(name)}.",
                f"{did_you_mean(name, table)}Fields: {', '.join(table)}.",
            )
    given = {**(vars(base) if base is not None else {}), **changes}
    return cls(
        **{
            name: check_value(name, table[name], value)
            for name, value in given.items()
            if name in table and value is not table[name].default
        }
    )


def check_value(name: str, field: Field, value: Any) -> Any:
    """Return the value in the type of its field, or raise a RequestError that names the field and what it takes."""
    if value is None and field.optional:
        return None
    if field.words and isinstance(value, str) and field.kind is not tuple:
        if value in field.words:
            return str(value)
        raise _wrong_kind(name, field, value)
    if field.kind is None:
        raise _wrong_kind(name, field, value)
    return _CONVERTERS[field.kind](name, field, value)


def _check_whole(name: str, field: Field, value: Any) -> int:
    return whole_number(name, value, least=int(field.bounds.least), most=int(field.bounds.most))


def _check_real(name: str, field: Field, value: Any) -> float:
    return real_number(name, value, field.bounds, field.default)


def _check_flag(name: str, field: Field, value: Any) -> bool:
    if not is_bool_scalar(value):
        raise _wrong_kind(name, field, value)
    return bool(value)


def _check_text(name: str, field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_kind(name, field, value)
    return str(value)


def _check_tuple(name: str, field: Field, value: Any) -> tuple[Any, ...]:
    """Return a list, tuple or array of one axis as a tuple; a single number is a tuple of one."""
    is_list = isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1
    count = len(value) if is_list else 1
    if count > MOST_ITEMS:
        raise RequestError("argument", f"{name} has {count:,} values.", f"Give at most {MOST_ITEMS}.")
    item = field._replace(kind=field.item, optional=False)
    return tuple(check_value(f"{name}[{i}]", item, part) for i, part in enumerate(value if is_list else [value]))


def _check_mapping(name: str, field: Field, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong_kind(name, field, value)
    return plain_value(name, value)


_CONVERTERS: dict[Any, Callable[[str, Field, Any], Any]] = {
    int: _check_whole,
    float: _check_real,
    bool: _check_flag,
    str: _check_text,
    tuple: _check_tuple,
    dict: _check_mapping,
}
_KINDS = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list",
    dict: "a mapping of names to values",
}  # fmt: skip


def _wrong_kind(name: str, field: Field, value: Any) -> RequestError:
    words = ["one of " + ", ".join(field.words)] if field.words else []
    takes = " or ".join([*words, *([_KINDS[field.kind]] if field.kind else [])])
    return RequestError("choice", f"{name} must be {takes}, got {short_repr(value)}.", f"Give {name} as {takes}.")
