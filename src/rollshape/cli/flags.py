"""Command lines from dataclasses: each field is a flag, and its annotation is the help text.

`num_envs: Annotated[int | None, "number of environments"] = None` becomes `--num-envs INT`; a field without a default
is a positional argument. Underscores are accepted in flags, `1e6`, `500_000` and `100M` in integers.
"""

from __future__ import annotations

import argparse
import types
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from rollshape.errors import RequestError, did_you_mean
from rollshape.geometry.values import parse_size as whole

Args = TypeVar("Args")
_ALIASES = {"world_size": ("--gpus",), "from_world_size": ("--from-gpus",)}  # further names of a flag


@dataclass(frozen=True, kw_only=True)
class CommonArgs:
    """Flags of all commands."""

    json: Annotated[bool, "print one JSON document to stdout"] = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RequestError("flags", f"{message[0].upper()}{message[1:]}.", f"See {self.prog} --help.")


def parse(cls: type[Args], command: str, argv: Sequence[str]) -> Args:
    """Parse the command line into the dataclass; `--help` prints the help and exits."""
    return cls(**given_flags(cls, command, argv))


def given_flags(cls: type[Any], command: str, argv: Sequence[str]) -> dict[str, Any]:
    """Return the fields that the command line sets, without defaults."""
    parser = _Parser(
        prog=f"rollshape {command}", description=cls.__doc__, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        _add(parser, field.name, hints[field.name], None if field.default is MISSING else field)
    values, unknown = parser.parse_known_args([_kebab(token) for token in argv])
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        hint = _hint(unknown[0].split("=")[0], known)
        raise RequestError("flags", f"Unknown argument {unknown[0]}.", f"{hint}See {parser.prog} --help.")
    return vars(values)


_DEVICE = (
    "JAX uses a GPU if a CUDA build is installed (pip install 'jax[cuda12]'); train --platform cpu|gpu|tpu, or the "
    "environment variable JAX_PLATFORMS, selects another platform. "
)
_EXPLAINED = dict.fromkeys(("--device", "--cuda", "--gpu", "--use-gpu", "--use-cuda", "--no-cuda"), _DEVICE)


def _hint(flag: str, known: Sequence[str]) -> str:
    """Return what to use instead of an unknown flag; the names of other libraries have priority over similar ones."""
    if flag in _EXPLAINED:
        return _EXPLAINED[flag]
    foreign = _foreign_flag(flag.lstrip("-").replace("-", "_").lower(), known)
    return f"Did you mean {foreign}? " if foreign else did_you_mean(flag, known)


def _foreign_flag(name: str, known: Sequence[str]) -> str:
    """Return the flag for a key of another library: most libraries call a minibatch size `batch_size`."""
    from rollshape.geometry.dialects import DIALECTS

    keys = (key for dialect in DIALECTS.values() for key in dialect.keys)
    flags = Counter("--" + key.concept.replace("_", "-") for key in keys if key.leaf.lower() == name)
    return next((flag for flag, _ in flags.most_common() if flag in known), "")


def _kebab(token: str) -> str:
    """Return the declared form of a flag; underscores and the old spelling `normalise` are accepted."""
    name, equals, value = token.partition("=")
    known = name.replace("_", "-").replace("--normalise-", "--normalize-")
    return known + equals + value if name.startswith("--") else token


def _add(parser: argparse.ArgumentParser, name: str, hint: Any, field: Any) -> None:
    kind, text = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, "")
    if field is None:
        parser.add_argument(name, metavar=name.upper(), help=text)
        return
    flag = "--" + name.rstrip("_").replace("_", "-")  # `from_`, because `from` is a keyword
    flags = (flag, *_ALIASES.get(name, ()))
    options = [part for part in _options(kind) if part is not type(None)]
    default = "" if field.default in (None, False, ()) else f" (default: {_format_default(field.default)})"
    if options == [bool]:
        parser.add_argument(flag, dest=name, action="store_true", help=text)
    elif get_origin(options[0]) is dict:
        parser.add_argument(flag, dest=name, nargs="+", action=_Options, type=_option, metavar="NAME=VALUE", help=text)
    elif get_origin(options[0]) is tuple:
        convert, metavar = _converter([get_args(options[0])[0]])
        parser.add_argument(
            flag, dest=name, nargs="+", action=_Tuple, type=convert, metavar=metavar, help=text + default
        )
    else:
        convert, metavar = _converter(options)
        parser.add_argument(*flags, dest=name, type=convert, metavar=metavar, help=text + default)


def _format_default(default: Any) -> str:
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


class _Tuple(argparse.Action):
    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, __: Any = None) -> None:
        setattr(namespace, self.dest, tuple(values))


class _Options(argparse.Action):
    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, __: Any = None) -> None:
        setattr(namespace, self.dest, dict(values))


def _option(text: str) -> tuple[str, Any]:
    """Parse `delay=8` into a name and an integer, float, bool or string."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    for kind in (whole, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _converter(options: Sequence[Any]) -> tuple[Callable[[str], Any], str]:
    """Return a function that converts text to one of the types, and the metavar for the help."""
    words = [word for option in options if get_origin(option) is Literal for word in get_args(option)]
    number = next((option for option in options if option in (int, float, str)), None)
    metavar = "|".join([*words, *([number.__name__.upper()] if number else [])])

    def convert(text: str) -> Any:
        if text in words or number is str:
            return text
        try:
            if number is None:
                raise ValueError(text)
            return whole(text) if number is int else float(text)
        except (ValueError, OverflowError):
            choices = ["one of " + ", ".join(words)] if words else []
            choices += ["a whole number"] if number is int else ["a number"] if number is float else []
            raise argparse.ArgumentTypeError(f"{text!r} is not {' or '.join(choices)}") from None

    return convert, metavar
