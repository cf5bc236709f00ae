"""Finding a dialect's keys in a config: at which level they are, and which other keys it contains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError, closest_name, did_you_mean
from rollshape.formatting import short_repr
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.families import (
    COMMON_KEYS,
    check_algorithm,
    find_algorithm,
    names_another_algorithm,
    refuse_other_algorithm,
)
from rollshape.geometry.dialects.keys import EXTRA, Key
from rollshape.geometry.dialects.recipe import HYPERPARAMETERS

Path = tuple[str, ...]
NEAR_MISS = 0.82
SCHEDULES = ("lin_", "linear_")


@dataclass(frozen=True)
class Reading:
    """The dialect's keys in a config: values and paths by key name, and all other keys."""

    level: Path
    values: dict[str, Any]
    paths: dict[str, Path]
    other_keys: tuple[str, ...]
    notes: tuple[str, ...]
    algorithm_notes: tuple[str, ...] = ()  # which algorithm the config is read as, if no key names it


def lookup(level: Mapping[str, Any], key: Key) -> tuple[Path, Any] | None:
    """Return a key's path below the level and its value; the key may be nested, dotted or bare, or an alias."""
    section, _, leaf = key.name.rpartition(".")
    for name in (leaf, *key.aliases):
        nested = tuple(f"{section}.{name}".strip(".").split("."))
        for path in dict.fromkeys((nested, (f"{section}.{name}".strip("."),), (name,))):
            value = _descend(level, path)
            is_section = isinstance(value, Mapping) and path != nested and key.concept != EXTRA
            if value is not _ABSENT and not is_section:
                return path, value
    return None


def _lookup_path(values: Mapping[str, Any], path: Path, key: Key, dialect: Dialect) -> tuple[Path, Any] | None:
    """Return a key's path in the file and its value; the key of a limit may be in a section beside the level."""
    hit = lookup(_descend(values, path), key)
    if hit is not None:
        return (*path, *hit[0]), hit[1]
    if dialect.stop_section and key.concept in ("num_updates", "total_timesteps"):
        for place in ((*path, dialect.stop_section), (*path[:-1], dialect.stop_section)):
            section = _descend(values, place)
            hit = lookup(section, key) if isinstance(section, Mapping) else None
            if hit is not None:
                return (*place, *hit[0]), hit[1]
    return None


_ABSENT = object()


