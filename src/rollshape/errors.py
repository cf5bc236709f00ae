"""The one exception that a user can cause."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class RequestError(ValueError):
    """The request is wrong: the rule it broke, the numbers, and what would be right (exit code 2)."""

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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean CartPole-v1? ` where a known name is near; the start of a fix."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]}? " if near else ""
