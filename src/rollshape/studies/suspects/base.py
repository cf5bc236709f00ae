"""What a check of a run is, and the scale of evidence that all of them share.

A check measures a number and has two thresholds, notable and severe. The evidence is the position of the measured
number between them on a logarithmic scale: below 0 the suspect is cleared, from 0 on it is suspected, 1 is severe. A
check whose columns or settings the log does not have is neither: it is not measurable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rollshape.geometry.rules import Finding
from rollshape.geometry.rules.base import Severity
from rollshape.studies.records import RunRecord
from rollshape.studies.remedies import Remedy, render_remedy

MAX_EVIDENCE = 3.0


@dataclass(frozen=True)
class Suspect:
    """A possible cause: how strong the evidence is, what was measured against which threshold, and what to change."""

    evidence: float
    message: str
    remedy: Remedy
    numbers: dict[str, Any]


@dataclass(frozen=True)
class Missing:
    """Columns or settings that a check needs and that the log does not have."""

    needs: tuple[str, ...]


@dataclass(frozen=True)
class UnmeasuredSuspect:
    """A suspect that can neither be confirmed nor cleared."""

    rule: str
    needs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"rule": self.rule, "needs": list(self.needs)}


class Examination(NamedTuple):
    """Suspects (strongest evidence first), cleared suspects, and those that the log cannot tell about."""

    suspects: list[Finding]
    cleared: list[Finding]
    not_measurable: list[UnmeasuredSuspect]


Check = Callable[[RunRecord, Sequence[RunRecord]], Suspect | Missing | None]


@dataclass(frozen=True)
class CheckEntry:
    """A registered check: its function, its source, and the suspects of which it is a consequence."""

    measure: Check
    source: str
    follows: Mapping[str, float] = field(default_factory=dict)


CHECKS: dict[str, CheckEntry] = {}  # by rule


def check(rule: str, source: str, follows: Mapping[str, float] | None = None) -> Callable[[Check], Check]:
    """Register a check of (run, other runs of its task); it returns None where it does not apply.

    `follows` are causes that have the same symptom: their evidence, times the given weight, is subtracted.
    """

    def register(measure: Check) -> Check:
        CHECKS[rule] = CheckEntry(measure, source, follows or {})
        return measure

    return register


def examine(run: RunRecord, others: Sequence[RunRecord]) -> Examination:
    """Return what is suspected of a run; `others` are runs of the same task."""
    measured: dict[str, Suspect] = {}
    unknown: list[UnmeasuredSuspect] = []
    for rule, entry in CHECKS.items():
        result = entry.measure(run, others)
        if isinstance(result, Missing):
            unknown.append(UnmeasuredSuspect(rule, result.needs))
        elif result is not None:
            measured[rule] = result
    strengths = {rule: _strength(rule, measured) for rule in measured}
    ranked = sorted(measured, key=lambda rule: -strengths[rule])
    findings = [_finding(run, rule, measured[rule], strengths[rule]) for rule in ranked]
    return Examination(
        [finding for finding in findings if finding.severity == "warn"],
        [finding for finding in findings if finding.severity == "info"],
        unknown,
    )


def _strength(rule: str, measured: Mapping[str, Suspect]) -> float:
    """Return a suspect's evidence, less that of the causes which it follows from."""
    causes = [weight * measured[cause].evidence for cause, weight in CHECKS[rule].follows.items() if cause in measured]
    return max(-MAX_EVIDENCE, measured[rule].evidence - max(0.0, *causes, 0.0))


def _finding(run: RunRecord, rule: str, suspect: Suspect, strength: float) -> Finding:
    fix, changes = render_remedy(run, suspect.remedy)
    numbers = suspect.numbers | {"evidence": round(strength, 3), "changes": changes}
    severity: Severity = "warn" if strength >= 0 else "info"
    return Finding(rule, severity, suspect.message, fix, CHECKS[rule].source, numbers)


def evidence(measured: float, notable: float, severe: float) -> float:
    """Return ln(measured/notable) / ln(severe/notable) within ±3; severe may be on either side of notable."""
    position = math.log(max(measured, 1e-12) / notable) / math.log(severe / notable)
    return min(MAX_EVIDENCE, max(-MAX_EVIDENCE, position))


def missing(run: RunRecord, *columns: str, settings: Sequence[str] = ()) -> Missing | None:
    """Return which of the columns and settings that a check needs the log does not have, None if it has all."""
    absent = [name for name in columns if not any(row.values.get(name) is not None for row in run.rows)]
    absent += [name for name in settings if not run.knows(name)]
    return Missing(tuple(absent)) if absent else None
