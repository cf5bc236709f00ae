"""Rules of thumb: each finding has the id of its rule, the numbers, a fix and a source; each rule has a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rollshape.errors import RequestError, did_you_mean
from rollshape.geometry.rules import (  # noqa: F401 (they register)
    budget,
    completions,
    enforced_files,
    enforced_runs,
    enforced_sizes,
    minibatch,
    replay,
    resources,
    sharing,
    window,
)
from rollshape.geometry.rules.base import CHECKS, PAGES, Finding, Page, Severity

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request

_ORDER: dict[Severity, int] = {"error": 0, "warn": 1, "info": 2}


def check_rules(plan: Plan, request: Request) -> tuple[Finding, ...]:
    """Return the findings of all rules, sorted by severity."""
    findings = [
        Finding(name, result.severity, result.message, result.fix, PAGES[name].source, result.numbers)
        for name, check in CHECKS.items()
        if (result := check(plan, request)) is not None
    ]
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))


def explain(name: str) -> Page:
    """Return the page of a rule."""
    if name in PAGES:
        return PAGES[name]
    raise RequestError(
        "choice", f"Unknown rule {name!r}.", f"{did_you_mean(name, PAGES)}Rules: {', '.join(sorted(PAGES))}."
    )


def explain_document(name: str) -> dict[str, Any]:
    """Return the page of a rule and what was measured about the claims behind it, as JSON-ready values."""
    from rollshape.geometry.rules.claims import claims_about  # reads a file

    page = explain(name)
    claims = [claim.to_dict() for claim in claims_about(name)]
    return {"rule": page.rule, "source": page.source, "text": page.text, "claims": claims}


__all__ = ["PAGES", "Finding", "Page", "check_rules", "explain", "explain_document"]
