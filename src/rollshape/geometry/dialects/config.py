"""Finding a dialect's keys in a config: at which level they stand, and what else is there."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, Dialect, Key
from rollshape.geometry.dialects.recipe import HYPERPARAMETERS

Path = tuple[str, ...]
NEAR_MISS = 0.82
_SCHEDULES = ("lin_", "linear_")


@dataclass(frozen=True)
class Reading:
    """What a config says in a dialect's keys: values and paths by key name, and everything else."""

    level: Path
    values: dict[str, Any]
    paths: dict[str, Path]
    others: tuple[str, ...]
    notes: tuple[str, ...]


def lookup(level: Mapping[str, Any], key: Key) -> tuple[Path, Any] | None:
    """A key's path below the level and its value: nested in its section, dotted, or bare; by its name or an alias."""
    section, _, leaf = key.name.rpartition(".")
    for name in (leaf, *key.aliases):
        nested = tuple(f"{section}.{name}".strip(".").split("."))
        for path in dict.fromkeys((nested, (f"{section}.{name}".strip("."),), (name,))):
            found = _descend(level, path)
            section_like = isinstance(found, Mapping) and path != nested and key.concept != EXTRA
            if found is not _ABSENT and not section_like:
                return path, found
    return None


_ABSENT = object()


def _descend(level: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(level, Mapping) or part not in level:
            return _ABSENT
        level = level[part]
    return level


def score(level: Mapping[str, Any], dialect: Dialect) -> int:
    """How many of the dialect's shape keys stand at this level."""
    return sum(lookup(level, key) is not None for key in dialect.shape_keys)


def levels(values: Mapping[str, Any], path: Path = (), depth: int = 0) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """All mappings of a config, the outer ones first."""
    yield path, values
    if depth < 12:
        for name, value in values.items():
            if isinstance(value, Mapping):
                yield from levels(value, (*path, str(name)), depth + 1)


def find_level(values: Mapping[str, Any], dialect: Dialect, key: str | None, guesses: Mapping[str, Dialect]) -> Path:
    """Where the dialect's keys stand; `key` names a level to look in where there are several."""
    inside: Path = () if key is None else _named_level(values, key)
    hits = [
        (path, hit)
        for path, level in levels(values)
        if path[: len(inside)] == inside and (hit := score(level, dialect))
    ]
    # A level gives way to one around it that holds as many keys, and to one inside it that holds more.
    best = [
        path
        for path, hit in hits
        if not any(
            (most >= hit if path[: len(other)] == other else most > hit and other[: len(path)] == path)
            for other, most in hits
            if other != path
        )
    ]
    if not best:
        raise _unknown_config(values, dialect, guesses)
    if len(best) > 1:
        names = [".".join(path) or "(top)" for path in best]
        shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
        raise RequestError(
            "level",
            f"{len(best)} levels of the file look like {dialect.name}: {shown}.",
            f"Choose one: --key {names[0]}.",
            [{"key": name} for name in names[:6]],
        )
    return best[0]


def _named_level(values: Mapping[str, Any], key: str) -> Path:
    known = {".".join(path): path for path, _ in levels(values) if path}
    if key in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    shown = ", ".join(list(known)[:8]) or "none"
    raise RequestError("level", f"The file has no level {key!r}.", f"{hint}Levels there: {shown}.")


def _unknown_config(values: Mapping[str, Any], dialect: Dialect, guesses: Mapping[str, Dialect]) -> RequestError:
    best, hits = "", 0
    for name, other in guesses.items():
        most = max(score(level, other) for _, level in levels(values))
        if most > hits:
            best, hits = name, most
    for _, level in levels(values):
        for name in level:
            near = near_miss(str(name), dialect, ())
            if near and hits < 2:
                return _misspelt(str(name), near, dialect)
    hint = f"It looks like {best}: use --from {best} (or --dialect {best})." if hits else "Is it a training config?"
    keys = ", ".join(key.name for key in dialect.shape_keys)
    return RequestError("other-dialect", f"The config holds none of {dialect.name}'s keys ({keys}).", hint)


def near_miss(name: str, dialect: Dialect, present: tuple[str, ...]) -> str | None:
    """The shape key that a name is a misspelling of, unless the config has that key already."""
    if name in dialect.others:
        return None
    leaves = {key.leaf: key.name for key in dialect.shape_keys if key.name not in present}
    folded = {leaf.lower().replace("-", "_"): leaf for leaf in leaves}
    if name in leaves:
        return None
    plain = name.lower().replace("-", "_")
    if plain in folded:
        return folded[plain]
    near = difflib.get_close_matches(plain, folded, n=1, cutoff=NEAR_MISS)
    return folded[near[0]] if near else None


def _misspelt(name: str, near: str, dialect: Dialect) -> RequestError:
    return RequestError(
        "misspelt-key",
        f"{name} is not a key of {dialect.name}; {near} is.",
        f"Write {near}, or remove {name}.",
        [{"key": near}],
    )


def read_keys(
    values: Mapping[str, Any], dialect: Dialect, key: str | None = None, guesses: Mapping[str, Dialect] | None = None
) -> Reading:
    """All of the dialect's keys in a config; a near-miss of a shape key is an error with the suggestion."""
    path = find_level(values, dialect, key, guesses or {})
    level: Any = values
    for part in path:
        level = level[part]
    found: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    notes: list[str] = []
    for entry in dialect.keys:
        hit = lookup(level, entry)
        if hit is not None and (*path, *hit[0]) not in paths.values():  # a value answers to one key only
            found[entry.name], note = _plain(entry, hit[1])
            paths[entry.name] = (*path, *hit[0])
            notes += [note] if note else []
    inside = list(_others(level, (), {used[len(path) :] for used in paths.values()}))
    for other in inside:
        near = near_miss(other[-1], dialect, tuple(found))
        if near:
            raise _misspelt(other[-1], near, dialect)
    # A level that the user picked stands for itself; around one that was found, the rest of the file is lost too.
    others = _others(values, path, set(paths.values())) if key is None else ((*path, *other) for other in inside)
    return Reading(path, found, paths, tuple(".".join(other) for other in others), tuple(notes))


def _plain(entry: Key, value: Any) -> tuple[Any, str]:
    """A value as a number: rl-zoo writes `lin_0.001` for a rate that falls to zero, PyYAML reads `5e-4` as text."""
    if isinstance(value, str) and entry.concept in HYPERPARAMETERS:
        with contextlib.suppress(ValueError):
            return float(value), ""
    if isinstance(value, str):
        for prefix in _SCHEDULES:
            if value.startswith(prefix):
                try:
                    return float(
                        value.removeprefix(prefix)
                    ), f"{entry.name}: {value} is a linear schedule; its start is kept"
                except ValueError:
                    break
    return value, ""


def _others(values: Mapping[str, Any], level: Path, used: set[Path], path: Path = ()) -> Iterator[Path]:
    """Paths of everything that no key claimed; a whole unclaimed mapping counts once."""
    for name, value in values.items():
        here = (*path, str(name))
        if here in used:
            continue
        towards = level[: len(here)] == here or any(taken[: len(here)] == here for taken in used)
        if isinstance(value, Mapping) and towards:
            yield from _others(value, level, used, here)
        else:
            yield here
