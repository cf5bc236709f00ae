"""Errors shown to users: a rule id (each has a page), a message with the numbers, and a fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST_MESSAGE = 1000


class RollshapeError(Exception):
    """Base class of the errors that the command line prints as one message, without a traceback."""

    def __init__(
        self,
        rule: str,
        message: str,
        fix: str = "",
        alternatives: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        message = _one_line(message)
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.fix = fix
        self.alternatives = [dict(alternative) for alternative in alternatives]

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.fix}" if self.fix else self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-ready values."""
        return {
            "rule": self.rule,
            "message": self.message,
            "fix": self.fix,
            "alternatives": self.alternatives,
        }


def _one_line(message: str) -> str:
    """Return the message on one line of limited length: it may contain a name of the user's, of any length."""
    line = " ".join(message.splitlines())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 200]} … {line[-180:]}"


class RequestError(RollshapeError, ValueError):
    """The request is invalid: which rule it violates, the numbers, and valid alternatives (exit code 2)."""


class RunError(RollshapeError, RuntimeError):
    """A valid request failed while it was executed, for example because the disk is full (exit code 1)."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean CartPole-v1? ` if a known name is similar, else an empty string; prefix it to a fix.

    A known name is not the problem, and no other name is suggested for it.
    """
    near = closest_name(name, known)
    return f"Did you mean {near}? " if near and near != name else ""


def closest_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name most similar to `name`, or None if none reaches the similarity `cutoff`."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)
