"""What a check of a bad run is, and the scale of evidence that all of them share.

A check measures a number and has two thresholds, notable and severe. The evidence is the position of the measured
number between them on a logarithmic scale: below 0 the suspect is cleared, from 0 on it is suspected, 1 is severe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rollshape.geometry.rules import Finding
from rollshape.geometry.rules.base import Severity
from rollshape.studies.records import RunRecord

MAX_EVIDENCE = 3.0


@dataclass(frozen=True)
class Suspect:
    """A possible cause: how strong the evidence is, what was measured against which threshold, and what to try."""

    evidence: float
    message: str
    fix: str
    numbers: dict[str, Any]


Check = Callable[[RunRecord, Sequence[RunRecord]], Suspect | None]
CHECKS: dict[str, tuple[Check, str]] = {}  # rule → (check, source)


def check(rule: str, source: str) -> Callable[[Check], Check]:
    """Register a check of (run, other runs of its task); it returns None where nothing can be measured."""

    def register(measure: Check) -> Check:
        CHECKS[rule] = (measure, source)
        return measure

    return register


def rank_suspects(run: RunRecord, others: Sequence[RunRecord]) -> tuple[list[Finding], list[Finding]]:
    """Return (suspects, strongest evidence first; cleared suspects). `others` are runs of the same task."""
    suspects: list[tuple[float, Finding]] = []
    for rule, (measure, source) in CHECKS.items():
        suspect = measure(run, others)
        if suspect is not None:
            suspects.append((suspect.evidence, _finding(rule, suspect, source)))
    suspects.sort(key=lambda pair: -pair[0])
    return (
        [finding for strength, finding in suspects if strength >= 0],
        [finding for strength, finding in suspects if strength < 0],
    )


def _finding(rule: str, suspect: Suspect, source: str) -> Finding:
    numbers = suspect.numbers | {"evidence": round(suspect.evidence, 3)}
    severity: Severity = "warn" if suspect.evidence >= 0 else "info"
    return Finding(rule, severity, suspect.message, suspect.fix, source, numbers)


def evidence(measured: float, notable: float, severe: float) -> float:
    """Return ln(measured/notable) / ln(severe/notable) within ±3; severe may be on either side of notable."""
    position = math.log(max(measured, 1e-12) / notable) / math.log(severe / notable)
    return min(MAX_EVIDENCE, max(-MAX_EVIDENCE, position))
