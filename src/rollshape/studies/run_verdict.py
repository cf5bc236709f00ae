"""Classify a run's learning curve: learned, still rising, plateaued, never learned, collapsed or diverged.

Scores y₀ … yₙ₋₁ are returns on fresh episodes where these were measured, else training returns. Their noise is
σ² = Σ (yᵢ₊₁ − yᵢ)² / 2(n−1), which a trend can only overestimate. With w = n/5 (at least 2), the end is the mean of
the last w scores, the best is the highest mean of w consecutive scores. A difference counts from three standard errors
on; a difference to the best from four, because the best is the maximum of many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rollshape.studies.metrics import MetricsRow
from rollshape.studies.statistics import Floats

VerdictName = Literal[
    "learned", "still rising", "plateaued", "never learned", "collapsed", "diverged", "too short to judge"
]
MIN_SCORES = 5
MIN_ERRORS, MIN_ERRORS_BEST = 3.0, 4.0  # standard errors from which a difference counts
TREND_Z = 2.326  # one-sided 1 % of the normal distribution
MIN_GAIN = 0.1  # share of the whole rise that the second half must add to be still rising
CLOSE_TO_BEST = 0.9  # share of the rise to the best of comparable runs that counts as learned
HALFWAY = 0.5  # of the way to the target: a best run that did not get there is no reference


@dataclass(frozen=True)
class RunVerdict:
    """How a run's learning curve ended, and the test and numbers behind it."""

    name: VerdictName
    reason: str
    numbers: dict[str, float | None]

    @property
    def is_bad(self) -> bool:
        return self.name != "learned"

    def to_dict(self) -> dict[str, Any]:
        return {"verdict": self.name, "reason": self.reason, "numbers": self.numbers}


def read_scores(rows: Sequence[MetricsRow]) -> Floats:
    """Return the scores of a run: returns on fresh episodes if there are enough, else training returns."""
    fresh = [value for row in rows if (value := row.metric("eval_return")) is not None]
    if len(fresh) >= MIN_SCORES:
        return np.array(fresh, np.float64)
    return np.array([value for row in rows if (value := row.metric("episodic_return")) is not None], np.float64)


def end_score(rows: Sequence[MetricsRow]) -> float | None:
    """Return the mean of the last fifth of the scores."""
    y = read_scores(rows)
    return float(y[-_window(y) :].mean()) if y.size else None


def _window(y: Floats) -> int:
    return min(y.size, max(2, y.size // 5))


def classify_run(
    rows: Sequence[MetricsRow], status: str, target: float | None = None, best_other: float | None = None
) -> RunVerdict:
    """Classify a run. `target`: the return that counts as solved; `best_other`: the best end of comparable runs."""
    if status == "diverged":
        return RunVerdict("diverged", "a loss or parameter was not finite", {})
    y = read_scores(rows)
    if y.size < MIN_SCORES:
        return RunVerdict("too short to judge", f"{y.size} scores; at least {MIN_SCORES} are needed", {})
    w = _window(y)
    means = np.convolve(y, np.ones(w) / w, "valid")
    start, end, best = float(y[0]), float(means[-1]), float(means.max())
    noise = float(np.sqrt((np.diff(y) ** 2).sum() / (2 * (y.size - 1))))
    start_error, mean_error = noise * math.sqrt(1 + 1 / w), noise * math.sqrt(2 / w)
    numbers: dict[str, float | None] = {"start": start, "end": end, "best": best, "noise": noise, "target": target}
    trend, gain = _trend(y[y.size // 2 :])
    numbers |= {"trend_z": trend, "gain": gain}
    summary = f"return from {start:.4g} to {end:.4g}, noise {noise:.2g}"
    if target is not None and end >= target:
        return RunVerdict("learned", f"{summary}; {target:.4g} counts as solved", numbers)
    if best - end > max(MIN_ERRORS * mean_error, (best - start) / 2) and best - start > MIN_ERRORS_BEST * start_error:
        return RunVerdict("collapsed", f"{summary}, after a peak of {best:.4g}: lost more than half its rise", numbers)
    if end - start <= MIN_ERRORS * start_error and best - start <= MIN_ERRORS_BEST * start_error:
        return RunVerdict("never learned", f"{summary}: a rise of less than {MIN_ERRORS:g} standard errors", numbers)
    if trend > TREND_Z and gain > MIN_GAIN * (end - start):
        return RunVerdict(
            "still rising",
            f"{summary}; rose by {gain:.3g} in the second half (Mann–Kendall z = {trend:.1f}, above {TREND_Z:g})",
            numbers,
        )
    reference = start if target is None else start + HALFWAY * (target - start)
    if best_other is not None and best_other > reference and end >= start + CLOSE_TO_BEST * (best_other - start):
        return RunVerdict(
            "learned", f"{summary}, flat at the end, within 10 % of the best run's {best_other:.4g}", numbers
        )
    comparison = "" if best_other is None else f"; the best run ends at {best_other:.4g}"
    return RunVerdict("plateaued", f"{summary}, flat at the end (Mann–Kendall z = {trend:.1f}){comparison}", numbers)


def _trend(y: Floats) -> tuple[float, float]:
    """Return (Mann–Kendall z, rise along the Theil–Sen slope) of equally spaced scores."""
    n = y.size
    i, j = np.triu_indices(n, 1)
    statistic = np.sign(y[j] - y[i]).sum()
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    slope = float(np.median((y[j] - y[i]) / (j - i))) if n > 1 else 0.0
    return float((statistic - np.sign(statistic)) / deviation) if deviation else 0.0, slope * (n - 1)