def _descend(level: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(level, Mapping) or part not in level:
            return _ABSENT
        level = level[part]
    return level


def score(level: Mapping[str, Any], dialect: Dialect) -> int:
    """Return how many of the dialect's shape keys are at this level."""
    return sum(lookup(level, key) is not None for key in dialect.shape_keys)


def levels(values: Mapping[str, Any], path: Path = (), depth: int = 0) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield all mappings of a config, outer ones first."""
    yield path, values
    if depth < 12:
        for name, value in values.items():
            if isinstance(value, Mapping) and isinstance(name, str):
                yield from levels(value, (*path, name), depth + 1)


def matching_levels(values: Mapping[str, Any], dialect: Dialect, inside: Path = ()) -> list[Path]:
    """Return the levels inside a level that contain keys of the dialect."""
    hits = [
        (path, hit)
        for path, level in levels(values)
        if path[: len(inside)] == inside and (hit := score(level, dialect))
        if not (path and path[-1] == dialect.stop_section)
    ]
    planned = [(path, hit) for path, hit in hits if not names_another_algorithm(path, dialect)]
    hits = planned or hits[:1]  # which is refused by its name
    # Prefer an outer level with as many keys, and an inner level with more keys.
    return [
        path
        for path, hit in hits
        if not any(
            (most >= hit if path[: len(other)] == other else most > hit and other[: len(path)] == path)
            for other, most in hits
            if other != path
        )
    ]


def find_level(
    values: Mapping[str, Any],
    dialect: Dialect,
    key: str | None,
    candidates: Mapping[str, Dialect],
    file: str | None = None,
) -> Path:
    """Return the level of the dialect's keys; `key` selects one if there are several."""
    best = matching_levels(values, dialect, () if key is None else _named_level(values, key))
    if not best:
        refuse_other_algorithm(values, dialect, file)
        raise _unknown_config(values, dialect, candidates)
    if len(best) > 1:
        names = [".".join(path) or "(top)" for path in best]
        listing = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
        raise RequestError(
            "level",
            f"{len(best)} levels of the file look like {dialect.name}: {listing}.",
            f"Select one, for example --key {names[0]}.",
            [{"key": name} for name in names[:6]],
        )
    return best[0]


def _named_level(values: Mapping[str, Any], key: str) -> Path:
    known = {".".join(path): path for path, _ in levels(values) if path}
    if key in known:
        return known[key]
    listing = ", ".join(list(known)[:8]) or "none"
    raise RequestError(
        "level", f"The file has no level {short_repr(key)}.", f"{did_you_mean(key, known)}Levels: {listing}."
    )


def _unknown_config(values: Mapping[str, Any], dialect: Dialect, candidates: Mapping[str, Dialect]) -> RequestError:
    best, hits = "", 0
    for name, other in candidates.items():
        most = max(score(level, other) for _, level in levels(values))
        if most > hits:
            best, hits = name, most
    for _, level in levels(values):
        for name in map(_text, level):
            near = near_miss(name, dialect, ())
            if near and hits < 2:
                return _misspelt_key(name, near, dialect)
    for path, level in levels(values):
        if getattr(level, "incomplete", "") and not hits:
            where = ".".join(path) or "The config"
            problem = f"{where} contains none of the keys of {dialect.name}: {level.incomplete}."  # type: ignore[attr-defined]
            return RequestError("incomplete", problem, "Give the file in its source tree, or one that has the sizes.")
    hint = f"It looks like {best}: use --from {best} (or --dialect {best})." if hits else "Give a training config."
    keys = ", ".join(key.name for key in dialect.shape_keys)
    return RequestError("other-dialect", f"The config contains none of the keys of {dialect.name} ({keys}).", hint)


def near_miss(name: str, dialect: Dialect, present: tuple[str, ...]) -> str | None:
    """Return the shape key of which a name is a misspelling, unless the config already contains that key."""
    if name in dialect.other_keys:
        return None
    leaves = {key.leaf: key.name for key in dialect.shape_keys if key.name not in present}
    folded = {leaf.lower().replace("-", "_"): leaf for leaf in leaves}
    if name in leaves:
        return None
    plain = name.lower().replace("-", "_")
    if plain in folded:
        return folded[plain]
    near = closest_name(plain, folded, cutoff=NEAR_MISS)
    return folded[near] if near else None


def _misspelt_key(name: str, near: str, dialect: Dialect) -> RequestError:
    return RequestError(
        "misspelt-key",
        f"{short_repr(name)[1:-1]} is not a key of {dialect.name}.",
        f"Did you mean {near}? Otherwise remove {name}.",
        [{"key": near}],
    )


def read_keys(
    values: Mapping[str, Any],
    dialect: Dialect,
    key: str | None = None,
    candidates: Mapping[str, Dialect] | None = None,
    file: str | None = None,
) -> Reading:
    """Return the dialect's keys in a config; a misspelt shape key is an error with a suggestion.

    A config of another algorithm is an error, too; the name of its `file` may say which one it is.
    """
    path = find_level(values, dialect, key, candidates or {}, file)
    level: Any = values
    for part in path:
        level = level[part]
    found_values: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    notes: list[str] = []
    for entry in dialect.keys:
        hit = _lookup_path(values, path, entry, dialect)
        if hit is not None and hit[0] not in paths.values():  # assign a value to one key only
            found_values[entry.name], note = _to_number(entry, hit[1])
            paths[entry.name] = hit[0]
            notes += [note] if note else []
    used = {*paths.values(), *_reported_paths(values, path, dialect)}
    inside = list(_other_paths(level, (), {key[len(path) :] for key in used if key[: len(path)] == path}))
    algorithm = find_algorithm(values, path, dialect, file)
    algorithm_notes = check_algorithm(algorithm, dialect, tuple(".".join(other) for other in inside))
    for other in inside:
        near = near_miss(other[-1], dialect, tuple(found_values))
        if near:
            raise _misspelt_key(other[-1], near, dialect)
    # With `key`, only other keys of that level count; otherwise those of the whole file.
    other_paths = _other_paths(values, path, used) if key is None else ((*path, *other) for other in inside)
    return Reading(
        path,
        found_values,
        paths,
        tuple(".".join(other) for other in other_paths),
        tuple(notes),
        algorithm_notes,
    )


def _reported_paths(values: Mapping[str, Any], level: Path, dialect: Dialect) -> Iterator[Path]:
    """Yield the paths of keys that are reported elsewhere: those that name the algorithm or switch a behavior."""
    keys = (*dialect.algorithm_keys, *COMMON_KEYS, *(dialect.prefix + switch.key for switch in dialect.switches))
    for depth in range(len(level) + 1):
        for key in keys:
            for path in ((*level[:depth], *key.split(".")), (*level[:depth], key)):
                value = _descend(values, path)
                if value is not _ABSENT and not isinstance(value, Mapping):
                    yield path


def read_switches(values: Mapping[str, Any], path: Path, dialect: Dialect) -> dict[str, bool]:
    """Return the dialect's switches that are in a config, by key."""
    hits = {
        switch.key: lookup(_descend(values, path), Key(dialect.prefix + switch.key, EXTRA))
        for switch in dialect.switches
    }
    return {name: word for name, hit in hits.items() if hit and isinstance(word := from_word(hit[1]), bool)}


def from_word(value: Any) -> Any:
    """Return the bool that a word of YAML 1.1 stands for; any other value unchanged."""
    words = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
    return words.get(value.lower(), value) if isinstance(value, str) else value


def _to_number(entry: Key, value: Any) -> tuple[Any, str]:
    """Convert a value to a number: rl-zoo writes `lin_0.001` for a linear schedule, PyYAML reads `5e-4` as text."""
    if isinstance(value, str) and entry.concept in HYPERPARAMETERS:
        with contextlib.suppress(ValueError):
            return float(value), ""
    if isinstance(value, str):
        for prefix in SCHEDULES:
            if value.startswith(prefix):
                try:
                    note = f"{entry.name}: {value} is a linear schedule; only its initial value is kept"
                    return float(value.removeprefix(prefix)), note
                except ValueError:
                    break
    return value, ""


def _text(name: Any) -> str:
    """Return the name of a key; a config in Python may have keys that are not text."""
    return name if isinstance(name, str) else short_repr(name)


def _other_paths(values: Mapping[str, Any], level: Path, used: set[Path], path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values that belong to no key; a mapping without any such key counts once."""
    for name, value in values.items():
        here = (*path, _text(name))
        if here in used:
            continue
        contains_keys = level[: len(here)] == here or any(path[: len(here)] == here for path in used)
        if isinstance(value, Mapping) and contains_keys:
            yield from _other_paths(value, level, used, here)
        else:
            yield here
