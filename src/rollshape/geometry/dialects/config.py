"""Finding a dialect's keys in a config: at which level they stand, and what else is there."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import EXTRA, Dialect, Key

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
    """A key's path below the level and its value: nested in its section, dotted, or bare."""
    *sections, leaf = key.name.split(".")
    node: Any = level
    for section in sections:
        node = node.get(section) if isinstance(node, Mapping) else None
    if isinstance(node, Mapping) and leaf in node:
        return (*sections, leaf), node[leaf]
    for name in (key.name, leaf, *key.aliases):
        if name in level and (key.concept == EXTRA or not isinstance(level[name], Mapping)):
            return (name,), level[name]
    return None


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
    """Where the dialect's keys stand; `key` names the level where there are several."""
    if key is not None:
        return _named_level(values, key)
    scored = [(path, score(level, dialect)) for path, level in levels(values)]
    hits = [(path, hit) for path, hit in scored if hit]
    outer = [
        (path, hit)
        for path, hit in hits
        if not any(path[: len(other)] == other and path != other and hit <= most for other, most in hits)
    ]
    outer = [
        (path, hit)
        for path, hit in outer
        if not any(other[: len(path)] == path and path != other and most > hit for other, most in outer)
    ]
    if not outer:
        raise _unknown_config(values, dialect, guesses)
    if len(outer) > 1:
        names = [".".join(path) or "(top)" for path, _ in outer]
        shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
        raise RequestError(
            "level",
            f"{len(outer)} levels of the file look like {dialect.name}: {shown}.",
            f"Choose one: --key {names[0]}.",
            [{"key": name} for name in names[:6]],
        )
    return outer[0][0]


def _named_level(values: Mapping[str, Any], key: str) -> Path:
    if isinstance(values.get(key), Mapping):  # a name that itself holds dots, such as an environment's
        return (key,)
    path, node = tuple(key.split(".")), values
    for i, part in enumerate(path):
        if not isinstance(node.get(part), Mapping):
            known = [str(name) for name, value in node.items() if isinstance(value, Mapping)]
            near = difflib.get_close_matches(part, known, n=1)
            hint = f"Did you mean {'.'.join([*path[:i], near[0]])}? " if near else ""
            shown = ", ".join(known[:8]) or "none"
            raise RequestError("level", f"The file has no level {key!r}.", f"{hint}Levels there: {shown}.")
        node = node[part]
    return path


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
        if hit is not None and entry.name not in found:
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
    """A value without its schedule: rl-zoo writes `lin_0.001` for a rate that falls to zero."""
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
