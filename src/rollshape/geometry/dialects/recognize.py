"""Recognizing the library of a config by its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rollshape.errors import RequestError
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.config import levels, lookup
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.registry import ALL_DIALECTS, resolve
from rollshape.geometry.dialects.rrd import RrdDialect

_ASSUMED_ENVS = 8  # only to find out whether a config without a number of environments is readable
MOST_CANDIDATES = 8
CLOSE = 0.75  # share of the most keys, from which on a dialect is about as likely


class RecognizedDialect(NamedTuple):
    """A dialect that a config may be written in: how many of its keys the config has, of how many."""

    dialect: str
    library: str
    keys: int
    is_readable: bool
    needs_num_envs: bool  # the config has no number of environments


def recognize(values: Mapping[str, Any], *, key: str | None = None, file: str | None = None) -> list[RecognizedDialect]:
    """Return the dialects that a config may be written in, the most likely one first; empty if there is none."""
    if not isinstance(values, Mapping):
        return []
    ranked = []
    for dialect in (*ALL_DIALECTS.values(), RrdDialect()):
        hits, share = _count_keys(values, dialect)
        if hits:
            ranked.append((hits, share, dialect))
    ranked.sort(key=lambda entry: (-entry[0], -entry[1]))
    candidates = [_candidate(values, dialect, hits, key, file) for hits, _, dialect in ranked[:MOST_CANDIDATES]]
    names = {candidate.dialect: candidate for candidate in reversed(candidates)}
    unique = [candidate for candidate in candidates if names[candidate.dialect] is candidate]
    # Of those with about as many keys, a readable one comes first; a config that is far from one is not read as it.
    return sorted(unique, key=lambda entry: (entry.keys < CLOSE * unique[0].keys, not entry.is_readable))


def _count_keys(values: Mapping[str, Any], dialect: Dialect) -> tuple[int, float]:
    """Return how many keys of a dialect a level of the config has, and which share of the dialect's keys that is."""
    shape = max((_hits(level, dialect.shape_keys) for _, level in levels(values)), default=0)
    if not shape:
        return 0, 0.0
    hits = max(_hits(level, dialect.keys) for _, level in levels(values))
    return hits, hits / len(dialect.keys)


def _hits(level: Mapping[str, Any], keys: Any) -> int:
    return sum(lookup(level, key) is not None for key in keys)


def _candidate(
    values: Mapping[str, Any], dialect: Dialect, hits: int, key: str | None, file: str | None
) -> RecognizedDialect:
    if isinstance(dialect, RrdDialect):
        return RecognizedDialect(dialect.name, dialect.library, hits, is_readable=True, needs_num_envs=False)
    for num_envs in (None, _ASSUMED_ENVS):
        try:
            library = resolve(dialect.name, values, key=key, file=file)
            predict(library, read(values, library, key=key, file=file, num_envs=num_envs).recipe)
        except RequestError as error:
            if error.rule == "level":  # several environments in one file: which one is a question of its own
                return RecognizedDialect(library.name, library.library, hits, is_readable=True, needs_num_envs=False)
            continue
        return RecognizedDialect(
            library.name, library.library, hits, is_readable=True, needs_num_envs=num_envs is not None
        )
    return RecognizedDialect(dialect.name, dialect.library, hits, is_readable=False, needs_num_envs=False)
