"""Reading a recipe from a config, and writing a config for a recipe."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import TimeLimit
from rollshape.geometry.dialects.config import Reading, from_word, read_keys, read_switches
from rollshape.geometry.dialects.keys import EXTRA, OVERRIDE, SHAPE_CONCEPTS, Key, is_number
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.dialects.sharing import emit_per_rank, merge_facts
from rollshape.geometry.dialects.sources.source import NOT_CONSTANT, check_complete
from rollshape.geometry.values import MOST_SAMPLES, MOST_TIMESTEPS, parse_size, plain_scalar, whole_number

_ABSENT = object()
_BUDGET_EXTRAS = frozenset({"action_repeat", "num_evals", "num_resets_per_eval"})  # affect the number of updates only
_ENVIRONMENTS = ("num_envs", "workers", "envs_per_worker")
_UNBOUNDED = ("total_timesteps", "vector_steps", "num_updates")


@dataclass(frozen=True)
class ParsedConfig:
    """The result of reading a config: its recipe, and where its keys are."""

    recipe: Recipe
    reading: Reading
    values: Mapping[str, Any]  # by key name, in the types of the keys
    defaults: tuple[str, ...]  # sizes that the config does not contain, with the library's default
    not_numbers: tuple[str, ...] = ()  # hyperparameters that are schedules, functions or pairs
    behavior: Mapping[str, str] = field(default_factory=dict)  # what no size says, as in `Dialect.behavior`


def read(
    values: Mapping[str, Any],
    dialect: Dialect,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    candidates: Mapping[str, Dialect] | None = None,
    hyper: bool = True,
    file: str | None = None,
    num_agents: int | None = None,
    world_size: int | None = None,
    recurrent: bool | None = None,
    seq_length: int | None = None,
) -> ParsedConfig:
    """Read a config in a dialect. Without `hyper`, read sizes only.

    `file` is the path of the config, whose name may say which algorithm it is for. `num_envs` (of all processes),
    `num_agents`, `world_size`, `recurrent` and `seq_length` override the config.
    """
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise RequestError("file", f"A config must be a mapping of names to values, not a {kind}.", "Give a dict.")
    reading = read_keys(values, dialect, key, candidates, file)
    overridden = _environment_keys(dialect) if num_envs is not None else set()
    assumed = {
        key.name for key in dialect.keys if key.leaf in _BUDGET_EXTRAS and _is_reference(reading.values.get(key.name))
    }
    values_by_name = {
        entry.name: _convert(entry, None if _is_reference(value) and entry.name in overridden | assumed else value)
        for entry in dialect.keys
        if (value := reading.values.get(entry.name, _ABSENT)) is not _ABSENT
    }
    absent = [key for key in dialect.shape_keys if key.name not in values_by_name and key.name not in overridden]
    absent.sort(key=lambda key: key.concept in _ENVIRONMENTS)  # a flag can supply these: name the others first
    check_complete(values, reading.level, [tuple(key.name.split(".")) for key in absent])
    sizes, defaults = _with_defaults(dialect, values_by_name)
    given = {"num_agents": num_agents, "world_size": world_size, "recurrent": recurrent, "seq_length": seq_length}
    merge_facts(dialect, sizes, dialect.facts(values, reading.level), given)
    if num_envs is not None:
        sizes["num_envs"] = sizes[OVERRIDE] = whole_number("num_envs", num_envs)
        defaults = {name: value for name, value in defaults.items() if name not in _environment_keys(dialect)}
    behavior = dialect.behavior(read_switches(values, reading.level, dialect))
    recipe = replace(dialect.parse(sizes), bootstraps=behavior["time limit"] in (TimeLimit.FINAL, TimeLimit.CURRENT))
    if recipe.rollout_size > MOST_SAMPLES:
        raise RequestError(
            "whole-number",
            f"A rollout of {recipe.rollout_size:,} samples exceeds the maximum of {MOST_SAMPLES:,}.",
            "Check the sizes.",
        )
    not_numbers = [
        f"{key.name}: {short_repr(value)} is not a number"
        for key in dialect.hyper_keys
        if (value := values_by_name.get(key.name)) is not None and not is_number(value)
    ]
    return ParsedConfig(
        replace(recipe, hyper=dialect.parse_hyper(values_by_name)) if hyper else recipe,
        reading,
        values_by_name,
        defaults=tuple(f"{name} {value}" for name, value in defaults.items()),
        not_numbers=(*not_numbers, *(_assumption(dialect, name, reading.values[name]) for name in sorted(assumed))),
        behavior=behavior,
    )


def _with_defaults(dialect: Dialect, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (sizes by concept and extras by name, completed with defaults; the defaults that were used, by name)."""
    sizes: dict[str, Any] = {}
    defaults = {}
    for entry in dialect.keys:
        if entry.concept not in SHAPE_CONCEPTS and entry.concept != EXTRA:
            continue
        value = values.get(entry.name)
        if value is None and not (entry.name in values and entry.off is None):
            value = None if entry.default == -1 else entry.default
            if entry.concept in SHAPE_CONCEPTS and value is not None:
                defaults[entry.name] = value
        sizes[entry.name if entry.concept == EXTRA else entry.concept] = value
    return sizes, defaults


