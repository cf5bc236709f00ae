"""Rules of thumb as findings: each with an id, its numbers, a fix, its source and a page."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from rollshape.errors import RequestError
from rollshape.geometry.rules import budget, enforced, minibatch, replay, resources, window  # noqa: F401 (they register)
from rollshape.geometry.rules.base import CHECKS, PAGES, Finding, Page, Severity

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

_ORDER: dict[Severity, int] = {"error": 0, "warn": 1, "info": 2}


def findings(plan: Plan, request: Request) -> tuple[Finding, ...]:
    """Every rule's word on the plan, the gravest first."""
    found = [
        Finding(name, seen.severity, seen.message, seen.fix, PAGES[name].source, seen.numbers)
        for name, check in CHECKS.items()
        if (seen := check(plan, request)) is not None
    ]
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))


def explain(name: str) -> Page:
    """The page of a rule."""
    if name in PAGES:
        return PAGES[name]
    near = difflib.get_close_matches(name, PAGES, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise RequestError("choice", f"There is no rule {name!r}.", f"{hint}Rules: {', '.join(sorted(PAGES))}.")


__all__ = ["PAGES", "Finding", "Page", "explain", "findings"]
