"""Config ⇄ recipe: a dialect's keys read, checked and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, OVERRIDE, SHAPE_CONCEPTS, Dialect, Key, is_number
from rollshape.geometry.dialects.config import Reading, read_keys
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.request import MOST_SAMPLES, MOST_TIMESTEPS, whole_number

_OFF_POLICY = {"buffer_size", "learning_starts", "train_freq", "gradient_steps", "replay_buffer_size", "num_seed_steps"}
_UNBOUNDED = ("total_timesteps", "vector_steps", "num_updates")


@dataclass(frozen=True)
class Heard:
    """A config understood: its recipe, and what was found where."""

    recipe: Recipe
    reading: Reading
    assumed: tuple[str, ...]  # sizes that the config does not say, with the library's default
    unread: tuple[str, ...] = ()  # hyperparameters that are no numbers: schedules, functions, pairs


def read(
    values: Mapping[str, Any],
    dialect: Dialect,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    guesses: Mapping[str, Dialect] | None = None,
    hyper: bool = True,
) -> Heard:
    """The recipe of a config in a dialect; `num_envs` overrides what the config says. Sizes only, without `hyper`."""
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise RequestError("file", f"A config is a mapping of names to values, not a {kind}.", "Give a dict.")
    reading = read_keys(values, dialect, key, guesses)
    off_policy = sorted(_OFF_POLICY & {name.rpartition(".")[2] for name in reading.others})
    if len(off_policy) >= 2:
        raise RequestError(
            "family",
            f"The config trains from a replay ({', '.join(off_policy)}); {dialect.name} here means PPO.",
            "Give a PPO config.",
        )
    found = {
        entry.name: _checked(entry, reading.values[entry.name])
        for entry in dialect.keys
        if entry.name in reading.values
    }
    said, assumed = _said(dialect, found)
    if num_envs is not None:
        said["num_envs"] = said[OVERRIDE] = whole_number("num_envs", num_envs)
        assumed = {name: value for name, value in assumed.items() if name not in _environment_keys(dialect)}
    recipe = dialect.hear(said)
    if recipe.rollout_size > MOST_SAMPLES:
        raise RequestError(
            "whole-number", f"A rollout of {recipe.rollout_size:,} is more than any machine holds.", "Check the sizes."
        )
    odd = [key for key in dialect.hyper_keys if found.get(key.name) is not None and not is_number(found[key.name])]
    return Heard(
        replace(recipe, hyper=dialect.hear_hyper(found)) if hyper else recipe,
        reading,
        assumed=tuple(f"{name} {value}" for name, value in assumed.items()),
        unread=tuple(f"{key.name}: {found[key.name]!r} is not a number" for key in odd),
    )


def _said(dialect: Dialect, found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sizes by concept and extras by name, with the library's defaults; and the defaults that were taken, by name."""
    said: dict[str, Any] = {}
    assumed = {}
    for entry in dialect.keys:
        if entry.concept not in SHAPE_CONCEPTS and entry.concept != EXTRA:
            continue
        value = found.get(entry.name)
        if value is None and not (entry.name in found and entry.off is None):
            value = None if entry.default == -1 else entry.default
            if entry.concept in SHAPE_CONCEPTS and value is not None:
                assumed[entry.name] = value
        said[entry.name if entry.concept == EXTRA else entry.concept] = value
    return said, assumed


def _environment_keys(dialect: Dialect) -> set[str]:
    return {key.name for key in dialect.keys if key.concept in ("num_envs", "workers", "envs_per_worker")}


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
        words = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}  # YAML 1.1's
        value = words.get(value.lower(), value) if isinstance(value, str) else value
        if not isinstance(value, bool):
            raise RequestError("choice", f"{entry.name} must be true or false, got {value!r}.", "Write true or false.")
        return value
    if isinstance(entry.default, int) or entry.default == "auto":
        return None if value == -1 else whole_number(entry.name, value, least=0)
    return value


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
