"""Rules: a rule is a function of (plan, request) that may return a result; its docstring is its page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

Severity = Literal["info", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that applies to a plan, with the numbers and a fix."""

    rule: str
    severity: Severity
    message: str
    fix: str
    source: str
    numbers: dict[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_dict` wrote."""
        return cls(**{name: document[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The return value of a rule's function; id and source of the rule are added later."""

    severity: Severity
    message: str
    fix: str
    numbers: dict[str, Any]


Check = Callable[["Plan", "Request"], RuleResult | None]


@dataclass(frozen=True, slots=True)
class Page:
    """The documentation of a rule, as `rollshape plan --explain RULE` prints it."""

    rule: str
    text: str
    source: str


CHECKS: dict[str, Check] = {}
PAGES: dict[str, Page] = {}


def rule(name: str, source: str) -> Callable[[Check], Check]:
    """Register the function of a rule; its docstring becomes the page."""

    def register(check: Check) -> Check:
        CHECKS[name] = check
        PAGES[name] = Page(name, inspect.getdoc(check) or "", source)
        return check

    return register


def page(name: str, source: str, text: str) -> None:
    """Register the page of a rule that is enforced by an error."""
    PAGES[name] = Page(name, inspect.cleandoc(text), source)
