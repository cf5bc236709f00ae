"""Arguments of public functions, checked by their annotations: a wrong call is a RequestError, not a TypeError."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rollshape.errors import RequestError, did_you_mean
from rollshape.formatting import short_repr
from rollshape.geometry.fields import check_value, new_field

Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[str, Any], Any]
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SIMPLE = (int, float, bool, str, type(None))


def check_arguments(function: Function) -> Function:
    """Bind and check the arguments of every call; numbers of NumPy and JAX are converted to plain ones."""
    signature = inspect.signature(function)

    @cache
    def checks() -> dict[str, Check]:  # at the first call: types may not exist yet where the function is defined
        taken = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
        holder = types.SimpleNamespace(__annotations__=taken)
        hints = get_type_hints(holder, function.__globals__, include_extras=True)
        named = [param for param in signature.parameters.values() if param.kind is not param.VAR_KEYWORD]
        return {param.name: check for param in named if (check := _new_check(hints.get(param.name, Any))) is not None}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _wrong_call(function.__name__, signature, kwargs, str(error)) from None
        for name, check in checks().items():
            if name not in bound.arguments:
                continue
            value = bound.arguments[name]
            is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            bound.arguments[name] = tuple(check(name, item) for item in value) if is_many else check(name, value)
        return function(*bound.args, **bound.kwargs)

    return cast(Function, call)


def check_names(function: str, given: Iterable[str], fields: Iterable[str], target: Callable[..., Any]) -> None:
    """Raise a RequestError for a keyword that is neither a field of the request nor an argument of the function."""
    arguments = [param.name for param in inspect.signature(target).parameters.values() if param.kind in _BY_NAME]
    known = list(dict.fromkeys([*arguments, *fields]))
    for word in given:
        if word not in known:
            hint = did_you_mean(word, known)
            raise RequestError(
                "argument", f"{function}() has no argument {short_repr(word)}.", f"{hint}Arguments: {', '.join(known)}."
            )


def _wrong_call(name: str, signature: inspect.Signature, given: dict[str, Any], problem: str) -> RequestError:
    known = list(signature.parameters)
    hint = next((did_you_mean(word, known) for word in given if word not in known), "")
    return RequestError("argument", f"{name}(): {problem}.", f"{hint}Arguments: {', '.join(known)}.")


def _new_check(hint: Any) -> Check | None:
    """Return the check of an annotation; None if it accepts anything."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if Any in options:
        return None
    if all(option in _SIMPLE or get_origin(option) is Literal for option in options):
        field = new_field(hint, None)
        return lambda name, value: check_value(name, field, value)

    def check(name: str, value: Any) -> Any:
        if any(_is_instance(value, option) for option in options):
            return value
        takes = " or ".join(str(getattr(option, "__name__", option)) for option in options if option is not type(None))
        raise RequestError("argument", f"{name} must be a {takes}, got {short_repr(value)}.", f"Check {name}.")

    return check


def _is_instance(value: Any, option: Any) -> bool:
    origin, items = get_origin(option), get_args(option)
    if origin is Sequence:
        return isinstance(value, (list, tuple)) and all(isinstance(item, items[0]) for item in value)
    return isinstance(value, origin or option)
