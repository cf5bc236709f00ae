"""Classify a run's learning curve: learned, still rising, plateaued, never learned, collapsed or diverged.

Scores are returns on fresh episodes where these were measured, else training returns; `levels` says what is compared.
docs/diagnosis.md explains each test and how often people agree with the verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rollshape.studies.learning_scores import read_learning_scores
from rollshape.studies.levels import TREND_Z, Levels, measure_levels, window
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.statistics import Floats

VerdictName = Literal[
    "learned", "still rising", "plateaued", "never learned", "collapsed", "diverged", "too short to judge"
]
MIN_SCORES = 5
MIN_ERRORS, MIN_ERRORS_BEST = 3.0, 4.0  # standard errors from which a rise counts; the best is the maximum of many
MIN_RISE, MIN_FLAT_RISE = 0.05, 0.1  # share of the way to the target below which a rise is negligible; if it has ended
LOST = 0.5  # share of the rise that a collapsed run has lost
NEAR_TARGET = 0.95  # share of the way to the target from which on the interval of the end may contain it
CLEAR_GAIN, MIN_GAIN = 0.25, 0.1  # share of the rise that the second half adds; the latter only if it is significant
MIN_LATE_GAIN = 0.04  # share of the rise that the last third adds
CLOSE_TO_BEST = 0.9  # share of the rise to the best of comparable runs that counts as learned
CLOSE_TO_REFERENCE = 0.9  # share of the way to the target or a better run from which on a plateau is no failure
NEARLY_SOLVED = 0.8  # of the way to the target: a best run that did not get there is no reference


@dataclass(frozen=True)
class RunVerdict:
    """How a run's learning curve ended, and the test and numbers behind it."""

    name: VerdictName
    reason: str
    numbers: dict[str, float | None]

    @property
    def is_bad(self) -> bool:
        """Whether the run failed: a plateau is a failure only clearly below a target or a better run."""
        if self.name == "plateaued":
            return self.numbers.get("reference") is not None
        return self.name in ("never learned", "collapsed", "diverged")

    def to_dict(self) -> dict[str, Any]:
        return {"verdict": self.name, "reason": self.reason, "numbers": self.numbers, "bad": self.is_bad}


def read_scores(rows: Sequence[MetricsRow]) -> Floats:
    """Return the scores of a run: returns on fresh episodes if there are enough, else training returns."""
    return read_learning_scores(rows, MIN_SCORES).values


def end_score(rows: Sequence[MetricsRow]) -> float | None:
    """Return the median of the last tenth of the scores (at least 3)."""
    y = read_scores(rows)
    return float(np.median(y[-window(y.size) :])) if y.size else None


def classify_run(
    rows: Sequence[MetricsRow],
    status: str,
    target: float | None = None,
    best_other: float | None = None,
    untrained: float | None = None,
) -> RunVerdict:
    """Classify a run.

    Args:
        rows: its metrics.
        status: how it ended; "diverged" is a verdict.
        target: the return that counts as solved.
        best_other: the best end of comparable runs.
        untrained: score of the untrained policy; by default that of a row of update 0, if there is one.
    """
    if status == "diverged":
        return RunVerdict("diverged", "a loss or parameter was not finite", {})
    scores = read_learning_scores(rows, MIN_SCORES)
    if scores.values.size < MIN_SCORES:
        return RunVerdict("too short to judge", f"{scores.values.size} scores; at least {MIN_SCORES} are needed", {})
    levels = measure_levels(scores, untrained)
    numbers: dict[str, float | None] = {
        "start": levels.start, "end": levels.end, "best": levels.best, "noise": levels.noise, "target": target,
        "trend_z": levels.half.z, "gain": levels.half.gain, "reference": None,
    }  # fmt: skip
    name, reason = _classify(levels, target, best_other)
    if name == "plateaued":
        references = [value for value in (target, best_other) if value is not None]
        numbers["reference"] = max((value for value in references if _is_clearly_below(levels, value)), default=None)
    return RunVerdict(name, f"return from {levels.start:.4g} to {levels.end:.4g}{reason}", numbers)


def _classify(levels: Levels, target: float | None, best_other: float | None) -> tuple[VerdictName, str]:
    """Return the verdict and the end of the sentence that gives its reason."""
    if target is not None and _is_at(levels, target):
        return "learned", f"; {target:.4g} counts as solved"
    has_risen = (
        levels.is_above_start(levels.end, MIN_ERRORS)
        or levels.is_above_start(levels.best, MIN_ERRORS_BEST)
        or (levels.whole.z > TREND_Z and levels.whole.gain > MIN_ERRORS * levels.scatter)
    )
    goal = max((value for value in (target, best_other) if value is not None), default=None)
    if not has_risen:
        return "never learned", f": no rise above the noise ({levels.noise:.2g})"
    is_rising = _is_rising(levels)
    needed = MIN_RISE if is_rising else MIN_FLAT_RISE
    if goal is not None and levels.best - levels.start < needed * (goal - levels.start):
        return "never learned", f": less than {needed:.0%} of the way to {goal:.4g}"
    lost = levels.best - levels.end
    if lost > max(MIN_ERRORS * math.sqrt(2) * levels.level_error, LOST * (levels.best - levels.start)):
        return "collapsed", f", after a peak of {levels.best:.4g}: lost more than half of its rise"
    if is_rising:
        return "still rising", f"; rose by {levels.half.gain:.3g} in the second half"
    reference = levels.start if target is None else levels.start + NEARLY_SOLVED * (target - levels.start)
    if (
        best_other is not None
        and best_other > reference
        and levels.end >= levels.start + CLOSE_TO_BEST * (best_other - levels.start)
    ):
        return "learned", f", flat at the end, within 10 % of the best run's {best_other:.4g}"
    if target is not None:
        return "plateaued", f", flat at the end; {target:.4g} counts as solved"
    if best_other is not None:
        return "plateaued", f", flat at the end; the best run ends at {best_other:.4g}"
    return "plateaued", ", flat at the end; without a target or other runs, it is unknown how good that is"


def _is_at(levels: Levels, target: float) -> bool:
    """Return whether the end is at the target, or so close that its 95 % interval contains it."""
    is_near = levels.end >= levels.start + NEAR_TARGET * (target - levels.start)
    return levels.end >= target or (is_near and levels.end + 1.96 * levels.level_error >= target)


def _is_clearly_below(levels: Levels, reference: float) -> bool:
    """Return whether even the upper end of the end's 95 % interval is less than 90 % of the way to a reference."""
    return levels.end + 1.96 * levels.level_error < levels.start + CLOSE_TO_REFERENCE * (reference - levels.start)


def _is_rising(levels: Levels) -> bool:
    """Return whether the second half adds to the rise, and the last third still does."""
    half, third, rise = levels.half, levels.third, max(levels.rise, levels.best - levels.start)
    is_clear = half.gain > CLEAR_GAIN * rise or (half.gain > MIN_GAIN * rise and half.is_significant)
    return is_clear and third.gain > MIN_LATE_GAIN * rise
