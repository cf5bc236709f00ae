"""The libraries whose logs are known, and which one wrote a log."""

from __future__ import annotations

from collections.abc import Collection

from rollshape.errors import RequestError
from rollshape.geometry.dialects.registry import ISAACLAB, canonical, resolve
from rollshape.integrations.logs.cleanrl_tags import CleanrlLog
from rollshape.integrations.logs.library import LibraryLog
from rollshape.integrations.logs.rl_games_tags import RlGamesLog
from rollshape.integrations.logs.rsl_rl_tags import RslRlLog
from rollshape.integrations.logs.sb3_tags import Sb3Log
from rollshape.integrations.logs.skrl_tags import SkrlLog

LIBRARIES: tuple[LibraryLog, ...] = (Sb3Log(), CleanrlLog(), RlGamesLog(), RslRlLog(), SkrlLog())
OUR_PREFIX = "rollshape/"  # of tags in the event files that `rollshape train` writes


def known_dialects() -> list[str]:
    """Return the dialects whose logs can be imported."""
    return [name for library in LIBRARIES for name in library.dialects]


def recognize(tags: Collection[str], dialect: str | None, where: str) -> LibraryLog:
    """Return the library that wrote these tags; a RequestError if none did, or not the one that was given."""
    if any(tag.startswith(OUR_PREFIX) for tag in tags):
        raise RequestError(
            "log-library", f"{where} is the TensorBoard log of a run of Rollshape.", "Give its run directory instead."
        )
    _refuse_other_algorithms(tags, where)
    matches = [library for library in LIBRARIES if library.is_recognized(tags)]
    wanted = None if dialect is None else of_dialect(dialect)
    if wanted is not None:
        if wanted not in matches and matches:
            raise RequestError(
                "log-library",
                f"{where} has tags of {matches[0].name} ({_examples(matches[0], tags)}), not of {wanted.name}.",
                f"Use --dialect {matches[0].name}, or leave it out.",
            )
        if not any(wanted.lookup(tag) for tag in tags):
            raise RequestError("log-library", f"{where} has no tag of {wanted.name}: {_list(tags)}.", _EXPECTED)
        return wanted
    matches = matches if dialect is None or canonical(dialect) != ISAACLAB else matches[:1]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise RequestError("log-library", f"No known library writes the tags of {where}: {_list(tags)}.", _EXPECTED)
    names = " and ".join(library.name for library in matches)
    raise RequestError("log-library", f"{where} has tags of {names}.", "Say which one it is with --dialect.")


_EXPECTED = "Give a log of SB3, CleanRL, rl_games, RSL-RL or skrl; docs/metrics.md lists their tags."


def _refuse_other_algorithms(tags: Collection[str], where: str) -> None:
    """Raise a RequestError for the log of an algorithm that has no rollouts, such as SAC."""
    for library in LIBRARIES:
        foreign = [tag for tag in library.foreign if tag in tags]
        if foreign:
            raise RequestError(
                "log-library",
                f"{where} is a log of {library.name}, but not of PPO or A2C: it has {foreign[0]}.",
                "Only logs of algorithms that learn from rollouts can be imported.",
            )


def of_dialect(dialect: str) -> LibraryLog | None:
    """Return the library of a dialect; None for plain `isaaclab`, whose library the tags show."""
    name = canonical(dialect)
    if name == ISAACLAB:
        return None
    name = resolve(name, None).name
    for library in LIBRARIES:
        if name in library.dialects:
            return library
    raise RequestError(
        "log-library", f"Logs of {name} are not known.", f"Dialects with known logs: {', '.join(known_dialects())}."
    )


def _examples(library: LibraryLog, tags: Collection[str]) -> str:
    return ", ".join(mark for mark in library.marks if mark in tags)


def _list(tags: Collection[str]) -> str:
    first = [tag[:60] for tag in sorted(tags)[:6]]
    return ", ".join(first) + (" …" if len(tags) > 6 else "") if first else "it has none"
