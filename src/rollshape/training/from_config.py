"""Training what another library's config says: its plan, hyperparameters and networks as fields of a Spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rollshape.algorithms.registry import ALGORITHMS, AlgorithmSettings
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import CLIPPED, LINEAR_RATE, Normalization
from rollshape.geometry.dialects.config import SCHEDULES
from rollshape.geometry.dialects.reading import ParsedConfig, read
from rollshape.geometry.dialects.registry import DIALECTS, resolve
from rollshape.geometry.dialects.translate import NO_COUNTERPART, translate
from rollshape.training.config_keys import CONFIG_KEYS
from rollshape.training.spec import Spec

_OURS = "rollshape"
_NORMALIZATION: dict[str, str] = {
    Normalization.MINIBATCH: "minibatch",
    Normalization.ROLLOUT: "rollout",
    Normalization.OFF: "off",
}
_OFF = {"max_grad_norm": None, "entropy_coef": 0.0}  # unless the config or a default of its library says otherwise
_EXPECTED = (
    "total_timesteps", "learning_rate", "gamma", "gae_lambda", "clip_range", "value_coef", "hidden_sizes", "activation",
)  # fmt: skip
_EXPRESSED = ("advantage normalization", "value loss")  # behavior of a library for which we have a setting
Path = tuple[str, ...]


@dataclass(frozen=True)
class ConfigSettings:
    """Fields of a Spec that a config gives, and everything in it that was not taken over."""

    fields: dict[str, Any]
    not_taken: tuple[str, ...]


def settings_from_config(
    values: Mapping[str, Any],
    dialect: str,
    *,
    num_envs: int | None = None,
    key: str | None = None,
    file: str | None = None,
) -> ConfigSettings:
    """Return the settings of a config: `train(**settings_from_config(config, "sb3").fields)`.

    `num_envs` overrides or supplies the number of environments, `key` selects a level of a nested config. `file` is the
    path of the config, whose name may say which algorithm it is for.
    """
    library = resolve(dialect, values, key=key, file=file)
    translation = translate(values, library.name, _OURS, num_envs=num_envs, key=key, file=file)
    parsed = read(values, library, num_envs=num_envs, key=key, candidates=DIALECTS, file=file)
    is_ours = library.name == _OURS
    taken = ({} if is_ours else _OFF) | translation.config | ({} if is_ours else _behavior(library, values, parsed))
    used, rejected = _take_keys(taken, library, values, parsed)
    if "env" not in taken and _family(library) in ("sb3", "sbx") and parsed.reading.level:
        taken["env"] = parsed.reading.level[-1]  # rl-zoo's files have a level per environment
    left = [path for path in _other_leaves(values, parsed) if not any(path[: len(key)] == key for key in used)]
    linear = _linear_rates(library, values, parsed) if taken.get("anneal_lr") else []
    return ConfigSettings(
        taken,
        (
            *_lost(translation.not_preserved, taken, linear),
            *rejected,
            *([] if is_ours else _missing(taken)),
            *([f"keys without a counterpart: {', '.join('.'.join(path) for path in left)}"] if left else []),
        ),
    )


def _behavior(library: Dialect, values: Mapping[str, Any], parsed: ParsedConfig) -> dict[str, Any]:
    """Return what the library does, by default or by the keys of the config."""
    behavior = parsed.behavior
    is_linear = behavior["learning-rate schedule"].startswith(LINEAR_RATE)
    return {
        "algo": parsed.recipe.algo,
        "normalize_advantages": _NORMALIZATION[behavior["advantage normalization"]],
        "clip_value": CLIPPED in behavior["value loss"] and not behavior["value loss"].startswith("not "),
        "anneal_lr": is_linear or bool(_linear_rates(library, values, parsed)),
    }


def _linear_rates(library: Dialect, values: Mapping[str, Any], parsed: ParsedConfig) -> list[str]:
    """Return the names of learning rates that are linear schedules, such as rl-zoo's `lin_0.001`."""
    paths = {entry.name: parsed.reading.paths.get(entry.name) for entry in library.keys
             if entry.concept == "learning_rate"}  # fmt: skip
    given = {name: _at(values, path) for name, path in paths.items() if path is not None}
    return [name for name, rate in given.items() if isinstance(rate, str) and rate.startswith(SCHEDULES)]


