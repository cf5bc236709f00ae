"""What a user is told: a rule that has a page, what happened with its numbers, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class ToldError(Exception):
    """A message for a person, never a traceback; one of the two below."""

    def __init__(
        self,
        rule: str,
        message: str,
        fix: str = "",
        alternatives: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.fix = fix
        self.alternatives = [dict(alternative) for alternative in alternatives]

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.fix}" if self.fix else self.message

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "message": self.message,
            "fix": self.fix,
            "alternatives": self.alternatives,
        }


class RequestError(ToldError, ValueError):
    """The request is wrong: the rule it broke, the numbers, and what would be right (exit code 2)."""


class RunError(ToldError, RuntimeError):
    """The request was right and it failed all the same, such as on a full disk (exit code 1)."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean CartPole-v1? ` where a known name is near; the start of a fix."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]}? " if near else ""