def _environment_keys(dialect: Dialect) -> set[str]:
    return {key.name for key in dialect.keys if key.concept in _ENVIRONMENTS or key.leaf == "num_actors"}


def _assumption(dialect: Dialect, name: str, value: str) -> str:
    default = next(key.default for key in dialect.keys if key.name == name)
    what = value.removeprefix(NOT_CONSTANT)
    return f"{name} is {what}, which is not in the config: {default} is assumed, which affects the number of updates"


def _is_reference(value: Any) -> bool:
    """Return whether a value refers to another file or is computed, so that only a flag can say what it is."""
    return isinstance(value, str) and ("${" in value or value.startswith(NOT_CONSTANT))


def _number(entry: Key, value: Any) -> Any:
    """Return a size that is text as a number; say what a size is that is not one."""
    if _is_reference(value):
        what = value.removeprefix(NOT_CONSTANT)
        flag = " Use --num-envs, or" if entry.concept in _ENVIRONMENTS else ""
        problem = "which is not in the file" if "${" in value else "which is not a constant"
        raise RequestError("reference", f"{entry.name} is {what}, {problem}.", f"{flag} Write a number.".strip())
    with contextlib.suppress(ValueError):
        return parse_size(value) if isinstance(value, str) else value
    return value


def _convert(entry: Key, value: Any) -> Any:
    """Return the value in the type of its key; several libraries use -1 for "not set"."""
    value = plain_scalar(value)
    if value is None or (isinstance(value, str) and value == entry.default == "auto"):
        return value
    if entry.concept in SHAPE_CONCEPTS or entry.whole or type(entry.default) is int:
        value = _number(entry, value)
    is_unset = is_number(value) and value == -1
    if entry.concept in SHAPE_CONCEPTS:
        most = MOST_TIMESTEPS if entry.concept in _UNBOUNDED else MOST_SAMPLES
        return None if is_unset else whole_number(entry.name, value, least=entry.concept != "workers", most=most)
    if entry.concept != EXTRA:
        return value
    if isinstance(entry.default, bool):
        value = from_word(value)
        if not isinstance(value, bool):
            given = short_repr(value)
            raise RequestError("choice", f"{entry.name} must be true or false, got {given}.", "Write true or false.")
        return value
    if isinstance(entry.default, float) and is_number(value):
        return value
    if entry.whole or isinstance(entry.default, int) or entry.default == "auto":
        return None if is_unset else whole_number(entry.name, value, least=0, most=MOST_TIMESTEPS)
    return value if isinstance(value, (str, Mapping)) else short_repr(value)  # the name of a schedule, or its options


def write(recipe: Recipe, dialect: Dialect) -> dict[str, Any]:
    """Return the config of a recipe, in the layout of the dialect."""
    sizes, hyper = emit_per_rank(dialect, recipe), dialect.emit_hyper(recipe.hyper)
    config: dict[str, Any] = {}
    for entry in dialect.keys:
        value = hyper.get(entry.name, sizes.get(entry.name if entry.concept == EXTRA else entry.concept))
        if value is not None or (entry.off is None and (entry.concept in sizes or entry.name in hyper)):
            _place(config, entry, value, dialect.layout)
    return config


def _place(config: dict[str, Any], entry: Key, value: Any, layout: str) -> None:
    if layout == "dotted":
        config[entry.name] = value
    elif layout == "flat":
        config[entry.leaf if entry.concept != EXTRA or entry.leaf not in config else entry.name] = value
    else:
        *sections, leaf = entry.name.split(".")
        for section in sections:
            config = config.setdefault(section, {})
        config[leaf] = value
