"""What a rule is: a function from (plan, request) to an observation, whose docstring is its page."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

Severity = Literal["info", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says about a plan."""

    rule: str
    severity: Severity
    message: str
    fix: str
    source: str
    numbers: dict[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Observation:
    """What a rule's function returns; the rule adds its own id and source."""

    severity: Severity
    message: str
    fix: str
    numbers: dict[str, Any]


Check = Callable[["Plan", "Request"], Observation | None]


@dataclass(frozen=True, slots=True)
class Page:
    """A rule's page: what `rollshape plan --explain RULE` prints."""

    rule: str
    text: str
    source: str


CHECKS: dict[str, Check] = {}
PAGES: dict[str, Page] = {}


def rule(name: str, source: str) -> Callable[[Check], Check]:
    """Register a check; its docstring becomes the page."""

    def register(check: Check) -> Check:
        CHECKS[name] = check
        PAGES[name] = Page(name, inspect.getdoc(check) or "", source)
        return check

    return register


def page(name: str, source: str, text: str) -> None:
    """Register the page of a rule that is enforced by an error, not found afterwards."""
    PAGES[name] = Page(name, inspect.cleandoc(text), source)
