"""Learning curves against timesteps, seconds or gradient steps; areas under them and times to a threshold.

A curve is (x [k], y [k]), x increasing. y is the return on fresh episodes (`eval_return`) unless a task says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollshape.studies.metrics import MetricsRow
from rollshape.studies.statistics import NUM_RESAMPLES, Floats, summarize

Alignment = Literal["timesteps", "seconds", "gradient_steps"]
ALIGNMENTS: tuple[Alignment, ...] = ("timesteps", "seconds", "gradient_steps")


class Curve(NamedTuple):
    x: Floats
    y: Floats


class Band(NamedTuple):
    """Center and 95 % interval of several curves at each point of a grid; NaN where they are unknown."""

    value: Floats
    low: Floats
    high: Floats


def learning_curve(
    rows: Sequence[MetricsRow], by: Alignment, gradient_steps_per_update: int, metric: str = "eval_return"
) -> Curve:
    """Return a run's metric against timesteps, seconds of collecting and updating (Σ Δtimesteps/sps) or gradient steps.

    Seconds exclude compilation and evaluation, and continue where a run was resumed. Rows without the metric are
    left out.
    """
    timesteps = np.array([row.timesteps for row in rows], np.float64)
    if by == "timesteps":
        x = timesteps
    elif by == "seconds":
        x = np.cumsum(np.diff(timesteps, prepend=0.0) / np.array([row.sps for row in rows], np.float64))
    else:
        x = np.array([row.update for row in rows], np.float64) * gradient_steps_per_update
    y = np.array([row.metric(metric) for row in rows], np.float64)  # None becomes NaN
    known = np.isfinite(x) & np.isfinite(y)  # a log of another library may have no steps/s
    return Curve(x[known], y[known])


def interpolate(curves: Sequence[Curve], grid: ArrayLike) -> Floats:
    """Interpolate curves linearly, [curves, grid]; NaN before a curve's first point and after its last."""
    points = np.asarray(grid, np.float64)
    return np.stack([np.interp(points, x, y, left=np.nan, right=np.nan) for x, y in curves])


def common_grid(curves: Sequence[Curve], points: int = 100) -> Floats:
    """Return equally spaced points from the first x that all curves have to the last that any has."""
    return np.linspace(max(x[0] for x, _ in curves), max(x[-1] for x, _ in curves), points)


def confidence_band(curves: Sequence[Curve], grid: ArrayLike) -> Band:
    """Return center and 95 % interval of the curves at each point of a grid; NaN where not every curve reaches."""
    columns = interpolate(curves, grid).T
    band = np.full((3, len(columns)), np.nan)
    for i, column in enumerate(columns):
        if np.isfinite(column).all():
            summary = summarize(column)
            band[:, i] = [np.nan if end is None else end for end in (summary.value, summary.low, summary.high)]
    return Band(*band)


def area_under(line: Curve, until: float | None = None) -> float:
    """Return the mean height of a curve from its first point to its last or to `until`: ∫ y dx / (x₁ − x₀)."""
    x, y = line
    if until is not None and x[0] < until < x[-1]:
        y = np.append(y[x < until], np.interp(until, x, y))
        x = np.append(x[x < until], until)
    if len(x) == 1:
        return float(y[0])
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


@dataclass(frozen=True)
class ThresholdTime:
    """When runs first reach a threshold. Runs that never do are censored at the end of their curve, not left out.

    `median` is the Kaplan–Meier median, None where fewer than half of the runs reach the threshold; so may be `high`.
    """

    threshold: float
    reached: int
    runs: int
    median: float | None
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def first_reaching(line: Curve, threshold: float) -> tuple[float, bool]:
    """Return (x of the first score at or above the threshold, True), or (the last x, False)."""
    above = np.flatnonzero(line.y >= threshold)
    return (float(line.x[above[0]]), True) if above.size else (float(line.x[-1]), False)


def time_to_threshold(curves: Sequence[Curve], threshold: float, num_resamples: int = NUM_RESAMPLES) -> ThresholdTime:
    """Return the x (timesteps, seconds or gradient steps) at which half of the runs have reached the threshold."""
    first = [first_reaching(line, threshold) for line in curves]
    times, reached = np.array([time for time, _ in first]), np.array([is_reached for _, is_reached in first])
    resamples = np.random.default_rng(0).integers(0, len(first), (num_resamples, len(first)))
    medians = np.sort(_kaplan_meier_medians(times[resamples], reached[resamples]))
    low, high = medians[int(0.025 * num_resamples)], medians[int(0.975 * num_resamples)]
    [median] = _kaplan_meier_medians(times[None], reached[None])
    ends = (float(value) if np.isfinite(value) else None for value in (median, low, high))
    return ThresholdTime(threshold, int(reached.sum()), len(first), *ends)


def _kaplan_meier_medians(times: Floats, reached: NDArray[np.bool_]) -> Floats:
    """Return, for samples [R, n], the first time at which S(t) = Π (1 − dᵢ/nᵢ) ≤ ½; infinite if it never is.

    Ties need no grouping, because (n − d)/n = (n − 1)/n · (n − 2)/(n − 1) ⋯, if events come before censored runs.
    """
    order = np.lexsort((~reached, times), axis=-1)
    times, reached = np.take_along_axis(times, order, -1), np.take_along_axis(reached, order, -1)
    survival = np.cumprod(1 - reached / np.arange(times.shape[1], 0, -1), axis=1)
    half = survival <= 0.5 + 1e-12
    return np.where(half.any(1), np.take_along_axis(times, half.argmax(1)[:, None], 1)[:, 0], np.inf)
