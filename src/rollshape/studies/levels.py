"""Levels of a learning curve: start, end and best, the noise around its trend, and the gains of its end.

Levels are medians of k = n/10 (at least 3) consecutive scores, so one lucky or unlucky score is no level. The start is
the untrained policy's score if it is known, else the first score (or the first median, if that is lower).

The noise σ of a score is what remains when the climb is removed: the smaller of 1.48·median|yᵢ₋₁ − 2yᵢ + yᵢ₊₁| / √6 and
the scatter around the closest curve that rises and then falls. It is at least the standard error of the scores over
their episodes, where the log gives it. A level has a standard error of 1.25·σ/√k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rollshape.studies.learning_scores import Scores
from rollshape.studies.statistics import Floats

TREND_Z = 2.2  # one-sided 1.4 % of the normal distribution; five scores that rise one after the other have it
CAUTION = 3.0
ENOUGH_FOR_SCATTER = 8  # scores; fewer may rise and fall by chance, which leaves no scatter


@dataclass(frozen=True)
class Trend:
    """The end of a curve: its rise along the Theil–Sen slope, how many standard errors that is, Mann–Kendall's z."""

    gain: float
    errors: float
    z: float

    @property
    def is_significant(self) -> bool:
        return self.errors > TREND_Z or self.z > TREND_Z


@dataclass(frozen=True)
class Levels:
    """What the tests compare: levels of a curve, their standard errors and the gains of its end."""

    start: float
    end: float
    best: float
    noise: float
    start_error: float
    level_error: float
    caution: float  # factor on the errors that a rise must exceed, because few scores give their noise badly
    scatter: float
    whole: Trend
    half: Trend
    third: Trend

    @property
    def rise(self) -> float:
        return self.end - self.start

    def is_above_start(self, level: float, errors: float) -> bool:
        """Return whether a level exceeds the start by so many standard errors."""
        return level - self.start > errors * self.caution * math.hypot(self.start_error, self.level_error)


def window(n: int) -> int:
    """Return how many of n scores make up a level."""
    return max(3, n // 10)


def measure_levels(scores: Scores, untrained: float | None = None) -> Levels:
    """Measure the levels of a curve of at least 5 scores."""
    y, k = scores.values, window(scores.values.size)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(y, k), axis=1)
    known = scores.untrained if untrained is None else untrained
    scatter = _scatter(y)
    noise = _noise(y, scores.error, scatter)
    unknown_error = noise if known is None else 0.0
    n = y.size
    return Levels(
        start=float(min(y[0], medians[0])) if known is None else known,
        end=float(medians[-1]),
        best=float(medians.max()),
        noise=noise,
        start_error=unknown_error if scores.first_error is None else scores.first_error,
        level_error=1.25 * noise / math.sqrt(k),
        caution=1 + CAUTION / (n - 3),
        scatter=max(scatter, scores.error or 0.0),
        whole=_trend(y, noise),
        half=_trend(y[-max(4, -(-n // 2)) :], noise),
        third=_trend(y[-max(4, -(-n // 3)) :], noise),
    )


def _noise(y: Floats, error: float | None, scatter: float) -> float:
    """Return the standard deviation of the scores around their trend."""
    from_bends = 1.4826 * float(np.median(np.abs(np.diff(y, 2)))) / math.sqrt(6)
    if error is not None:
        return max(error, min(from_bends, scatter))
    return from_bends if y.size < ENOUGH_FOR_SCATTER else min(from_bends, scatter)


def _scatter(y: Floats) -> float:
    """Return the scatter of scores around the curve that rises and then falls and is closest to them."""
    peaks = range(y.size)
    rising, falling = _rising_errors(y), _rising_errors(y[::-1])[::-1]
    squares = min(rising[peak] + falling[peak] for peak in peaks)
    return math.sqrt(squares / max(1, y.size - 2))


def _rising_errors(y: Floats) -> list[float]:
    """Return for each i the sum of squared distances of y₀ … yᵢ from the closest rising sequence."""
    blocks: list[tuple[float, int, float]] = []  # mean, count, sum of squares around the mean
    totals = []
    for value in y:
        mean, count, squares = float(value), 1, 0.0
        while blocks and blocks[-1][0] >= mean:
            other, size, more = blocks.pop()
            squares += more + (other - mean) ** 2 * count * size / (count + size)
            mean = (mean * count + other * size) / (count + size)
            count += size
        blocks.append((mean, count, squares))
        totals.append(sum(block[2] for block in blocks))
    return totals


def _trend(y: Floats, noise: float) -> Trend:
    """Measure the trend of equally spaced scores; its gain has the standard error σ·√(12(n−1)/(n(n+1)))."""
    n = y.size
    i, j = np.triu_indices(n, 1)
    statistic = np.sign(y[j] - y[i]).sum()
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    gain = float(np.median((y[j] - y[i]) / (j - i))) * (n - 1)
    error = noise * math.sqrt(12 * (n - 1) / (n * (n + 1)))
    errors = gain / error if error else math.inf * np.sign(gain) if gain else 0.0
    return Trend(gain, float(errors), float((statistic - np.sign(statistic)) / deviation))