def _take_keys(
    taken: dict[str, Any], library: Dialect, values: Mapping[str, Any], parsed: ParsedConfig
) -> tuple[set[Path], list[str]]:
    """Add what the table of keys can express; return the paths that were used, and what could not be expressed."""
    used: set[Path] = set()
    rejected: list[str] = []
    given: dict[str, Any] = {}
    for path, name, convert in _present(library, values, parsed):
        value = _at(values, path)
        try:
            converted = convert(value)
        except (ValueError, TypeError):
            rejected.append(f"{name}: {value!r:.60} cannot be expressed")
            used.add(path)
            continue
        differing = [field for field, new in converted.items() if given.get(field, new) != new]
        if differing:  # such as other sizes for actor and critic
            rejected.append(f"{name}: {value!r:.60}; {differing[0]} {given[differing[0]]} is used for both")
            used.add(path)
            continue
        given |= converted
        used.add(path)
    taken |= given
    return used, rejected


def _present(library: Dialect, values: Mapping[str, Any], parsed: ParsedConfig) -> Iterator[tuple[Path, str, Any]]:
    """Yield (path, name, converter) of the keys that the config contains, each value once."""
    known = set(parsed.reading.paths.values())
    if library.name == _OURS:
        names = {field.name for field in fields(Spec)}
        level = _at(values, parsed.reading.level)
        for name in level:
            path = (*parsed.reading.level, name)
            if name in names and path not in known:
                yield path, name, lambda value, name=name: {name: tuple(value) if isinstance(value, list) else value}
        return
    for key in CONFIG_KEYS.get(library.name) or CONFIG_KEYS.get(_family(library), ()):
        parts = tuple(key.path.split("."))
        below = parsed.reading.level
        prefixed = tuple(f"{library.prefix}{key.path}".split("."))
        for path in dict.fromkeys(((*below, *parts), (*below, *prefixed), parts, (*below, key.path))):
            if path not in known and _at(values, path) is not _ABSENT:
                known.add(path)
                yield path, key.path, key.convert
                break


def _family(library: Dialect) -> str:
    """Return `sb3` for `sb3:a2c`: the same keys, another algorithm."""
    return library.name.partition(":")[0]


_ABSENT = object()


def _at(values: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return _ABSENT
        values = values[part]
    return values


def _other_leaves(values: Mapping[str, Any], parsed: ParsedConfig) -> Iterator[Path]:
    """Yield the paths of all values that belong to no key of the dialect, as far as the reading covers the file."""
    others = {tuple(name.split(".")) for name in parsed.reading.other_keys}
    flat = set(parsed.reading.other_keys)
    for path in _leaves(values):
        starts = {path[:length] for length in range(1, len(path) + 1)}
        if starts & others or ".".join(path) in flat:
            yield path


def _leaves(values: Mapping[Any, Any], path: Path = ()) -> Iterator[Path]:
    for name, value in values.items():
        here = (*path, str(name))
        if isinstance(value, Mapping):
            yield from _leaves(value, here)
        else:
            yield here


def _lost(not_preserved: tuple[str, ...], taken: Mapping[str, Any], linear: list[str]) -> Iterator[str]:
    """Yield what the translation lost, except keys without a counterpart and what our settings express."""
    for line in not_preserved:
        name = line.partition(":")[0]
        is_annealed = taken.get("anneal_lr") and (name == "learning-rate schedule" or name in linear)
        if not (line == f"{name}: {NO_COUNTERPART} {_OURS}" or name in _EXPRESSED or is_annealed):
            yield line


def _missing(taken: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that the config does not contain, with the default that is used."""
    settings = {field.name for field in fields(ALGORITHMS[taken["algo"]].Settings)}
    others = {field.name for field in fields(AlgorithmSettings)} - settings
    for field in fields(Spec):
        if field.name in _EXPECTED and field.name not in taken and field.name not in others:
            default = " ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
            yield f"{field.name}: not in the config, {default} is used"
