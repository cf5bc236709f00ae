"""Config ⇄ recipe: a dialect's keys read, checked and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, SHAPE_CONCEPTS, Dialect, Key, finite
from rollshape.geometry.dialects.config import Reading, read_keys
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.request import MOST_SAMPLES, MOST_TIMESTEPS, whole_number

_UNBOUNDED = ("total_timesteps", "vector_steps", "num_updates")


@dataclass(frozen=True)
class Heard:
    """A config understood: its recipe, and what was found where."""

    recipe: Recipe
    reading: Reading
    assumed: tuple[str, ...]  # sizes that the config does not say, with the library's default


def read(
    values: Mapping[str, Any],
    dialect: Dialect,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    guesses: Mapping[str, Dialect] | None = None,
) -> Heard:
    """The recipe of a config in a dialect; `num_envs` overrides what the config says."""
    reading = read_keys(values, dialect, key, guesses)
    said: dict[str, Any] = {}
    assumed = []
    for entry in dialect.keys:
        present = entry.name in reading.values
        value = _checked(entry, reading.values[entry.name]) if present else None
        if value is None and not (present and entry.off is None):
            value = None if entry.default == -1 else entry.default
            if entry.concept in SHAPE_CONCEPTS and value is not None:
                assumed.append(f"{entry.name} {value}")
        name = entry.name if entry.concept == EXTRA else entry.concept
        if entry.concept in SHAPE_CONCEPTS or entry.concept == EXTRA:
            said[name] = value
    if num_envs is not None:
        said["num_envs"] = whole_number("num_envs", num_envs)
        assumed = [text for text in assumed if not _says_envs(dialect, text)]
    recipe = dialect.hear(said)
    if recipe.rollout_size > MOST_SAMPLES:
        raise RequestError(
            "whole-number", f"A rollout of {recipe.rollout_size:,} is more than any machine holds.", "Check the sizes."
        )
    return Heard(replace(recipe, hyper=dialect.hear_hyper(reading.values)), reading, tuple(assumed))


def _says_envs(dialect: Dialect, text: str) -> bool:
    concepts = ("num_envs", "workers", "envs_per_worker")
    return any(text.startswith(key.name + " ") for key in dialect.keys if key.concept in concepts)


def _checked(entry: Key, value: Any) -> Any:
    """A value of the kind that its key takes; -1 is how several libraries say "not here"."""
    if value is None or (value == "auto" and entry.default == "auto"):
        return value
    if entry.concept in SHAPE_CONCEPTS:
        most = MOST_TIMESTEPS if entry.concept in _UNBOUNDED else MOST_SAMPLES
        return None if value == -1 else whole_number(entry.name, value, least=entry.concept != "workers", most=most)
    if entry.concept != EXTRA:
        return value
    if isinstance(entry.default, bool):
        if not isinstance(value, bool):
            raise RequestError("choice", f"{entry.name} must be true or false, got {value!r}.", "Write true or false.")
        return value
    if isinstance(entry.default, int) or entry.default == "auto":
        return None if value == -1 else whole_number(entry.name, value, least=0)
    return finite(entry.name, value) if isinstance(entry.default, float) else value


def write(recipe: Recipe, dialect: Dialect) -> dict[str, Any]:
    """The config that says the recipe, in the dialect's own layout."""
    said, hyper = dialect.say(recipe), dialect.say_hyper(recipe.hyper)
    config: dict[str, Any] = {}
    for entry in dialect.keys:
        value = hyper.get(entry.name, said.get(entry.name if entry.concept == EXTRA else entry.concept))
        if value is not None or (entry.off is None and (entry.concept in said or entry.name in hyper)):
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
